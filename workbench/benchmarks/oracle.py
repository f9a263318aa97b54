"""transformers' Inkling in a process of its own, timed: the rival of ``inkling bench engine``.

``python -m workbench.benchmarks.oracle`` reads one JSON object a line: first the checkpoint, then jobs, each answered by one line.
``{"prompt_tokens": n, "chunk": c, "tokens": k}`` reads a random prompt in chunks of `c` with its cache (0: in one go) and then
answers `k` tokens greedily. It ends with its input.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any


def main() -> None:
    """Load the checkpoint, then do the jobs."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    settings = json.loads(sys.stdin.readline())
    import torch
    from transformers import InklingForConditionalGeneration

    model: Any = InklingForConditionalGeneration.from_pretrained(settings["model"], dtype=torch.float32).eval()
    with torch.inference_mode():
        answer: dict[str, Any] = {"ready": True, "threads": torch.get_num_threads()}
        while True:
            answers.write(json.dumps(answer) + "\n")
            answers.flush()
            if not (line := sys.stdin.readline()):
                return
            answer = run(model, below=settings["below"], **json.loads(line))


def run(model: Any, *, prompt_tokens: int, seed: int, below: int, chunk: int = 0, tokens: int = 1) -> dict[str, Any]:
    """Read a prompt and answer.

    Returns
    -------
    dict
        ``first_s`` until the first token, ``steps_s`` of every further token, ``bytes`` held at most beyond what was held before.
    """
    import numpy as np
    import torch

    ids = torch.from_numpy(np.random.default_rng(seed).integers(0, below, (1, prompt_tokens)))
    status, reset = Path("/proc/self/status"), Path("/proc/self/clear_refs")
    reset.write_text("5")
    before = _bytes(status, "VmRSS")
    began, cache, found = time.perf_counter(), None, None
    for part in ids.split(chunk or prompt_tokens, dim=1):
        found = model(input_ids=part, past_key_values=cache, use_cache=True, logits_to_keep=1)
        cache = found.past_key_values
    assert found is not None
    token = found.logits[:, -1].argmax(-1, keepdim=True)
    first, steps = time.perf_counter() - began, []
    for _ in range(tokens - 1):
        start = time.perf_counter()
        token = model(input_ids=token, past_key_values=cache, use_cache=True).logits[:, -1].argmax(-1, keepdim=True)
        steps.append(time.perf_counter() - start)
    return {"first_s": first, "steps_s": steps, "bytes": _bytes(status, "VmHWM") - before}


def _bytes(status: Path, name: str) -> int:
    return 1024 * int(next(line.split()[1] for line in status.read_text().splitlines() if line.startswith(name)))


if __name__ == "__main__":
    main()
