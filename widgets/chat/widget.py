"""The notebook side of the chat: a session's state as traits, its page's questions answered, a transcript as static twin.

The answer is read on the session's thread, which sets traits; a busy cell stops the page's questions, not the answer.
"""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

import numpy as np
import traitlets

from engine.protocol import AttentionPlan, CapturePlan
from workbench.chat_sessions import ChatSession
from workbench.errors import SelectionError

from .._esm import css, esm
from .._twinned import TwinnedWidget

if TYPE_CHECKING:
    from engine import Engine
    from engine.protocol import Reply
    from workbench import Context, Conversation

    from ..attention_view.widget import AttentionView
    from ..routing_map.widget import RoutingMap


class Chat(TwinnedWidget):
    """A chat over a context.

    Parameters
    ----------
    engine : Engine
    start : Context or Conversation, optional
        What stands before the first question.
    max_tokens, temperature, logprobs
        As in :meth:`engine.Engine.generate`; the page can change the first two.

    Examples
    --------
    >>> chat = Chat(eng, ctx, max_tokens=8)                            # doctest: +SKIP
    >>> chat.ask("Who is the harbour master?")                         # doctest: +SKIP
    Reply('...', ... tokens, ...)
    >>> chat                                                           # doctest: +SKIP
    Chat(2 turns on this branch, inkling-demo)
    >>> chat.token = 3  # or a press on a token in the page            # doctest: +SKIP
    >>> routing, attention = chat.look_inside()                        # doctest: +SKIP
    >>> routing.selection[0] - int(attention.subject.windows.queries[attention.query])   # doctest: +SKIP
    1
    """

    _esm = esm("chat")
    _css = css("chat")

    meta = traitlets.Dict().tag(sync=True)
    """Model, limits, what stands before the conversation."""
    turns = traitlets.List().tag(sync=True)
    """This branch, whole."""
    live = traitlets.Dict().tag(sync=True)
    """The answer under way; empty when none is."""
    problem = traitlets.Dict().tag(sync=True)
    """What went wrong last; empty when nothing did."""
    settings = traitlets.Dict().tag(sync=True)
    """effort, max_tokens, temperature, logprobs."""
    chosen = traitlets.Unicode("").tag(sync=True)
    """Id of the reply to look inside."""
    token = traitlets.Int(-1).tag(sync=True)
    """Which token of it was chosen in the page, counted from 0; -1 for none."""

    def __init__(
        self, engine: Engine, start: Context | Conversation | None = None, *, max_tokens: int = 256, temperature: float = 1.0,
        logprobs: int | None = 5,
    ) -> None:  # fmt: skip
        self.session = ChatSession(engine, start, max_tokens=max_tokens, temperature=temperature, logprobs=logprobs)
        super().__init__(**self.session.state(), settings=dict(self.session.settings))
        self.session.listen(self._show)

    @property
    def conversation(self) -> Conversation:
        """The tree of turns behind the page; save it, replay it, branch it."""
        return self.session.conversation

    @property
    def reply(self) -> Reply | None:
        """The chosen reply, or the last one on this branch."""
        path = self.conversation.path()
        named = next((turn.reply for turn in self.conversation.turns if turn.id == self.chosen), None)
        return named or next((turn.reply for turn in reversed(path) if turn.reply is not None), None)

    def ask(self, text: str, *, wait: bool = True) -> Reply | None:
        """Ask from Python; the page shows it as if it were typed.

        Parameters
        ----------
        text : str
        wait : bool
            Return when the answer is there.
        """
        self.session.send(text)
        if wait:
            self.session.wait()
        return self.reply if wait else None

    def look_inside(self) -> tuple[RoutingMap, AttentionView]:
        """Routing and attention of the chosen reply, at the token that was chosen in the page (or at its first).

        Costs one prefill of the reply with its prompt.

        Returns
        -------
        RoutingMap, AttentionView
            The first shows that token's experts, the second where the model looked when it chose it.

        Raises
        ------
        SelectionError
            There is no reply yet.
        """
        from ..attention_view.widget import AttentionView
        from ..routing_map.widget import RoutingMap

        reply, engine = self.reply, self.session.engine
        if reply is None:
            raise SelectionError("there is no reply to look inside: ask something first")
        plan = CapturePlan(routing=True, attention=AttentionPlan(queries="reply", layers="all", profiles=True))
        capture = engine.capture(reply, plan)
        t = len(capture) - len(reply.token_ids) + max(0, min(self.token, len(reply.token_ids) - 1))
        # The query that chose a token is the one before it; the nearest, should the plan not have recorded that.
        query = int(np.abs(np.asarray(capture.attention["q"].values) - (t - 1)).argmin())
        return RoutingMap(capture, selection=(t, t + 1)), AttentionView(capture, engine=engine, reply=reply, query=query)

    @traitlets.observe("settings")
    def _set(self, change: dict[str, Any]) -> None:
        known = self.session.settings
        known.update({name: value for name, value in change["new"].items() if name in known})

    def _show(self) -> None:
        with self.hold_sync():
            for name, value in self.session.state().items():
                setattr(self, name, value)

    def _engine(self) -> Engine:
        return self.session.engine

    def _reconnected(self) -> None:
        self.session.problem = {}
        self._show()

    def twin_html(self) -> str:
        rows = "".join(
            f"<p><b>{'You' if turn['role'] == 'user' else 'Inkling' if turn['role'] == 'reply' else turn['role'].title()}</b> "
            f'<span style="white-space:pre-wrap">{html.escape(turn["text"])}</span></p>'
            for turn in self.turns
        )
        return f'<figure class="inkling-twin" style="margin:0">{rows or "<p>Nothing was said yet.</p>"}</figure>'

    def _answer(self, request: Any) -> tuple[dict[str, Any], list[bytes]]:
        return self.session.answer(request)

    def __repr__(self) -> str:
        return f"Chat({len(self.turns)} turns on this branch, {self.meta.get('model')})"
