"""Long prompts: log-probabilities as transformers says them (chunked, with its cache), and near-ties of the router explained.

Both sides sum float32 in another order. Where two experts' scores are closer than such rounding the sides may choose differently,
and from that token on, wherever it is attended to, numbers may differ by more than rounding. So: a token may be off by more than
:data:`SAME` only at or behind a choice that differs, and a choice may differ only where its margin is rounding, or where an earlier
one differed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import engine.demo

from .conftest import run_scenarios
from .scenarios import LENGTHS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3_600)]

SAME = 1e-4
TIE = 2e-5
"""Scores are sigmoids of logits near one: their rounding after six layers, ten times over."""

CHUNK = 1_024


@pytest.fixture(scope="module")
def folder() -> Path:
    return engine.demo.unpack_random("demo-few")


@pytest.fixture(scope="module")
def ran(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The engine's answers; one process."""
    arguments = {"dtype": "float32", "block_size": 16, "max_model_len": LENGTHS[-1] + 64, "kv_cache_memory_bytes": 1 << 29}
    return run_scenarios("base", folder, arguments, ["lengths"], tmp_path_factory.mktemp("lengths"))


@pytest.fixture(scope="module")
def model(folder: Path) -> Any:
    import torch
    from transformers import InklingForConditionalGeneration

    return InklingForConditionalGeneration.from_pretrained(folder, dtype=torch.float32).eval()


@pytest.mark.parametrize("tokens", LENGTHS)
def test_every_token_agrees_or_stands_behind_a_near_tie(ran: dict[str, Any], model: Any, tokens: int) -> None:
    prompt = ran["lengths"][str(tokens)]["prompt"]
    wanted, chosen, margins = read(model, prompt)
    off = np.abs(np.array(ran["lengths"][str(tokens)]["logprobs"]) - wanted)
    ours = np.sort(np.load(Path(ran["folder"]) / f"length-{tokens}" / "routing.expert.npy"), axis=-1)
    differs = (ours != np.sort(chosen, axis=-1)).any(-1)
    flipped = np.flatnonzero(differs.any(1))
    first = flipped[0] if len(flipped) else tokens
    if len(flipped):
        assert margins[first][differs[first]].min() <= TIE, f"token {first}: another choice, with a margin of {margins[first]}"
    # A choice that differs later is rounding too, or follows from an earlier one: its margin is then at most what those moved.
    for token in flipped[1:]:
        assert margins[token][differs[token]].min() <= 50 * TIE, f"token {token}: another choice by far, {margins[token]}"
    behind = np.arange(tokens - 1) >= first
    worst = off[~behind].max(initial=0)
    assert worst <= SAME, (
        f"{worst:.2e} at token {int(np.argmax(np.where(behind, 0, off)))}, before any near-tie (the first: {first})"
    )
    # Behind the first one nearly all still agree: what a flip moves fades with the weight its token gets.
    assert np.quantile(off, 0.99) <= SAME, f"of {tokens} tokens {int((off > SAME).sum())} are off, {len(flipped)} behind near-ties"


def read(model: Any, prompt: list[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Log-probability of every next token, chosen experts (t, l, k), and by how much the last chosen one won (t, l)."""
    import torch

    logprobs: list[np.ndarray] = []
    seen: dict[int, list[tuple[np.ndarray, np.ndarray]]] = {}
    handles = [
        layer.mlp.gate.register_forward_hook(_gate(layer.mlp.gate, seen.setdefault(index, [])))
        for index, layer in enumerate(model.model.language_model.layers)
        if hasattr(layer.mlp, "gate")
    ]
    ids, cache = torch.tensor([prompt]), None
    try:
        with torch.inference_mode():
            for start in range(0, len(prompt), CHUNK):
                found = model(input_ids=ids[:, start : start + CHUNK], past_key_values=cache, use_cache=True)
                cache = found.past_key_values
                follows = ids[0, start + 1 : start + CHUNK + 1]
                rows = found.logits[0, : len(follows)].log_softmax(-1)
                logprobs.append(rows.gather(1, follows[:, None])[:, 0].numpy())
    finally:
        for handle in handles:
            handle.remove()
    layers = [[np.concatenate(parts) for parts in zip(*seen[index], strict=True)] for index in sorted(seen)]
    return np.concatenate(logprobs), np.stack([ids for ids, _ in layers], 1), np.stack([margin for _, margin in layers], 1)


def _gate(gate: Any, into: list[tuple[np.ndarray, np.ndarray]]) -> Any:
    def hook(module: Any, args: Any, out: Any) -> None:
        logits, _, ids, _ = out
        ranked = (logits.sigmoid() + gate.e_score_correction_bias).sort(dim=-1, descending=True).values
        into.append((ids.numpy(), (ranked[:, gate.top_k - 1] - ranked[:, gate.top_k]).numpy()))

    return hook
