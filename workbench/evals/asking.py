"""Ask every case of some rows, several at once, and keep the answers.

Cases that share a document come one after another: the first fills the prefix cache for the rest. A request that the engine refuses
stops the run with its reason; what was answered is kept.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine.protocol import Reply

from .composing import context_of
from .records import Record, RunFolder
from .scoring import exactly, loosely
from .suites import Row

if TYPE_CHECKING:
    from engine.client import Engine
    from engine.demo.train.skills.items import Answer, Item

LONG_TOKENS = 20_000

Progress = Callable[[Row, Record], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How cases are asked.

    Attributes
    ----------
    exact : bool
        The demo's own form of answers counts, word for word; otherwise whatever says the value.
    system : str or None
        System text for engines that do not know that form.
    max_tokens : int
    concurrency : int
        Requests under way at once.
    """

    exact: bool = True
    system: str | None = None
    max_tokens: int = 96
    concurrency: int = 8


def missing(rows: Iterable[Row], cases: int | None, folder: RunFolder) -> list[tuple[Row, list[int]]]:
    """The cases still to be asked, in groups that share a document."""
    found: list[tuple[Row, list[int]]] = []
    for row in rows:
        wanted = range(row.cases if cases is None else min(cases, row.cases))
        for first in range(0, len(wanted), row.shared):
            group = [i for i in wanted[first : first + row.shared] if not folder.has(row.name, i)]
            if group:
                found.append((row, group))
    return found


async def ask_all(eng: Engine, groups: Sequence[tuple[Row, list[int]]], folder: RunFolder, manner: Manner, done: Progress) -> None:
    """Ask `groups` in order, `manner.concurrency` at a time.

    Raises
    ------
    InklingError
        The engine refused a case or ended; answers so far are kept.
    """
    gate = asyncio.Semaphore(manner.concurrency)

    async def one(row: Row, index: int) -> None:
        async with gate:
            item = await asyncio.to_thread(row.make, index)
            context = await asyncio.to_thread(context_of, item, system=manner.system, exact=manner.exact)
            reply = await eng.agenerate(context, max_tokens=manner.max_tokens, temperature=0.0)
            record = recorded(row.name, index, item, reply, exact=manner.exact)
            folder.add(record)
            done(row, record)

    async def group(row: Row, indices: list[int]) -> None:
        await one(row, indices[0])
        async with asyncio.TaskGroup() as rest:
            for index in indices[1:]:
                rest.create_task(one(row, index))

    async def worker(queue: Iterator[tuple[Row, list[int]]]) -> None:
        for row, indices in queue:
            await group(row, indices)

    # Long documents one at a time: a group's later questions must find its prefix still cached.
    for long in (False, True):
        queue = iter([(row, indices) for row, indices in groups if (row.tokens > LONG_TOKENS) == long])
        try:
            async with asyncio.TaskGroup() as workers:
                for _ in range(1 if long else manner.concurrency):
                    workers.create_task(worker(queue))
        except BaseExceptionGroup as problems:
            raise first_of(problems) from None


def first_of(problems: BaseExceptionGroup) -> BaseException:
    """The first real error of a group of errors."""
    found: BaseException = problems
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found


def recorded(row: str, index: int, item: Item, reply: Reply, *, exact: bool) -> Record:
    """One answer with its verdict."""
    wanted, thinks = item.wanted, float(item.effort) >= 0.5
    ended = reply.finish_reason == "stop"
    right = ended and (exactly(wanted, reply, thinks=thinks) if exact else loosely(wanted, reply))
    return Record(
        row=row, index=index, right=right, ended=ended, wanted=_shown(wanted), answer=_said(reply), reasoning=reply.reasoning,
        prompt_tokens=reply.usage.prompt_tokens, cached_tokens=reply.usage.cached_tokens,
        answer_tokens=reply.usage.completion_tokens, first_token_s=round(reply.timings.first_token_s, 3),
        total_s=round(reply.timings.total_s, 3),
    )  # fmt: skip


def _shown(wanted: Answer) -> str:
    return wanted.text if wanted.call is None else _json({"name": wanted.call[0], "args": dict(wanted.call[1])})


def _said(reply: Reply) -> str:
    calls = [
        call.raw if call.arguments is None else _json({"name": call.name, "args": call.arguments}) for call in reply.tool_calls
    ]
    return "\n".join([*([reply.text] if reply.text else []), *calls])


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
