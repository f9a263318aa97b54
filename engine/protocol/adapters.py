"""Adapters (LoRA) as they cross between client and engine: what an engine takes, and what is loaded."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$"
"""What an adapter may be called: it is a model's name on ``/v1`` and a word of a URL."""

OFF = "this engine runs without adapters: start it with a folder of them (engine.start(…, adapters=FOLDER), --adapters FOLDER)"


class AdapterSupport(BaseModel):
    """Whether an engine takes adapters, and how many.

    Attributes
    ----------
    reason : str or None
        Why not.
    max_rank : int
        Largest rank of any module.
    max_loaded : int
        Adapters loaded at once.
    max_per_step : int
        Different adapters that run in one step; requests with further ones wait.
    folders : tuple of str
        Folders on the engine's machine from which adapters are loaded.
    loaded : tuple of str
        Names, when this was asked.
    """

    model_config = ConfigDict(frozen=True)

    enabled: bool = False
    reason: str | None = OFF
    max_rank: int = 0
    max_loaded: int = 0
    max_per_step: int = 0
    folders: tuple[str, ...] = ()
    loaded: tuple[str, ...] = ()


class AdapterInfo(BaseModel):
    """One loaded adapter.

    Attributes
    ----------
    id : str
        ``sha256:`` of its config and weights: what answered, whatever it is called.
    rank : int
        The largest of any module, as the engine holds it.
    modules : int
        Modules it changes.
    parts : tuple of str
        Of ``attention``, ``experts``, ``shared experts``, ``dense MLP``, ``head``.
    folder : str
        On the engine's machine.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    id: str
    rank: int
    modules: int
    parts: tuple[str, ...]
    size_bytes: int
    folder: str
    loaded_at: str


class AdapterList(BaseModel):
    """Answer of ``GET /workbench/adapters``: what is loaded, and the names that could be."""

    loaded: tuple[AdapterInfo, ...]
    available: tuple[str, ...]


class AdapterBody(BaseModel):
    """Body of ``POST /workbench/adapters``."""

    model_config = ConfigDict(extra="forbid")

    adapter: str = Field(min_length=1, max_length=4096)
    name: str | None = Field(default=None, pattern=NAME)
