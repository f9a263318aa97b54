"""Run scenarios on one real vLLM engine and write down what it said; a process of its own per engine configuration.

``python -m tests.cpu.scenarios <settings.json> <results.json>``: the settings name a checkpoint, engine arguments and scenarios.
Token ids and log-probabilities come back as JSON, captured arrays stay in the given folder. No expectation is held here.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from engine.protocol.intervention_sets import to_json

from .intervention_cases import CASES, MEDIA_CASE, SEEN

# One process: the scheduler can then be told how to split a prompt while the engine runs.
ONE_PROCESS = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0"}

LENGTHS = (4_096, 16_384, 32_768)

GREEDY = {"temperature": 0.0, "max_tokens": 12, "logprobs": 1, "ignore_eos": True}


def text_ids(tokens: int, seed: int = 0) -> list[int]:
    """Random ordinary ids; all below the special ones."""
    return np.random.default_rng(seed).integers(0, 199_998, tokens).tolist()


def picture() -> Any:
    """A small picture with no two equal patches."""
    from PIL import Image

    return Image.fromarray(np.random.default_rng(1).integers(0, 256, (50, 90, 3), dtype=np.uint8))


def recording() -> np.ndarray:
    """0.6 s of a rising tone at 16 kHz."""
    t = np.arange(9_600) / 16_000
    return (0.4 * np.sin(2 * np.pi * (300 + 900 * t) * t)).astype(np.float32)


class Bench:
    """An engine and how to ask it."""

    def __init__(self, settings: dict[str, Any]) -> None:
        from vllm import LLM

        arguments: dict[str, Any] = {
            "enforce_eager": True, "max_num_seqs": 4, "kv_cache_memory_bytes": 1 << 28, "max_model_len": 4096, "max_logprobs": -1,
        }  # fmt: skip
        self.llm = LLM(
            model=settings["model"], worker_extension_cls="engine.kernel.worker.WorkbenchWorker", **arguments | settings["engine"]
        )  # fmt: skip
        self.folder = Path(settings["folder"])
        self._requests = 0
        self.steps = 0

    def run(
        self, prompts: list[Any], *, salts: list[str] | None = None, names: list[str] | None = None, **sampling: Any
    ) -> list[Any]:
        """Outputs of prompts that run together; ids are prompts of their own."""
        from vllm import SamplingParams

        order = []
        for index, prompt in enumerate(prompts):
            self._requests += 1
            name = names[index] if names else f"r{self._requests}"
            prompt = dict(prompt) if isinstance(prompt, dict) else {"prompt_token_ids": prompt}
            prompt["cache_salt"] = salts[index] if salts else f"alone-{self._requests}"
            self.llm.llm_engine.add_request(name, prompt, SamplingParams(**(GREEDY | sampling)))
            order.append(name)
        done: dict[str, Any] = {}
        self.steps = 0
        while self.llm.llm_engine.has_unfinished_requests():
            self.steps += 1
            done |= {output.request_id: output for output in self.llm.llm_engine.step() if output.finished}
        return [done[name] for name in order]

    @property
    def splits(self) -> bool:
        """Whether prompts can be split: the scheduler is in this process."""
        return hasattr(self.llm.llm_engine.engine_core, "engine_core")

    def split(self, tokens: int) -> None:
        """Let no step take more than `tokens` tokens in all; 0 for what the engine was started with."""
        scheduler = self.llm.llm_engine.engine_core.engine_core.scheduler
        scheduler.max_num_scheduled_tokens = tokens or scheduler.scheduler_config.max_num_batched_tokens


def said(output: Any) -> dict[str, Any]:
    """Tokens and log-probabilities of an output as JSON values."""
    answer = output.outputs[0]
    found = {"ids": list(answer.token_ids), "cached": output.num_cached_tokens, "prompt": list(output.prompt_token_ids)}
    if answer.logprobs:
        found["logprobs"] = [step[token].logprob for step, token in zip(answer.logprobs, answer.token_ids, strict=True)]
        found["top"] = [[[i, item.logprob] for i, item in step.items()] for step in answer.logprobs]
    if output.prompt_logprobs:
        found["prompt_logprobs"] = [
            [step[token].logprob, step[token].rank]
            for step, token in zip(output.prompt_logprobs[1:], output.prompt_token_ids[1:], strict=True)
        ]
    return found


def text(bench: Bench) -> Any:
    return said(bench.run([text_ids(300)], prompt_logprobs=1)[0])


def image(bench: Bench) -> Any:
    ids = [200_000, 200_005, 200_010, *text_ids(9, 2)]
    return said(bench.run([{"prompt_token_ids": ids, "multi_modal_data": {"image": picture()}}], prompt_logprobs=1)[0])


def audio(bench: Bench) -> Any:
    ids = [200_000, 200_020, 200_043, 200_010, *text_ids(9, 3)]
    clip = (recording(), 16_000)
    return said(bench.run([{"prompt_token_ids": ids, "multi_modal_data": {"audio": clip}}], prompt_logprobs=1)[0])


def splits(bench: Bench) -> Any:
    found: dict[str, Any] = {}
    for tokens in (0, 1, 2, 3, 4, 5, 16):
        bench.split(tokens)
        found[str(tokens)] = said(bench.run([text_ids(75)])[0]) | {"steps": bench.steps}
    bench.split(0)
    return found


def prefixes(bench: Bench) -> Any:
    """A prefix, then it with tails of one, two and nine tokens, then it again; each answered with and without the cache."""
    prefix, found = text_ids(1040, 4), {}
    for name, tail in {"first": [], "one": text_ids(1, 5), "two": text_ids(2, 6), "nine": text_ids(9, 7), "again": []}.items():
        hit = said(bench.run([prefix + tail], salts=["shared"])[0])
        found[name] = {"hit": hit, "miss": said(bench.run([prefix + tail])[0])}
    return found


def together(bench: Bench) -> Any:
    prompts = [text_ids(length, length) for length in (253, 361, 505, 721)]
    return {
        "alone": [said(bench.run([prompt])[0]) for prompt in prompts],
        "together": [said(output) for output in bench.run(prompts)],
    }


def sampled(bench: Bench) -> Any:
    prompt, many = text_ids(20, 8), {"max_tokens": 150, "logprobs": None}
    return {
        "same": [said(bench.run([prompt], temperature=1.0, seed=7)[0])["ids"] for _ in range(2)],
        "other": said(bench.run([prompt], temperature=1.0, seed=8)[0])["ids"],
        "hot": [said(bench.run([prompt], temperature=2.0, seed=seed, **many)[0])["ids"] for seed in range(4)],
        "top_k": said(bench.run([prompt], temperature=1.5, top_k=3, top_p=0.9, seed=1)[0]),
        "min_p": said(bench.run([prompt], temperature=1.0, min_p=1.0, seed=1)[0])["ids"],
        "all": len(bench.run([prompt], max_tokens=1, logprobs=-1)[0].outputs[0].logprobs[0]),
    }


def constrained(bench: Bench) -> Any:
    from vllm.sampling_params import StructuredOutputsParams

    prompt = text_ids(20, 9)
    free = said(bench.run([prompt])[0])["ids"]
    return {
        "free": free,
        "allowed": said(bench.run([prompt], allowed_token_ids=[11, 22, 33])[0])["ids"],
        "biased": said(bench.run([prompt], logit_bias={77: 100.0})[0])["ids"],
        "penalised": said(bench.run([prompt], logit_bias={77: 100.0}, frequency_penalty=2.0, presence_penalty=2.0)[0])["ids"],
        "repeated": said(bench.run([prompt], repetition_penalty=1.8)[0])["ids"],
        "chosen": bench.run([prompt], structured_outputs=StructuredOutputsParams(choice=["yes", "no"]), ignore_eos=False)[0]
        .outputs[0]
        .text,
        "bad": said(bench.run([prompt], bad_words=[bench.llm.get_tokenizer().decode(free[:1]).strip() or "x"])[0])["ids"],
    }


EVERYTHING = {
    "routing": {"logits": True}, "sconv": {"keep": "channels"},
    "attention": {"queries": [[3, 5], [60, 62], [89, 90]], "layers": "all", "keep": "whole", "profiles": True},
    "residual": {"keep": "vectors", "lens": 5},
}  # fmt: skip
"""Every seam, all there is to see of a prompt of 90 tokens."""


def record(
    bench: Bench, name: str, prompt: Any, tokens: int, plan: dict[str, Any], *, edges: list[int] | None = None,
    salt: str | None = None, others: list[Any] | None = None, items: Any = (),
) -> dict[str, Any]:  # fmt: skip
    """Capture one request, among others and under interventions; the arrays are in the folder of that name."""
    from engine.kernel.prefix_cap import ARGUMENT
    from engine.protocol import CapturePlan

    folder, resolved = bench.folder / name, CapturePlan.from_json(plan).resolve(tokens)
    folder.mkdir()
    spec = {
        "id": name, "request_id": name, "folder": str(folder), "tokens": tokens, "plan": resolved.to_json(), "edges": edges or [0],
        "interventions": [to_json(item) for item in items],
    }  # fmt: skip
    (layout, *_) = bench.llm.collective_rpc("workbench_capture_begin", args=(spec,))
    prompts = [prompt, *(others or [])]
    names, salts = (
        [name, *(f"beside-{name}-{i}" for i in range(len(prompts) - 1))],
        [salt or name, *map(str, range(len(prompts) - 1))],
    )
    first = resolved.first_token(tokens)
    with changed(bench, {name: items} if items else {}):
        outputs = bench.run(prompts, names=names, salts=salts, max_tokens=1, extra_args={ARGUMENT: first})
    ended = bench.llm.collective_rpc("workbench_capture_end", args=(name,))
    return {"layout": layout, "ended": ended, "output": said(outputs[0]), "steps": bench.steps, "folder": name}


def capture(bench: Bench) -> Any:
    """Everything of one request among two others, its prompt split over steps; and with media; and over a cached prefix."""
    from engine.kernel import prefix_cap

    prefix_cap.install()
    prompt, tokens = text_ids(90, 10), 90
    bench.split(17)
    split = record(bench, "split", prompt, tokens, EVERYTHING, others=[text_ids(40, 11), text_ids(55, 12)])
    bench.split(0)
    (model, *_) = bench.llm.collective_rpc("workbench_model")
    found = {"split": split, "model": model, "after": said(bench.run([prompt])[0])}
    plain = {"routing": {}, "sconv": {}, "residual": {}, "attention": {"keep": "whole"}}
    if bench.llm.llm_engine.vllm_config.parallel_config.tensor_parallel_size == 1:
        ids = [200_000, 200_005, 200_010, *text_ids(9, 2)]
        prompt = {"prompt_token_ids": ids, "multi_modal_data": {"image": picture()}}
        found["image"] = record(bench, "image", prompt, 27, plain)
        ids = [200_000, 200_020, 200_043, 200_010, *text_ids(9, 3)]
        prompt = {"prompt_token_ids": ids, "multi_modal_data": {"audio": (recording(), 16_000)}}
        found["audio"] = record(bench, "audio", prompt, 25, plain)
    long = text_ids(1200, 13)
    bench.run([long], salts=["warm"], max_tokens=1)
    ask = {"queries": [[1190, 1192], [1199, 1200]], "layers": "all"}
    tail = {"tokens": [[1185, 1200]]}
    hit = {"attention": {**ask, "keep": "whole"}, "routing": tail, "sconv": {**tail, "keep": "taps"}, "residual": tail}
    found["hit"] = record(bench, "hit", long, 1200, hit, salt="warm")
    pooled, edges = {**ask, "keep": "pooled", "buckets": 7}, [0, 3, 500, 501, 1195]
    found["pooled"] = record(bench, "pooled", long, 1200, {"attention": pooled}, edges=edges, salt="warm")
    top = {**ask, "keep": "topk", "top": 8, "heads": [1, 2]}
    found["topk"] = record(bench, "topk", long, 1200, {"attention": top}, salt="warm")
    return found


def lengths(bench: Bench) -> Any:
    """Long prompts of ids below 4,096: log-probability of every token, and every router's choice."""
    from engine.kernel import prefix_cap

    prefix_cap.install()
    found = {}
    for tokens in LENGTHS:
        prompt = np.random.default_rng(tokens).integers(0, 4_096, tokens).tolist()
        output = bench.run([prompt], prompt_logprobs=0, max_tokens=1)[0]
        logprobs = [step[token].logprob for step, token in zip(output.prompt_logprobs[1:], prompt[1:], strict=True)]
        record(bench, f"length-{tokens}", prompt, tokens, {"routing": {}})
        found[str(tokens)] = {"prompt": prompt, "logprobs": logprobs}
    return found


