"""Bringing a rendered context to an engine: blobs once, ids once, and of a longer context only what is new."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import TypeVar

import numpy as np

from .connection import Connection
from .errors import BlobMissing, ContextUnknown
from .protocol import Rendered, Reply, Span
from .protocol.wire import pack_context

T = TypeVar("T")

_HELD = 16
"""Contexts remembered, to send the next one shorter and to find a reply's context again."""

_WORTH_TOKENS = 1024
"""A shared beginning shorter than this is sent again: it is smaller than one more round trip."""


class Uploads:
    """What one client has sent to one engine."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._sent: OrderedDict[str, Rendered] = OrderedDict()
        self._unsure: set[str] = set()  # sent to an engine that is gone

    def moved(self, connection: Connection) -> Uploads:
        """The same contexts, for an engine that holds none of them yet."""
        fresh = Uploads(connection)
        fresh._sent, fresh._unsure = self._sent.copy(), set(self._sent)
        return fresh

    async def send(self, rendered: Rendered, *, anew: bool = False) -> str:
        """Make sure the engine holds a context; its id. With `anew`, its blobs too, whatever was sent before."""
        name = rendered.id
        if name in self._sent and name not in self._unsure and not anew:
            self._sent.move_to_end(name)
            return name
        try:
            if anew:
                raise ContextUnknown("not asked")
            await self._connection.request("GET", f"/workbench/contexts/{name}")
        except (ContextUnknown, BlobMissing):
            await self._send_blobs(rendered)
            await self._send_ids(rendered)
        self._remember(name, rendered)
        return name

    async def holding(self, rendered: Rendered, ask: Callable[[str], Awaitable[T]]) -> T:
        """What `ask` gives for a context's name; asked once more, with all of it sent anew, when the engine has lost something.

        A context or a picture of it may have given way to others since it was sent.
        """
        name = await self.send(rendered)
        try:
            return await ask(name)
        except (ContextUnknown, BlobMissing):
            self.forget(name)
        return await ask(await self.send(rendered, anew=True))

    def forget(self, name: str) -> None:
        """The engine does not hold a context any more."""
        self._sent.pop(name, None)

    def with_reply(self, reply: Reply) -> Rendered:
        """The context a reply answers, with the reply's ids behind it.

        Raises
        ------
        ContextUnknown
            It was not sent by this client, or too long ago.
        """
        rendered = self.sent(reply.context)
        start, last = len(rendered), rendered.spans[-1]
        span = Span(
            start=start, stop=start + len(reply.token_ids), part=None, label="reply", modality="text", message=last.message + 1,
        )  # fmt: skip
        return Rendered(
            token_ids=np.concatenate([rendered.token_ids, reply.token_ids]), spans=(*rendered.spans, span), media=rendered.media,
            image_rule=rendered.image_rule, blobs=rendered.blobs,
        )  # fmt: skip

    def sent(self, name: str) -> Rendered:
        """A context that was sent lately.

        Raises
        ------
        ContextUnknown
            It was not sent by this client, or too long ago.
        """
        rendered = self._sent.get(name)
        if rendered is None:
            raise ContextUnknown(
                f"the context of this reply ({name[:19]}…) is not at hand: render it with the reply added and give that",
                context=name,
            )  # fmt: skip
        return rendered

    def _remember(self, name: str, rendered: Rendered) -> None:
        self._unsure.discard(name)
        self._sent[name] = rendered
        while len(self._sent) > _HELD:
            self._sent.popitem(last=False)

    async def _send_blobs(self, rendered: Rendered) -> None:
        for blob in dict.fromkeys(item.blob for item in rendered.media):
            if (await self._connection.probe("HEAD", f"/workbench/blobs/{blob}")) == 200:
                continue
            content = rendered.blobs.get(blob)
            if content is None:
                part = _part_of(rendered, blob)
                raise BlobMissing(
                    f"the engine does not hold the bytes of {part} ({blob[:19]}…) any more, and neither does this context: add the "
                    "file again", blob=blob, part=part,
                )  # fmt: skip
            await self._connection.request("PUT", f"/workbench/blobs/{blob}", content=content)

    async def _send_ids(self, rendered: Rendered) -> None:
        base, shared = self._longest_shared(rendered)
        if base is not None:
            try:
                frame = pack_context(rendered, base=base, base_tokens=shared)
                await self._connection.request("POST", "/workbench/contexts", content=frame)
                return
            except ContextUnknown:
                self.forget(base)
        await self._connection.request("POST", "/workbench/contexts", content=pack_context(rendered))

    def _longest_shared(self, rendered: Rendered) -> tuple[str | None, int]:
        best: tuple[str | None, int] = (None, _WORTH_TOKENS - 1)
        for name, other in self._sent.items():
            length = min(len(rendered), len(other))
            differ = np.flatnonzero(rendered.token_ids[:length] != other.token_ids[:length])
            shared = int(differ[0]) if len(differ) else length
            if shared > best[1]:
                best = (name, shared)
        return best if best[0] else (None, 0)


def _part_of(rendered: Rendered, blob: str) -> str:
    """What a reader calls the part that a blob belongs to."""
    item = next(item for item in rendered.media if item.blob == blob)
    span = next((span for span in rendered.spans if span.start <= item.start < span.stop), None)
    return f"the {item.kind} {span.label!r}" if span else f"the {item.kind} at token {item.start:,}"
