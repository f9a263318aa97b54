"""An answer as a page shows it: JSON values, and no more than a page draws. Knows no conversation and no widget."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .token_text import token_text

if TYPE_CHECKING:
    from engine.protocol import Reply, TokenLogprob


def reply_json(reply: Reply) -> dict[str, Any]:
    """An answer as a page shows it: what it says, what it cost, and how many tokens have a probability to show."""
    return {
        "text": reply.text, "reasoning": reply.reasoning, "finish_reason": reply.finish_reason, "notices": list(reply.notices),
        "tools": [
            {"name": call.name, "arguments": call.arguments, "raw": call.raw, "problem": call.problem} for call in reply.tool_calls
        ],
        "usage": {
            "prompt_tokens": reply.usage.prompt_tokens, "cached_tokens": reply.usage.cached_tokens,
            "completion_tokens": reply.usage.completion_tokens,
        },
        "timings": {"first_token_s": reply.timings.first_token_s, "total_s": reply.timings.total_s},
        "tokens": len(reply.logprobs),
    }  # fmt: skip


def tokens_json(reply: Reply) -> list[dict[str, Any]]:
    """Each token with its probability and alternatives: many times the answer's text, so a page asks when somebody looks."""
    return [_token(token) for token in reply.logprobs]


def _token(token: TokenLogprob) -> dict[str, Any]:
    others = [[token_text(other), chance] for other, chance in token.alternatives.items() if other != token.token_id]
    return {"text": token_text(token.token_id), "logprob": token.logprob, "alternatives": others}