def intervened(bench: Bench) -> Any:
    """Every intervention alone, split over steps, from the cache, and beside others that must not notice."""
    prompt, found = text_ids(150, 13), {}
    for name, items in CASES.items():
        with changed(bench, {f"case-{name}": items}):
            found[name] = said(bench.run([prompt], names=[f"case-{name}"], prompt_logprobs=1, max_tokens=4)[0])
    found["none"] = said(bench.run([prompt], prompt_logprobs=1, max_tokens=4)[0])
    return found | {"media": _media(bench), "shared": _shared(bench, prompt), "seen": _seen(bench, prompt)}


def _seen(bench: Bench, prompt: list[int]) -> Any:
    """Captures of intervened requests, each split over steps and beside another one."""
    queries, tokens = {"queries": [[10, 11], [47, 49], [100, 150]], "layers": "all"}, len(prompt)
    plan = {
        "routing": {}, "sconv": {"keep": "channels"}, "residual": {}, "attention": {**queries, "keep": "whole"},
    }  # fmt: skip
    if bench.splits:
        bench.split(23)
    found = {
        case: record(bench, f"seen-{case}", prompt, tokens, plan, items=CASES[case], others=[text_ids(40, 11)]) for case in SEEN
    }
    if bench.splits:
        bench.split(0)
    pooled, edges = {"attention": {**queries, "keep": "pooled", "buckets": 9}}, [0, 20, 60, 61]
    found["pooled"] = record(bench, "seen-pooled", prompt, tokens, pooled, edges=edges, items=CASES["mask-heads"])
    return found


