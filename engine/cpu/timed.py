"""An engine in a process of its own that says how long its steps take: the other end of ``inkling bench runner`` and ``engine``.

``python -m engine.cpu.timed`` reads one JSON object a line. The first names the checkpoint, vLLM's arguments and which runner, and
may say below which id random prompts stay (``below``) and that the model's own time is wanted (``watch``);
every further one is a job, answered by one line of JSON: random prompts of ordinary ids and greedy answers of full length, or given
prompts one after the other and greedy answers to their own end. Nothing is cached, nothing is judged here. It ends with its input.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

ORDINARY_IDS = 199_998
"""Ids below this one are text."""

DEFAULTS: dict[str, Any] = {
    "dtype": "float32", "block_size": 16, "max_model_len": 4096, "max_num_seqs": 8, "kv_cache_memory_bytes": 1 << 28,
    "enforce_eager": True,
}  # fmt: skip


def main() -> None:
    """Start the engine that the first line asks for, then do the jobs."""
    # Whatever vLLM prints goes to standard error: answers have the output to themselves.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    settings = json.loads(sys.stdin.readline())
    os.environ |= {
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0", "HF_HUB_OFFLINE": "1", "VLLM_LOGGING_LEVEL": "WARNING", "VLLM_NO_USAGE_STATS": "1",
    }  # fmt: skip
    if settings["runner"] == "v1":
        os.environ["VLLM_USE_V2_MODEL_RUNNER"] = "0"
    from vllm import LLM

    watch, below = bool(settings.get("watch")), settings.get("below", ORDINARY_IDS)
    worker = "timed_worker.TimedWorker" if watch else "worker.WorkbenchWorker"
    llm = LLM(model=settings["model"], worker_extension_cls=f"engine.kernel.{worker}", **DEFAULTS | settings["args"])
    if watch:
        llm.collective_rpc("workbench_watch")
    answer: dict[str, Any] = {"ready": True, "threads": _threads()}
    while True:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
        # Line by line: every job is sent when the one before it is answered.
        if not (line := sys.stdin.readline()):
            return
        job = json.loads(line)
        if "memory" in job:
            answer = {"bytes": _memory()}
        elif "prompts" in job:
            answer = ask(llm, **job)
        else:
            answer = run(llm, below=below, **job)
            if watch:
                (spent, *_) = llm.collective_rpc("workbench_watch")
                answer |= {"layers_s": spent["layers"], "head_s": spent["head"]}


def run(llm: Any, *, requests: int, prompt_tokens: int, tokens: int, seed: int, below: int = ORDINARY_IDS) -> dict[str, Any]:
    """Generate, and time every step.

    Returns
    -------
    dict
        ``seconds`` and ``tokens`` of the whole job, ``first_s`` until every prompt was done, ``steps_s`` of the steps after that.
    """
    import numpy as np
    from vllm import SamplingParams

    engine, draw = llm.llm_engine, np.random.default_rng(seed)
    options = SamplingParams(temperature=0.0, max_tokens=tokens, ignore_eos=True, detokenize=False)
    for index in range(requests):
        prompt = {"prompt_token_ids": draw.integers(0, below, prompt_tokens).tolist(), "cache_salt": f"{seed}-{index}"}
        engine.add_request(f"{seed}-{index}", prompt, options)
    return _stepped(engine, requests)


def ask(llm: Any, *, prompts: list[list[int]], tokens: int, seed: int) -> dict[str, Any]:
    """Answer one prompt after the other, each alone and to its end or `tokens`; as :func:`run`, summed.

    `tokens` of the answer counts those after the first of each reply, which decoding made.
    """
    from vllm import SamplingParams

    options, steps, done = SamplingParams(temperature=0.0, max_tokens=tokens, detokenize=False), [], 0
    for index, ids in enumerate(prompts):
        name = f"asked-{seed}-{index}"
        llm.llm_engine.add_request(name, {"prompt_token_ids": ids, "cache_salt": name}, options)
        found = _stepped(llm.llm_engine, 1)
        steps += found["steps_s"]
        done += found["tokens"] - 1
    return {"seconds": sum(steps), "tokens": done, "steps_s": steps}


def _stepped(engine: Any, requests: int) -> dict[str, Any]:
    began, steps, answered, done = time.perf_counter(), [], set(), 0
    while engine.has_unfinished_requests():
        decoding, start = len(answered) == requests, time.perf_counter()
        for output in engine.step():
            answered.add(output.request_id)
            done += len(output.outputs[0].token_ids) if output.finished else 0
        if decoding:
            steps.append(time.perf_counter() - start)
    seconds = time.perf_counter() - began
    return {"seconds": seconds, "first_s": seconds - sum(steps), "tokens": done, "steps_s": steps}


def _threads() -> int:
    import torch

    return torch.get_num_threads()


def _memory() -> int:
    """Most memory that this process held since the last time this was asked, in bytes (Linux)."""
    status = Path("/proc/self/status").read_text()
    Path("/proc/self/clear_refs").write_text("5")
    return 1024 * int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")))


if __name__ == "__main__":
    main()
