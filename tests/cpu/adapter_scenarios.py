"""Adapters on one real vLLM engine: what it said with each, with several at once, in pieces and from the cache.

``python -m tests.cpu.adapter_scenarios <settings.json> <results.json>``: the settings name a checkpoint, adapters (folders as the
kernel copies them) and engine arguments. No expectation is held here.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.cpu.scenarios import GREEDY, Bench, said, text_ids


class AdapterBench(Bench):
    """An engine with adapters; requests name theirs."""

    def __init__(self, settings: dict[str, Any]) -> None:
        from vllm.lora.request import LoRARequest

        super().__init__(settings)
        self.adapters = {
            name: LoRARequest(name, number, folder) for number, (name, folder) in enumerate(settings["adapters"].items(), start=1)
        }
        for adapter in self.adapters.values():
            self.llm.llm_engine.add_lora(adapter)

    def ask(self, asked: list[tuple[str | None, list[int]]], *, salt: str | None = None, **sampling: Any) -> list[dict[str, Any]]:
        """What was said to prompts that run together, each with the adapter it names."""
        from vllm import SamplingParams

        order, done = [], {}
        for name, ids in asked:
            self._requests += 1
            order.append(f"r{self._requests}")
            prompt = {"prompt_token_ids": ids, "cache_salt": salt or order[-1]}
            self.llm.llm_engine.add_request(
                order[-1], prompt, SamplingParams(**(GREEDY | sampling)), lora_request=self.adapters.get(name or "")
            )
        while self.llm.llm_engine.has_unfinished_requests():
            done |= {output.request_id: output for output in self.llm.llm_engine.step() if output.finished}
        return [said(done[name]) for name in order]


def alone(bench: AdapterBench) -> Any:
    """Every adapter by itself, with the log-probabilities of the prompt's tokens, which ask for the head of each."""
    return {name: bench.ask([(name, text_ids(60))], prompt_logprobs=1)[0] for name in (None, *bench.adapters)}


def together(bench: AdapterBench) -> Any:
    """Different prompts and adapters in the same steps, prompts in pieces beside answers."""
    names = [None, "whole", "experts", "head"]
    asked = [(name, text_ids(40 + 7 * number, 20 + number)) for number, name in enumerate(names)]
    found = {"alone": [bench.ask([one])[0] for one in asked]}
    for pieces in (0, 16):
        bench.split(pieces)
        found[f"pieces of {pieces}"] = bench.ask(asked)
    bench.split(0)
    # Log-probabilities of one prompt's tokens, in steps that hold other adapters' tokens too.
    found["prompts"] = bench.ask(asked, prompt_logprobs=1)
    found["prompts alone"] = [bench.ask([one], prompt_logprobs=1)[0] for one in asked]
    return found


def prefixes(bench: AdapterBench) -> Any:
    """One prompt under one salt: by the model, then by an adapter, each twice."""
    prompt = text_ids(700, 30)
    return [bench.ask([(name, prompt)], salt="shared")[0] for name in (None, None, "whole", "whole", "experts")]


def looked(bench: AdapterBench) -> Any:
    """A capture of an adapter's request among others, and scores of its prompt's tokens, in pieces of a prompt."""
    from engine.kernel import prefix_cap
    from engine.protocol import CapturePlan

    prefix_cap.install()
    prompt, found = text_ids(60), {"prompt": text_ids(60)}
    plan = CapturePlan.from_json({"routing": {}, "residual": {"keep": "vectors", "lens": 3}, "attention": {"keep": "whole"}})
    beside = [("experts", text_ids(33, 50)), (None, text_ids(45, 51))]
    bench.split(16)
    for name in ("whole", "head", None):
        running, label = f"r{bench._requests + 1}", str(name)
        folder = bench.folder / f"looked-{label}"
        folder.mkdir()
        spec = {
            "id": label, "request_id": running, "folder": str(folder), "tokens": 60, "plan": plan.resolve(60).to_json(),
        }  # fmt: skip
        bench.llm.collective_rpc("workbench_capture_begin", args=(spec,))
        bench.llm.collective_rpc("workbench_score_begin", args=(running, 1, prompt[1:]))
        bench.ask([(name, prompt), *beside], max_tokens=1)
        (scores, *_) = bench.llm.collective_rpc("workbench_score_end", args=(running,))
        ended = bench.llm.collective_rpc("workbench_capture_end", args=(label,))
        found[label] = {"scores": scores, "ended": ended, "folder": str(folder)}
    bench.split(0)
    return found


def sampled(bench: AdapterBench) -> Any:
    """Hot draws: over a padded vocabulary some would be padding."""
    hot = {"temperature": 2.0, "max_tokens": 150, "logprobs": None}
    return [run["ids"] for name in (None, "whole") for run in bench.ask([(name, text_ids(20, seed)) for seed in range(4)], **hot)]


def unloaded(bench: AdapterBench) -> Any:
    """The model alone before, while and after an adapter is gone."""
    before = bench.ask([(None, text_ids(30, 40))])[0]
    bench.llm.llm_engine.remove_lora(bench.adapters["head"].lora_int_id)
    left = sorted(bench.llm.llm_engine.list_loras())
    return {"before": before, "after": bench.ask([(None, text_ids(30, 40))])[0], "left": left}


SCENARIOS: dict[str, Callable[[AdapterBench], Any]] = {
    run.__name__: run for run in (alone, together, prefixes, looked, sampled, unloaded)
}  # fmt: skip


def main(settings_path: str, results_path: str) -> None:
    """Run the named scenarios and write their results."""
    settings = json.loads(Path(settings_path).read_text())
    os.environ.update({"HF_HUB_OFFLINE": "1", "VLLM_LOGGING_LEVEL": "WARNING"} | settings.get("environment", {}))
    bench = AdapterBench(settings)
    Path(results_path).write_text(json.dumps({name: SCENARIOS[name](bench) for name in settings["scenarios"]}))


if __name__ == "__main__":
    main(*sys.argv[1:])