def _media(bench: Bench) -> Any:
    ids = [200_000, 200_005, 200_010, 200_000, 200_020, 200_043, 200_010, *text_ids(60, 14)]
    prompt = {"prompt_token_ids": ids, "multi_modal_data": {"image": picture(), "audio": (recording(), 16_000)}}
    with changed(bench, {"media": MEDIA_CASE}):
        return said(bench.run([prompt], names=["media"], prompt_logprobs=1, max_tokens=4)[0])


def _shared(bench: Bench, prompt: list[int]) -> Any:
    """One step holds a request with interventions, another with others and two without; then the same without any."""
    others, long = [text_ids(211, 15), text_ids(90, 16)], text_ids(1040, 17)
    prompts = [others[0], prompt, others[1], prompt]
    names, runs = ["other-1", "left", "other-2", "right"], {}
    for tokens in (0, 23) if bench.splits else (0,):
        if bench.splits:
            bench.split(tokens)
        with changed(bench, {"left": CASES["many"], "right": CASES["force"]}):
            runs[f"changed-{tokens}"] = [said(output) for output in bench.run(prompts, names=names)]
        runs[f"plain-{tokens}"] = [said(output) for output in bench.run(prompts, names=names)]
    if bench.splits:
        bench.split(0)
    with changed(bench, {"hit": CASES["many"]}):
        runs["hits"] = [said(bench.run([long], names=["hit"], salts=["changed"])[0]) for _ in range(2)]
    runs["fresh"] = said(bench.run([long])[0])
    runs["wrapped"] = bench.llm.collective_rpc(_wrapped)
    return runs


