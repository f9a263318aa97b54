"""What every notebook widget does alike: answer its page's questions once, find its engine again, and leave a static twin.

A notebook's server may drop messages, so a page asks again under the same id: what was done for an id is kept, not done twice.

A front end prefers a widget's place even when nothing can fill it, so the twin is a second output put before the widget: a live
widget hides it, a saved notebook and its HTML export show it. Subclasses give ``_answer`` and ``twin_html``; this module knows no
data.
"""

from __future__ import annotations

import base64
import html
from collections import OrderedDict
from typing import Any

import anywidget

from workbench.errors import SelectionError
from workbench.view_requests import answered

REMEMBERED = 64
"""Answers without bytes that are kept for a page that asks again; those with bytes are read again."""


def picture_html(png: bytes, words: str) -> str:
    """A twin that is one picture; `words` are its text alternative."""
    return (
        f'<figure class="inkling-twin" style="margin:0"><img alt="{html.escape(words)}" '
        f'style="max-width:100%;height:auto;background:#fff" src="data:image/png;base64,{base64.b64encode(png).decode()}"></figure>'
    )


class TwinnedWidget(anywidget.AnyWidget):
    """Base of the project's widgets."""

    def __init__(self, **traits: Any) -> None:
        super().__init__(**traits)
        self._remembered: OrderedDict[str, dict[str, Any]] = OrderedDict()
        self.on_msg(self._asked)

    def twin_html(self) -> str:
        """The static twin as HTML, with a text alternative for every picture."""
        raise NotImplementedError

    def _answer(self, request: Any) -> tuple[dict[str, Any], list[bytes]]:
        """Answer one question (``id``, ``verb``, ``args``); whatever is wrong becomes an error answer, never an exception."""
        raise NotImplementedError

    def _engine(self) -> Any:
        """The engine behind this widget, or None."""
        return None

    def _reconnected(self) -> None:
        """The engine is another process now: show it."""

    def _asked(self, _widget: Any, content: Any, _buffers: Any) -> None:
        name = str(content.get("id")) if isinstance(content, dict) else ""
        known, buffers = self._remembered.get(name), []
        if known is None:
            own = isinstance(content, dict) and content.get("verb") in ("alive", "reconnect")
            verbs = {"alive": lambda: {}, "reconnect": self._reconnect}
            known, buffers = answered(content, verbs) if own else self._answer(content)
            if not buffers:
                self._remembered[name] = known
                while len(self._remembered) > REMEMBERED:
                    self._remembered.popitem(last=False)
        self.send(known, buffers)

    def _reconnect(self) -> dict[str, Any]:
        engine = self._engine()
        if engine is None:
            raise SelectionError("this view was made without an engine: there is none to find again")
        engine.reconnect()
        self._reconnected()
        return {"url": engine.url}

    def _repr_mimebundle_(self, **options: Any) -> Any:
        made = super()._repr_mimebundle_(**options)
        if made is None:
            return None
        data, metadata = made
        data["text/html"] = self.twin_html()
        data["text/plain"] = repr(self)
        return data, metadata

    def _ipython_display_(self) -> None:
        """Show the twin, then the widget."""
        from IPython.display import display

        made = self._repr_mimebundle_()
        if made is None:
            return
        data, metadata = made
        twin = data.pop("text/html")
        # The twin first: it is there to be hidden when the live widget appears.
        display({"text/html": twin, "text/plain": repr(self)}, raw=True)
        display(data, metadata=metadata, raw=True)
