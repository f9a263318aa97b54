"""llama.cpp beside our engine, on a stand-in: it does not know Inkling, so a model of another family and the same sizes is timed.

The family is ``afmoe``: five sliding layers to a global one, a sigmoid router with shared experts, norms of queries and keys. It
has an output gate and rotary positions instead of a relative bias, and no short convolutions: a little less work than Inkling's.
Weights are float32 and random. Nothing can be compared but time.

llama.cpp is no dependency: ``--llama-bench`` names its ``llama-bench``, built at -O3 (the source that comes with the package
llama-cpp-python has it: ``cmake -B build -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON``, then
``cmake --build build --target llama-bench``), and the package ``gguf`` writes the stand-in. Without them this part says so.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import tempfile
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from engine.protocol import places

from ..errors import BenchError
from .bench import Bench
from .engine_sides import NATIVE, TORCH, Sides
from .peak_memory import peak_here

PREFILL = {4_096: (0.9, 1.05), 16_384: (1.25, 1.6), 65_536: (1.6, 2.8)}
"""Least speed over llama.cpp by tokens: with torch, with the native kernel."""

DECODE, ANSWER = (1_024, 16_384), 64
THEIRS = "llama.cpp's stand-in"


def measure(bench: Bench, sides: Sides, *, model: str, program: str, largest: int) -> None:
    """Prefill and decode of both in turns, with as many threads as ours has.

    Raises
    ------
    BenchError
        The package ``gguf`` is not there, or the program fails.
    """
    path = stand_in(Path(model))
    sides.of(NATIVE)
    threads = sides.threads[NATIVE]
    for tokens, aims in PREFILL.items():
        if tokens > largest:
            continue
        rounds = bench.rounds if tokens <= 4_096 else 3
        took = bench.alternate({
            THEIRS: _run(program, path, threads, ["-p", str(tokens), "-n", "0"], tokens),
            NATIVE: sides.asking(NATIVE, _first, requests=1, prompt_tokens=tokens, tokens=1),
            TORCH: sides.asking(TORCH, _first, requests=1, prompt_tokens=tokens, tokens=1),
        }, rounds=rounds, warmup=1 if tokens <= 16_384 else 0)  # fmt: skip
        note = sides.told(NATIVE, rounds=rounds)
        bench.rate(f"prefill, {tokens:,} tokens, {THEIRS}", took[THEIRS], amount=tokens, unit="tokens", note=note)
        for name, aim in ((TORCH, aims[0]), (NATIVE, aims[1])):
            bench.ratio(f"prefill, {tokens:,} tokens: {THEIRS} over {name}", took[THEIRS], took[name], at_least=aim, note=note)
    for context in DECODE:
        if context > largest:
            continue
        rounds = max(3, min(5, bench.rounds))
        took = bench.alternate({
            THEIRS: _run(program, path, threads, ["-p", "0", "-n", str(ANSWER), "-d", str(context)], 1),
            NATIVE: sides.asking(NATIVE, _step, requests=1, prompt_tokens=context, tokens=ANSWER),
        }, rounds=rounds)  # fmt: skip
        note = sides.told(NATIVE, rounds=rounds)
        bench.rate(f"decode at {context:,}, {THEIRS}", took[THEIRS], amount=1, unit="tokens", note=note)
        bench.ratio(f"decode at {context:,}: {THEIRS} over {NATIVE}", took[THEIRS], took[NATIVE], note=note)
    bench.remark(
        f"{THEIRS} is a model of the family afmoe with the same sizes, not Inkling: no relative bias and no short convolutions. "
        f"Its build: {_asked(program, path, threads, ['-p', '16', '-n', '0']).get('build_commit', 'not said')}."
    )


def once(sides: Sides, *, model: str, program: str) -> Callable[[int], dict[str, float]]:
    """What a length costs the stand-in, for :mod:`.engine_growth`; its memory is its process's whole peak."""
    path = stand_in(Path(model))

    def one(tokens: int) -> dict[str, float]:
        sides.of(NATIVE)
        threads = sides.threads[NATIVE]
        prefill = tokens / _asked(program, path, threads, ["-p", str(tokens), "-n", "0"])["avg_ts"]
        told = _asked(program, path, threads, ["-p", "0", "-n", "16", "-d", str(tokens)])
        return {"prefill_s": prefill, "step_s": 1 / told["avg_ts"], "bytes": told["peak_bytes"]}

    return one


def _first(answer: dict[str, Any]) -> float:
    return answer["first_s"]


def _step(answer: dict[str, Any]) -> float:
    return sum(answer["steps_s"]) / len(answer["steps_s"])


def _run(program: str, model: Path, threads: int, what: list[str], tokens: int) -> Callable[[], float]:
    """Seconds for `tokens` tokens, by the program's own clock: its start and its warm-up do not count."""
    return lambda: tokens / _asked(program, model, threads, what)["avg_ts"]


