"""A plan as text and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .plan import Plan

UNVERIFIED = "Unverified on hardware: every figure here is arithmetic; 'inkling engine verify' measures."


def plan_json(plan: Plan) -> dict[str, Any]:
    """All of a plan as JSON values; bytes are of one GPU (or of the machine)."""
    memory, speed = plan.memory, plan.speed
    return {
        "recipe": plan.recipe, "model": plan.model, "fits": plan.fits, "reasons": list(plan.reasons),
        "hardware": {"gpu": plan.hardware.gpu, "count": plan.hardware.count} if plan.hardware else None,
        "context_tokens": plan.context_tokens, "requests": plan.requests,
        "longest_context_tokens": plan.longest_context_tokens, "requests_that_fit": plan.requests_that_fit,
        "memory": {
            "total_bytes": memory.total_bytes, "weights_bytes": memory.weights, "activations_bytes": memory.activations_bytes,
            "graphs_bytes": memory.graphs_bytes, "cache_bytes": memory.cache, "pool_bytes": memory.pool_bytes,
            "pool_blocks": memory.pool_blocks, "block_bytes": memory.layout.block_bytes,
            "global_kv_bytes_per_token": global_kv_bytes(plan),
        },
        "speed": None if speed is None else {
            "prefill_s": speed.prefill_s, "tokens_s": speed.tokens_s, "tokens_s_drafts": speed.tokens_s_drafts,
        },
        "published": plan.published, "assumptions": list(plan.assumptions),
        "verified_on_hardware": plan.hardware is None,
    }  # fmt: skip


def global_kv_bytes(plan: Plan) -> int:
    """Bytes of keys and values that a token adds in all global layers, over all ranks."""
    shape = plan.shape
    return shape.global_layers * shape.kv_heads * 2 * shape.head_dim * plan.settings.cache_bytes


def plan_text(plan: Plan) -> str:
    """A plan for people: verdict, memory, speed, assumptions."""
    where = f"{plan.hardware.count} × {plan.hardware.gpu}" if plan.hardware else "this machine's CPU"
    verdict = "fits" if plan.fits else f"does NOT fit: {'; '.join(plan.reasons)}"
    asked = f"{plan.requests} × {plan.context_tokens:,} tokens"
    lines = [f"{plan.recipe}: {plan.model} on {where}", f"{asked}: {verdict}", ""]
    lines.append(f"longest context    {plan.longest_context_tokens:>12,} tokens")
    lines.append(f"at once            {plan.requests_that_fit:>12,} requests of {plan.context_tokens:,} tokens")
    lines += ["", f"Memory per {'GPU' if plan.hardware else 'rank'}, GB", *_memory_lines(plan), ""]
    if plan.speed is not None:
        lines += ["Speed at most (roofline, one sequence)", *_speed_lines(plan), ""]
    lines += ["Assumptions", *(f"- {item}" for item in plan.assumptions)]
    if plan.hardware is not None:
        lines += ["", UNVERIFIED]
    return "\n".join(lines)


def _memory_lines(plan: Plan) -> list[str]:
    memory = plan.memory
    rows = [(f"weights: {kind}", size) for kind, size in sorted(memory.weights.items(), key=lambda item: -item[1])]
    rows += [("activations", memory.activations_bytes), ("graphs and libraries", memory.graphs_bytes)]
    rows += [(f"cache: {kind}", size) for kind, size in memory.cache.items()]
    rows += [("cache: free for more", max(0, memory.pool_bytes - memory.needed_cache_bytes - memory.cache["retention"]))]
    lines = [f"  {name:<28}{size / 1e9:>9.3f}" for name, size in rows if size]
    lines.append(
        f"  {'cache pool':<28}{memory.pool_bytes / 1e9:>9.3f}   {memory.pool_blocks:,} blocks of {memory.layout.block_bytes:,} "
        "bytes"
    )
    if memory.total_bytes:
        lines.append(f"  {'memory':<28}{memory.total_bytes / 1e9:>9.3f}")
    lines.append(f"  global KV, all ranks: {global_kv_bytes(plan) / 1024:.1f} KiB a token")
    return lines


def _speed_lines(plan: Plan) -> list[str]:
    speed, said = plan.speed, plan.published
    assert speed is not None
    lines = [f"  prefill of {plan.context_tokens:,} tokens: at least {_duration(speed.prefill_s)}"]
    lines.append(f"  decoding without drafts: {speed.tokens_s:,.0f} tokens/s" + _beside(said.get("tokens_s_plain"), speed.tokens_s))
    if speed.tokens_s_drafts is not None:
        beside = _beside(said.get("tokens_s_drafts"), speed.tokens_s_drafts)
        lines.append(f"  decoding with {plan.settings.drafts} drafts: {speed.tokens_s_drafts:,.0f} tokens/s" + beside)
    if at := said.get("measured_context_tokens"):
        lines.append(f"  (published figures: contexts of {at:,.0f} tokens)")
    return lines


def _beside(published: float | None, bound: float) -> str:
    return f" (published: {published:.0f}, {published / bound:.0%} of the bound)" if published else ""


def _duration(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds < 60 else f"{int(seconds // 60)} min {seconds % 60:.0f} s"