def _wrapped(worker: Any) -> int:
    from engine.kernel import taps

    return len(taps._chains)


@contextmanager
def changed(bench: Bench, edits: dict[str, Any]) -> Iterator[None]:
    """Interventions in force for requests by name."""
    for name, items in edits.items():
        bench.llm.collective_rpc("workbench_intervene_begin", args=(name, [to_json(item) for item in items]))
    yield
    for name in edits:
        bench.llm.collective_rpc("workbench_intervene_end", args=(name,))


SCENARIOS: dict[str, Callable[[Bench], Any]] = {
    run.__name__: run
    for run in (text, image, audio, splits, prefixes, together, sampled, constrained, capture, intervened, lengths)
}


def main(settings_path: str, results_path: str) -> None:
    """Run the named scenarios and write their results."""
    settings = json.loads(Path(settings_path).read_text())
    os.environ.update({"HF_HUB_OFFLINE": "1", "VLLM_LOGGING_LEVEL": "WARNING"} | settings.get("environment", {}))
    from . import draft_scenarios

    known, bench = SCENARIOS | draft_scenarios.SCENARIOS, Bench(settings)
    results = {name: known[name](bench) for name in settings["scenarios"]}
    Path(results_path).write_text(json.dumps(results))


if __name__ == "__main__":
    main(*sys.argv[1:])