def _asked(program: str, model: Path, threads: int, what: list[str]) -> dict[str, Any]:
    command = [program, "-m", str(model), "-t", str(threads), "-fa", "1", "-r", "1", "-o", "json", *what]
    peak = 0
    with tempfile.TemporaryFile("w+") as said, tempfile.TemporaryFile("w+") as wrong:
        process = subprocess.Popen(command, stdout=said, stderr=wrong, text=True)
        while process.poll() is None:
            # The kernel's own account at the end counts this process too: it is what was forked.
            with contextlib.suppress(BenchError):  # it ended meanwhile
                peak = max(peak, peak_here(process.pid))
            time.sleep(0.05)
        said.seek(0)
        wrong.seek(0)
        try:
            (told,) = json.loads(said.read())
        except ValueError:
            raise BenchError(f"{program} ended with {process.returncode}: {wrong.read().strip()[-300:]}") from None
    return told | {"peak_bytes": peak}


def stand_in(model: Path) -> Path:
    """The stand-in for an Inkling checkpoint, written on first use into the user's cache.

    Raises
    ------
    BenchError
        The package ``gguf`` is not installed, or `model` has no Inkling config.
    """
    try:
        import gguf  # pyright: ignore[reportMissingImports]  # of whoever compares with llama.cpp
    except ImportError:
        raise BenchError("llama.cpp's stand-in is written by the package gguf: pip install gguf") from None
    try:
        sizes = json.loads((model / "config.json").read_text("utf-8"))["text_config"]
    except (OSError, ValueError, KeyError) as problem:
        raise BenchError(f"{model}: no Inkling config there ({problem!r})", path=str(model)) from problem
    path = places.cache_folder() / "benches" / f"{model.name}.afmoe.gguf"
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    writer = gguf.GGUFWriter(partial, "afmoe")
    _describe(writer, sizes)
    for name, shape in _shapes(sizes):
        rng = np.random.default_rng(zlib.crc32(name.encode()))
        weights = np.ones(shape, np.float32) if name.endswith("norm.weight") else rng.standard_normal(shape, np.float32) * 0.05
        writer.add_tensor(name, weights)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    partial.replace(path)
    return path


def _describe(writer: Any, sizes: dict[str, Any]) -> None:
    layers = sizes["num_hidden_layers"]
    writer.add_context_length(sizes["model_max_length"])
    writer.add_embedding_length(sizes["hidden_size"])
    writer.add_block_count(layers)
    writer.add_feed_forward_length(sizes["dense_intermediate_size"])
    writer.add_head_count(sizes["num_attention_heads"])
    writer.add_head_count_kv(sizes["num_key_value_heads"])
    writer.add_key_length(sizes["head_dim"])
    writer.add_value_length(sizes["head_dim"])
    writer.add_rope_dimension_count(sizes["head_dim"])
    writer.add_layer_norm_rms_eps(sizes["rms_norm_eps"])
    writer.add_sliding_window(sizes["sliding_window_size"])
    local = set(sizes["local_layer_ids"])
    writer.add_sliding_window_pattern([layer in local for layer in range(layers)])
    writer.add_leading_dense_block_count(sizes["dense_mlp_idx"])
    writer.add_expert_count(sizes["n_routed_experts"])
    writer.add_expert_used_count(sizes["num_experts_per_tok"])
    writer.add_expert_shared_count(sizes["n_shared_experts"])
    writer.add_expert_feed_forward_length(sizes["moe_intermediate_size"])
    writer.add_expert_weights_scale(sizes["route_scale"])
    writer.add_expert_weights_norm(True)
    writer.add_vocab_size(sizes["vocab_size"])
    writer.add_tokenizer_model("none")


def _shapes(sizes: dict[str, Any]) -> list[tuple[str, tuple[int, ...]]]:
    """Names and shapes of the stand-in's tensors, rows first."""
    width, vocabulary, experts = sizes["hidden_size"], sizes["vocab_size"], sizes["n_routed_experts"]
    head, inner = sizes["head_dim"], sizes["moe_intermediate_size"]
    q, kv = sizes["num_attention_heads"] * head, sizes["num_key_value_heads"] * head
    dense, shared = sizes["dense_intermediate_size"], inner * sizes["n_shared_experts"]
    found: list[tuple[str, tuple[int, ...]]] = [
        ("token_embd.weight", (vocabulary, width)), ("output_norm.weight", (width,)), ("output.weight", (vocabulary, width)),
    ]  # fmt: skip
    for layer in range(sizes["num_hidden_layers"]):
        mine: dict[str, tuple[int, ...]] = {
            "attn_norm": (width,), "post_attention_norm": (width,), "ffn_norm": (width,), "post_ffw_norm": (width,),
            "attn_q": (q, width), "attn_k": (kv, width), "attn_v": (kv, width), "attn_output": (width, q),
            "attn_q_norm": (head,), "attn_k_norm": (head,), "attn_gate": (q, width),
        }  # fmt: skip
        if layer < sizes["dense_mlp_idx"]:
            mine |= {"ffn_gate": (dense, width), "ffn_up": (dense, width), "ffn_down": (width, dense)}
        else:
            mine |= {
                "ffn_gate_inp": (experts, width), "ffn_gate_exps": (experts, inner, width), "ffn_up_exps": (experts, inner, width),
                "ffn_down_exps": (experts, width, inner), "ffn_gate_shexp": (shared, width), "ffn_up_shexp": (shared, width),
                "ffn_down_shexp": (width, shared),
            }  # fmt: skip
            found.append((f"blk.{layer}.exp_probs_b.bias", (experts,)))
        found += [(f"blk.{layer}.{name}.weight", shape) for name, shape in mine.items()]
    return found
