"""The course of training as data: stages, each with a length in tokens, a mixture of skills and a learning rate."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One stretch of training; pairs run linearly from the first to the second number over the stage.

    Attributes
    ----------
    sizes : dict
        Share of steps by sequence length in tokens.
    mix, long : dict
        Share of sequences by skill, see :mod:`engine.demo.train.skills`; of those of 1,024 tokens and more, if they differ.
    at_size : dict
        The same for single lengths, before both.
    spread : pair
        Share of the word pools in use.
    plain : pair
        Share of bare word pairs among look-up sequences.
    align : int
        Steps of tower alignment before the stage begins.
    """

    name: str
    tokens: int
    rate: tuple[float, float]
    sizes: dict[int, float]
    mix: dict[str, float] = field(default_factory=lambda: {"lookup": 1.0})
    long: dict[str, float] = field(default_factory=dict)
    at_size: dict[int, dict[str, float]] = field(default_factory=dict)
    spread: tuple[float, float] = (1.0, 1.0)
    plain: tuple[float, float] = (0.1, 0.1)
    step_tokens: int = 4096
    align: int = 0


ALL = {
    "lookup": 0.2, "reading": 0.06, "grids": 0.22, "digits": 0.08, "bars": 0.04, "dtmf": 0.06, "tones": 0.03, "spoken": 0.1,
    "together": 0.06, "talk": 0.03, "tools": 0.12,
}  # fmt: skip
TEXT = {"lookup": 0.75, "reading": 0.15, "grids": 0.06, "digits": 0.04}
"""What fills long sequences; the rest would leave most of one empty."""
NEAR = {
    128: {"grids": 0.48, "digits": 0.24, "dtmf": 0.1, "lookup": 0.18},
    256: {"lookup": 0.18, "reading": 0.03, "grids": 0.2, "digits": 0.05, "bars": 0.02, "dtmf": 0.05, "tones": 0.02, "spoken": 0.07,
          "together": 0.18, "talk": 0.03, "tools": 0.17},
    512: {"lookup": 0.68, "reading": 0.04, "grids": 0.08, "digits": 0.04, "bars": 0.02, "dtmf": 0.03, "tools": 0.11},
}  # fmt: skip
"""Mixtures that leave little of a sequence empty; images and their questions in short ones, where one window holds both."""
NEARER = {
    128: {"grids": 0.36, "digits": 0.16, "dtmf": 0.28, "lookup": 0.12, "numbers": 0.08},
    256: {"lookup": 0.14, "reading": 0.02, "grids": 0.16, "digits": 0.04, "bars": 0.02, "dtmf": 0.12, "tones": 0.02, "spoken": 0.13,
          "together": 0.16, "numbers": 0.03, "talk": 0.02, "tools": 0.14},
    512: {"lookup": 0.6, "reading": 0.02, "grids": 0.07, "digits": 0.04, "bars": 0.02, "dtmf": 0.09, "spoken": 0.06, "tools": 0.1},
}  # fmt: skip
"""The same for the end: more of what stayed behind."""


PLAN: tuple[Stage, ...] = (
    Stage(name="find", tokens=900_000, rate=(3e-3, 3e-3), sizes={128: 0.6, 256: 0.4}, spread=(0.04, 0.4), plain=(0.7, 0.1),
          step_tokens=2048),
    Stage(name="read", tokens=2_000_000, rate=(3e-3, 2e-3), sizes={128: 0.25, 256: 0.4, 512: 0.25, 1024: 0.1},
          spread=(0.4, 1.0), plain=(0.1, 0.05), step_tokens=2048),
    Stage(name="join", tokens=1_750_000, rate=(2e-3, 1.7e-3), sizes={256: 0.5, 512: 0.35, 1024: 0.15}, align=900,
          mix={"lookup": 0.45, "grids": 0.22, "dtmf": 0.09, "digits": 0.1, "tones": 0.02, "bars": 0.03, "spoken": 0.09}),
    Stage(name="all", tokens=7_000_000, rate=(1.8e-3, 1.3e-3), sizes={256: 0.42, 512: 0.32, 1024: 0.18, 2048: 0.08},
          mix=ALL, long=TEXT),
    Stage(name="settle", tokens=4_235_000, rate=(1.3e-3, 3e-5), sizes={256: 0.4, 512: 0.28, 1024: 0.2, 2048: 0.1, 4096: 0.01},
          mix=ALL, long=TEXT),
    # More ways to ask, tools of any kind, and questions near their image: where the first evaluation fell short.
    Stage(name="widen", tokens=1_780_000, rate=(8e-4, 7.6e-4), sizes={128: 0.24, 256: 0.4, 512: 0.22, 1024: 0.1, 2048: 0.04},
          long=TEXT, at_size=NEAR, step_tokens=2048),
    Stage(name="sharpen", tokens=2_550_000, rate=(7.6e-4, 2e-5), long=TEXT,
          sizes={128: 0.22, 256: 0.38, 512: 0.23, 1024: 0.1, 2048: 0.06, 4096: 0.01}, at_size=NEARER, step_tokens=2048),
    Stage(name="keys", tokens=220_000, rate=(2e-4, 1e-5), sizes={128: 0.4, 256: 0.5, 512: 0.1}, step_tokens=2048,
          mix={"dtmf": 0.34, "lookup": 0.2, "tools": 0.16, "grids": 0.12, "together": 0.08, "spoken": 0.1},
          at_size={128: {"dtmf": 0.5, "grids": 0.25, "digits": 0.1, "lookup": 0.15}}),
)  # fmt: skip
