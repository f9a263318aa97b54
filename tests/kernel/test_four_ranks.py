"""Four tensor-parallel ranks on one CPU: what they say is what one model says, and everything clients do works on them.

Needs 10 GB free and several minutes; the ranks share whatever cores there are.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from numpy.typing import NDArray

import engine
from engine import demo, recipes, starting
from engine.protocol import Reply
from workbench import CapturePlan, Context, samples

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

FREE_BYTES = 10_000_000_000
"""What the recipe asks for, and this process; the model that it is compared with is loaded afterwards."""

ORDER = 2e-3
"""Of a log-probability: float32 sums over ranks in another order (test_demo_answers bounds the same for one rank)."""


GREEDY: dict[str, Any] = {"max_tokens": 8, "temperature": 0}


def context(*, image: bool = False) -> Context:
    made = Context(effort="none")
    made.add_document(samples.paths()["document"])
    if image:
        made.add_image(samples.paths()["image"])
    made.ask(samples.QUESTION)
    return made


def test_four_ranks_answer_as_one_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = starting.available_memory_bytes() or 0
    if free < FREE_BYTES:
        pytest.skip(f"{free / 1e9:.1f} GB are free, this needs {FREE_BYTES / 1e9:.0f}")
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.setenv("INKLING_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("INKLING_ENGINE_URL", raising=False)
    eng = engine.start("demo-tp4")
    try:
        kernel = psutil.Process(engine.list()[0].presence.pid)
        family = [kernel, *kernel.children(recursive=True)]
        assert sum("Worker" in " ".join(one.cmdline()) for one in family) == 4
        reply = eng.generate(context(), **GREEDY, logprobs=1)
        seen = eng.generate(context(image=True), **GREEDY)
        warm = eng.generate(context(image=True), **GREEDY)
        forced = eng.generate(context(), output={"choice": ["yes", "no"]}, max_tokens=8, temperature=1.0)
        capture = eng.capture(context(), CapturePlan(routing=True, residual=True))
        used = sum(one.memory_full_info().pss for one in family)
        sys.stderr.write(f"demo-tp4 holds {used / 1e9:.2f} GB in {len(family)} processes, shared pages counted once\n")
        assert used < recipes.load("demo-tp4").memory_bytes
    finally:
        eng.stop()
    assert_as_one_model(context().render(eng.info).token_ids, reply)
    assert warm.usage.cached_tokens > 0
    assert warm.token_ids.tolist() == seen.token_ids.tolist()
    assert forced.text in ("yes", "no")
    assert capture.routing.sizes["t"] == capture.residual.sizes["t"] == len(context().render(eng.info))


def assert_as_one_model(prompt: NDArray[np.uint32], reply: Reply) -> None:
    """The answer is transformers' of the same weights, whole in one process."""
    import torch
    from transformers import InklingForConditionalGeneration

    folder = demo.unpack_random("demo-tp4")
    model = InklingForConditionalGeneration.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    ids = np.concatenate([prompt, reply.token_ids]).astype(np.int64)
    with torch.no_grad():
        logits = model(input_ids=torch.from_numpy(ids)[None]).logits[0, len(prompt) - 1 : -1, : demo.shape.VOCABULARY].float()
    theirs = logits.log_softmax(-1)
    chosen = theirs[torch.arange(len(reply.token_ids)), torch.from_numpy(ids[len(prompt) :])]
    assert [item.logprob for item in reply.logprobs] == pytest.approx(chosen.tolist(), abs=ORDER)
    assert (theirs.max(-1).values - chosen).max() < ORDER, "the best choice, or one that is as good"
