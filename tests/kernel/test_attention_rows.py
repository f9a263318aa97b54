"""Attention rows from queries, relative logits and paged keys, against the definition in float64; no engine."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from engine.cpu.attention import gather
from engine.kernel import attention_rows as module
from engine.kernel.attention_rows import Wanted, attention_rows

TOKENS, HEADS, GROUPS, WIDTH, EXTENT = 83, 4, 2, 8, 24
QUERIES = [0, 5, 6, 40, 41, 82]


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of this size cross many chunks, and queries come in several groups."""
    monkeypatch.setattr(module, "KEYS", 16)
    monkeypatch.setattr(module, "CHUNK_VALUES", 16 * 4 * 2)
    monkeypatch.setattr(module, "WHOLE_VALUES", TOKENS * 4 * 2)


class Case:
    """Random inputs, and the row by its definition."""

    def __init__(self, *, window: int = 0, hidden: tuple[tuple[tuple[int, int], ...], ...] = ()) -> None:
        random = np.random.default_rng(3)
        self.window, self.hidden = window, hidden
        self.tau = np.array([1.0, 1.0, 1.1, 1.3, 1.3, 1.6], np.float32) if not window else np.ones(6, np.float32)
        # Inputs come with the factor on them, as the kernels have them.
        self.q = random.normal(0, 1.5, (6, HEADS, WIDTH)).astype(np.float32) * self.tau[:, None, None]
        self.relative = random.normal(0, 1.0, (6, HEADS, EXTENT)).astype(np.float32) * self.tau[:, None, None]
        self.keys = random.normal(0, 1.5, (HEADS // GROUPS, TOKENS, WIDTH)).astype(np.float32)

    def rows(self, wanted: Wanted, heads: list[int] | None = None) -> dict[str, np.ndarray]:
        keys = torch.from_numpy(self.keys)
        return attention_rows(
            torch.from_numpy(self.q), torch.from_numpy(self.relative), torch.from_numpy(self.tau), torch.tensor(QUERIES),
            lambda start, stop: keys[:, start:stop], wanted, heads=heads or list(range(HEADS)), groups=GROUPS, scale=1 / WIDTH,
            window=self.window, hidden=[self.hidden[head] for head in heads or range(HEADS)] if self.hidden else (),
        )  # fmt: skip

    def dense(self) -> dict[str, np.ndarray]:
        """Weights, content and bias, shape (q, h, t), float64; NaN where nothing is seen."""
        keys = np.repeat(self.keys, GROUPS, axis=0).astype(np.float64)
        content = np.einsum("qhc,hkc->qhk", self.q.astype(np.float64), keys) / WIDTH / self.tau[:, None, None]
        at, key = np.array(QUERIES)[:, None], np.arange(TOKENS)
        distance = at - key
        near = (distance >= 0) & (distance < EXTENT)
        index = np.clip(distance, 0, EXTENT - 1)
        bias = np.take_along_axis(self.relative.astype(np.float64), np.broadcast_to(index[:, None], (6, HEADS, TOKENS)), 2)
        bias = np.where(near[:, None], bias, 0) / self.tau[:, None, None]
        seen = (distance >= 0) & ((distance < self.window) if self.window else True)
        seen = np.broadcast_to(seen[:, None], content.shape).copy()
        for head, spans in enumerate(self.hidden):
            for start, stop in spans:
                seen[:, head] &= ~((at >= stop) & (key >= start) & (key < stop))
        logits = np.where(seen, self.tau[:, None, None] * (content + bias), -np.inf)
        weight = np.exp(logits - logits.max(-1, keepdims=True))
        weight /= weight.sum(-1, keepdims=True)
        return {"weight": weight, "content": np.where(seen, content, np.nan), "bias": np.where(seen, bias, np.nan)}


# Spans that cross chunks, lie within one, begin the context, end after some queries and before others; a head without any.
HIDDEN = (((14, 40),), (), ((0, 3), (17, 19)), ((33, 41), (41, 82)))
CASES = {
    "global": {}, "local": {"window": EXTENT}, "hidden": {"hidden": HIDDEN}, "hidden local": {"window": EXTENT, "hidden": HIDDEN},
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_whole_rows(case: str) -> None:
    this = Case(**CASES[case])
    found, want = this.rows(Wanted("whole", TOKENS)), this.dense()
    for name in ("weight", "content", "bias"):
        np.testing.assert_allclose(found[name], want[name], atol=1e-5)
    np.testing.assert_allclose(found["weight"].sum(-1), 1, atol=1e-6)


@pytest.mark.parametrize("case", CASES)
def test_pooled_rows_are_sums_of_whole_ones(case: str) -> None:
    this, edges = Case(**CASES[case]), np.array([0, 1, 15, 16, 17, 40, 64, 80])
    found, want = this.rows(Wanted("pooled", TOKENS, edges=edges)), this.dense()
    for name in ("weight", "content", "bias"):
        value = want["weight"] * (1 if name == "weight" else np.nan_to_num(want[name]))
        np.testing.assert_allclose(found[name], np.add.reduceat(value, edges, axis=-1), atol=1e-5)


@pytest.mark.parametrize("case", CASES)
def test_topk_rows_are_the_largest(case: str) -> None:
    this = Case(**CASES[case])
    found, want = this.rows(Wanted("topk", TOKENS, top=5), heads=[1, 3]), this.dense()
    weight = want["weight"][:, [1, 3]]
    order = np.argsort(-weight, axis=-1, kind="stable")[..., :5]
    np.testing.assert_allclose(found["weight"], np.take_along_axis(weight, order, -1), atol=1e-6)
    real = found["key"] >= 0
    # A row that sees fewer keys than were asked for says so.
    np.testing.assert_array_equal(real.sum(-1), np.minimum((~np.isnan(want["content"][:, [1, 3]])).sum(-1), 5))
    for name in ("content", "bias"):
        expected = np.take_along_axis(want[name][:, [1, 3]], np.maximum(found["key"], 0).astype(np.int64), -1)
        np.testing.assert_allclose(found[name][real], expected[real], atol=1e-5)


@pytest.mark.parametrize("case", CASES)
def test_summaries(case: str) -> None:
    this = Case(**CASES[case])
    found, want = this.rows(Wanted("pooled", TOKENS, edges=np.array([0]))), this.dense()
    p, content, bias = want["weight"], np.nan_to_num(want["content"]), np.nan_to_num(want["bias"])
    distance = (np.array(QUERIES)[:, None] - np.arange(TOKENS))[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        np.testing.assert_allclose(found["entropy"], -np.where(p > 0, p * np.log2(p), 0).sum(-1), atol=1e-5)
        plain = np.where(np.isnan(want["content"]), 0, np.exp(this.tau[:, None, None] * content))
        plain /= plain.sum(-1, keepdims=True)
        np.testing.assert_allclose(found["bias_bits"], np.where(p > 0, p * np.log2(p / plain), 0).sum(-1), atol=1e-5)
    np.testing.assert_allclose(found["distance"], (p * distance).sum(-1), atol=1e-4)
    np.testing.assert_allclose(found["inside"], (p * (distance < EXTENT)).sum(-1), atol=1e-5)
    np.testing.assert_allclose(found["inside_content"], (plain * (distance < EXTENT)).sum(-1), atol=1e-5)
    np.testing.assert_allclose(found["size_content"], (p * abs(content)).sum(-1), atol=1e-5)
    np.testing.assert_allclose(found["size_bias"], (p * abs(bias)).sum(-1), atol=1e-5)


def test_keys_are_read_out_of_their_pages() -> None:
    keys = np.random.default_rng(0).normal(size=(2, 50, 3)).astype(np.float32)
    page, blocks = 8, torch.tensor([4, 0, 6, 2, 5, 1, 3])
    cache = torch.full((7, page, 2, 3), torch.nan)
    for position in range(50):
        cache[blocks[position // page], position % page] = torch.from_numpy(keys[:, position])
    for start, stop in ((0, 50), (3, 4), (7, 17), (48, 50)):
        np.testing.assert_array_equal(gather(cache, blocks, start, stop).numpy(), keys[:, start:stop])
