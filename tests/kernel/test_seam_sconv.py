"""Recording a convolution from its inputs and the paged cache, on real files: the reference is torch's conv1d; no engine."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from engine.kernel import seam_sconv
from engine.kernel.batch_rows import Rows
from engine.kernel.edits import compile_edits
from engine.kernel.recording import Selection, TokenRecorder
from engine.kernel.seam_sconv import SconvSeam
from engine.protocol import Architecture, CapturePlan, MaskSpan, ScaleSconv, SconvPlan
from engine.protocol.costs import entries

TOKENS, HEADS, WIDTH, PAGE = 45, 2, 4, 4
SHAPE = Architecture(
    layers=1, global_layers=(0,), moe_layers=(), experts=0, experts_per_token=0, sinks=0, hidden=HEADS * WIDTH, vocabulary=1,
    heads=2, kv_heads=HEADS, local_kv_heads=HEADS, head_dim=WIDTH, window=8, extent=8, conv_taps=4,
)  # fmt: skip
ITEMS = {
    "as it is": (),
    "scaled": (ScaleSconv(factor=-0.5, sites=("v",), taps=(0, 2)),),
    "cut": (MaskSpan(start=5, stop=9, sconv=True), MaskSpan(start=20, stop=21, sconv=True)),
    "both": (ScaleSconv(factor=2.0), MaskSpan(start=17, stop=30, sconv=True)),
}


def expected(x: torch.Tensor, weight: torch.Tensor, case: str) -> torch.Tensor:
    """What each tap adds, (tap, t, c), by the definition."""
    factors = torch.ones(TOKENS, 4)
    for item in ITEMS[case]:
        if isinstance(item, ScaleSconv):
            for back in range(4) if item.taps == "all" else item.taps:
                factors[:, 3 - back] *= item.factor
        else:
            for t in range(item.stop, TOKENS):
                for back in range(1, 4):
                    if item.start <= t - back < item.stop:
                        factors[t, 3 - back] = 0
    padded = torch.cat([torch.zeros(3, x.shape[1]), x])
    return torch.stack([factors[:, tap, None] * weight[:, tap] * padded[tap : tap + TOKENS] for tap in range(4)])


@pytest.mark.parametrize("step", [1, 7, 45])
@pytest.mark.parametrize("case", ITEMS)
def test_what_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str, step: int) -> None:
    monkeypatch.setattr(seam_sconv, "CACHED_VALUES", 16 * HEADS * WIDTH)  # several blocks in the largest step
    random = torch.Generator().manual_seed(5)
    x = torch.randn(TOKENS, HEADS * WIDTH, generator=random)
    weight = torch.randn(HEADS * WIDTH, 1, 4, generator=random)
    plan = CapturePlan(sconv=SconvPlan(sites=("v",), keep="channels", tokens=(range(2, 11), range(14, TOKENS)))).resolve(TOKENS)
    found = entries(plan, SHAPE, TOKENS)["sconv"]
    recorder = TokenRecorder(tmp_path, "sconv", found, Selection(plan.sconv.tokens), [0])
    watch: Any = SimpleNamespace(rows=None, begin=[], end=[], sconv=lambda handler: None)
    edits = compile_edits(ITEMS[case], SHAPE)
    seam = SconvSeam(watch, recorder, plan.sconv, SHAPE, rank=0, ranks=1, edits=edits)
    module: Any = SimpleNamespace(weight=weight, stream_idx=0, owner=SimpleNamespace(stream_ranges={0: (3, WIDTH)}))
    blocks = torch.randperm(12, generator=random)
    cache = torch.full((12, HEADS, PAGE, 9), torch.nan)
    for t in range(0, TOKENS, step):
        part = x[t : t + step]
        # Another request's row stands before this one's in the step.
        watch.rows = Rows(1, 1, 1 + len(part), t)
        recorder.begin(watch.rows)
        own = torch.cat([torch.full((1, HEADS * WIDTH), torch.nan), part])
        seam._at_sconv(0, "v", module, own, cache, torch.stack([blocks.flip(0), blocks]))
        recorder.end()
        for position in range(t, t + len(part)):
            cache[blocks[position // PAGE], :, position % PAGE, 3 : 3 + WIDTH] = x[position].view(HEADS, WIDTH)
    assert recorder.finish() == ({"sconv": (40, 40)}, [])
    rows = [*range(2, 11), *range(14, TOKENS)]
    taps = expected(x, weight[:, 0], case)[:, rows].numpy()
    term, given = taps.sum(0), x[rows].numpy()
    if case == "as it is":
        plain = torch.nn.functional.conv1d(x.T[None], weight, padding=3, groups=HEADS * WIDTH)[0, :, :TOKENS].T
        np.testing.assert_allclose(term, plain[rows].numpy(), atol=1e-5)
    arrays = {name: np.load(tmp_path / f"sconv.{name}.npy")[:, 0, 0] for name in ("input", "term", "cosine", "by_tap")}
    norm, own_norm = np.linalg.norm(term, axis=1), np.linalg.norm(given, axis=1)
    np.testing.assert_allclose(arrays["input"], own_norm, rtol=1e-5)
    np.testing.assert_allclose(arrays["term"], norm, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(arrays["cosine"], (term * given).sum(1) / (norm * own_norm), atol=1e-5)
    np.testing.assert_allclose(arrays["by_tap"], ((taps * term).sum(-1) / norm).T, atol=1e-5)
    np.testing.assert_allclose(np.load(tmp_path / "sconv.channel_term.npy")[:, 0, 0], term, atol=1e-5)
    np.testing.assert_allclose(np.load(tmp_path / "sconv.channel_input.npy")[:, 0, 0], given, atol=1e-6)
