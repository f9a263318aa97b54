"""Replaying a conversation: the same contexts, the same settings, and, where sampling is determined, the same answers.

What can be compared is compared, and the rest is said: a different tokenizer or image rule gives other ids, another model or kernel
set other numbers, and an answer that was sampled without a seed need not come again. Reads the engine, changes nothing in the
conversation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from engine.protocol import Sampling

if TYPE_CHECKING:
    from engine.protocol import Reply

    from .conversations import Conversation, Turn

What = Literal["context", "engine", "answer", "not compared"]
_IDENTITY = ("model", "revision", "recipe", "adapter", "versions", "engine_args")


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One way in which a turn did not come again.

    Attributes
    ----------
    turn : str
        Id of the answer's turn.
    what : {"context", "engine", "answer", "not compared"}
    detail : str
    """

    turn: str
    what: What
    detail: str

    def __str__(self) -> str:
        return f"turn {self.turn}: {self.what}: {self.detail}"


def replay(conversation: Conversation, engine: Any, *, at: Turn | str | None = None) -> list[Difference]:
    """Ask for every answer again, each behind the turns as they were kept, and list what differs.

    Parameters
    ----------
    engine : Engine
    at : Turn or str, optional
        Only the branch down to this turn; all answers by default.

    Returns
    -------
    list of Difference
        Empty when everything came again token for token. Cost: every answer is generated once more; prefixes are cached.
    """
    turns = conversation.turns if at is None else conversation.path(at)
    found: list[Difference] = []
    for turn in turns:
        if turn.reply is not None and turn.parent is not None:
            found += _turn(conversation, turn, turn.reply, engine)
    return found


def _turn(conversation: Conversation, turn: Turn, reply: Reply, engine: Any) -> list[Difference]:
    context = conversation.context(turn.parent)
    rendered = context.render(engine)
    if rendered.id != reply.context:
        counted = f"{len(rendered):,} tokens here, {reply.usage.prompt_tokens:,} then"
        return [Difference(turn=turn.id, what="context", detail=f"{rendered.id[:19]}… is not {reply.context[:19]}… ({counted})")]
    settings = {key: value for key, value in _sampling(reply).items() if key in Sampling.__slots__ and value is not None}
    if "max_tokens" not in settings:
        return [Difference(turn=turn.id, what="not compared", detail="the answer does not say how it was sampled")]
    adapter = {"adapter": reply.adapter} if getattr(reply, "adapter", None) else {}
    again = engine.generate(rendered, **settings, **adapter)
    found = [Difference(turn=turn.id, what="engine", detail=text) for text in _engines(reply, again)]
    if settings.get("temperature", 1.0) != 0 and settings.get("seed") is None:
        detail = "it was sampled without a seed, so another answer is no difference"
        return [*found, Difference(turn=turn.id, what="not compared", detail=detail)]
    if not np.array_equal(again.token_ids, reply.token_ids):
        found.append(Difference(turn=turn.id, what="answer", detail=_answers(reply, again)))
    return found


def _sampling(reply: Reply) -> dict[str, Any]:
    return dict(reply.provenance.get("sampling") or {})


def _engines(then: Reply, now: Reply) -> list[str]:
    """What the two engines say of themselves that differs."""
    return [
        f"{name} {now.provenance.get(name)} is not {then.provenance.get(name)}"
        for name in _IDENTITY
        if then.provenance.get(name) != now.provenance.get(name)
    ]


def _answers(then: Reply, now: Reply) -> str:
    size = min(len(then.token_ids), len(now.token_ids))
    apart = np.flatnonzero(then.token_ids[:size] != now.token_ids[:size])
    first = int(apart[0]) if len(apart) else size
    return f"from token {first} of {len(then.token_ids)} on: {now.text[:60]!r} instead of {then.text[:60]!r}"
