"""Scenarios about drafting, for :mod:`.scenarios`: each is run with and without drafts, and the answers are compared elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .scenarios import Bench, picture, record, said, text_ids

SHORT = {"logprobs": None}


def lengths(count: int) -> list[int]:
    return np.random.default_rng(5).integers(1, 70, count).tolist()


def few(bench: Bench) -> Any:
    """Answers with log-probabilities, and how many steps a long one took."""
    found = {str(length): said(bench.run([text_ids(length, length)])[0]) for length in (1, 2, 9, 75)}
    long = said(bench.run([text_ids(40, 21)], max_tokens=60, **SHORT)[0])
    return {"answers": found, "long": long["ids"], "steps": bench.steps}


def many(bench: Bench) -> Any:
    """Two hundred prompts, as many at once as the engine takes."""
    prompts = [text_ids(length, seed) for seed, length in enumerate(lengths(200))]
    return [list(output.outputs[0].token_ids) for output in bench.run(prompts, max_tokens=24, **SHORT)]


def some(bench: Bench) -> Any:
    """Twelve prompts and a picture, for engines that are slow."""
    prompts: list[Any] = [text_ids(length, seed) for seed, length in enumerate(lengths(12))]
    prompts.append(with_picture())
    return [list(output.outputs[0].token_ids) for output in bench.run(prompts, max_tokens=24, **SHORT)]


def with_picture() -> dict[str, Any]:
    """A prompt whose picture is fifteen tokens wide."""
    ids = [200_000, 200_005, 200_010, *text_ids(9, 2)]
    return {"prompt_token_ids": ids, "multi_modal_data": {"image": picture()}}


def edges(bench: Bench) -> Any:
    """Prompts split over steps, within pictures too; a step has room for a request's drafts, as vLLM's own settings see to."""
    least, found = bench.llm.llm_engine.vllm_config.num_speculative_tokens + 1, {}
    for tokens in (0, least, least + 1, least + 3, 16):
        bench.split(tokens)
        found[str(tokens)] = [said(bench.run([prompt])[0]) for prompt in (text_ids(75), with_picture())]
    bench.split(0)
    return found


def hits(bench: Bench) -> Any:
    """Prompts whose beginnings are cached, twice each; the first of each pair fills the cache."""
    prefix, found = text_ids(1040, 4), {}
    for name, tail in {"first": [], "one": text_ids(1, 5), "two": text_ids(2, 6), "nine": text_ids(9, 7), "again": []}.items():
        found[name] = said(bench.run([prefix + tail], salts=["shared-drafts"])[0])
    return found


def options(bench: Bench) -> Any:
    """Greedy answers under everything that changes logits: penalties, forbidden words, grammars, a minimum length."""
    from vllm.sampling_params import StructuredOutputsParams

    prompt = text_ids(20, 9)
    free = said(bench.run([prompt], max_tokens=24)[0])["ids"]
    return {
        "penalised": said(bench.run([prompt], repetition_penalty=1.8, frequency_penalty=0.3, max_tokens=24)[0])["ids"],
        "allowed": said(bench.run([prompt], allowed_token_ids=[11, 22, 33, 44])[0])["ids"],
        "bad": said(bench.run([prompt], bad_words=[bench.llm.get_tokenizer().decode(free[2:3]).strip() or "x"])[0])["ids"],
        "chosen": said(bench.run([prompt], structured_outputs=StructuredOutputsParams(choice=["yes", "no"]), ignore_eos=False)[0])[
            "ids"
        ],
        "counted": said(bench.run([prompt], structured_outputs=StructuredOutputsParams(regex="[0-9]{9}"), ignore_eos=False)[0])[
            "ids"
        ],
    }


def drawn(bench: Bench) -> Any:
    """Sampled answers: each seed twice."""
    prompt = text_ids(20, 8)
    return [
        [said(bench.run([prompt], temperature=0.7, top_k=20, seed=seed, max_tokens=24)[0])["ids"] for _ in range(2)]
        for seed in range(3)
    ]


def routed(bench: Bench) -> Any:
    """vLLM's own record of chosen experts, and a capture of the same prompt at the gate; split over steps, then from the cache."""
    from engine.kernel import prefix_cap

    prefix_cap.install()
    prompt = text_ids(90, 10)
    bench.split(17)
    record(bench, "routed", prompt, len(prompt), {"routing": {}})
    first = bench.run([prompt], salts=["routed-again"])[0]
    bench.split(0)
    again = bench.run([prompt], salts=["routed-again"])[0]
    return {
        name: said(output) | {"experts": output.outputs[0].routed_experts.tolist()}
        for name, output in {"first": first, "again": again}.items()
    }


def proposed(bench: Bench) -> Any:
    """An answer with its counts, and what the heads propose over all of it as a prompt that is split over steps."""
    from engine.kernel import prefix_cap

    prefix_cap.install()
    bench.llm.collective_rpc("workbench_drafts")
    answer = said(bench.run([text_ids(40, 21)], names=["counted"], max_tokens=60, **SHORT)[0])
    (counts, *_) = bench.llm.collective_rpc("workbench_acceptance", args=("counted",))
    whole = answer["prompt"] + answer["ids"]
    bench.split(17)
    split = record(bench, "proposed", whole, len(whole), {"drafts": {}}, others=[text_ids(40, 11)])
    bench.split(0)
    (model, *_) = bench.llm.collective_rpc("workbench_model")
    return {"answer": answer, "counts": counts, "split": split, "model": model}


SCENARIOS: dict[str, Callable[[Bench], Any]] = {
    run.__name__: run for run in (few, many, some, edges, hits, options, drawn, routed, proposed)
}  # fmt: skip
