"""The notebook side of the composer: a context as state, its page's questions answered, its budget as static twin."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

import traitlets

from workbench.composing_sessions import ComposingSession

from .._esm import css, esm
from .._twinned import TwinnedWidget

if TYPE_CHECKING:
    from engine import Engine
    from engine.protocol import EngineInfo
    from workbench import Context


class Composer(TwinnedWidget):
    """Compose a context in the page.

    Parameters
    ----------
    context : Context, optional
        Edited in place; a new one by default. After changing it from Python call :meth:`refresh`.
    engine : Engine or EngineInfo, optional
        Whose limits and image rule count, and who says what is cached.
    max_tokens : int
        Reserved for the answer.

    Examples
    --------
    >>> from workbench import Context
    >>> ctx = Context()
    >>> _ = ctx.ask("Which berth is free?")
    >>> composer = Composer(ctx)
    >>> composer.state["entries"][0]["name"], composer.context is ctx
    ('question', True)
    """

    _esm = esm("composer")
    _css = css("composer")

    state = traitlets.Dict().tag(sync=True)
    """Entries, sections, totals, tree, settings, history, notes; see :mod:`workbench.composing_sessions`."""

    def __init__(self, context: Context | None = None, engine: Engine | EngineInfo | None = None, *, max_tokens: int = 256) -> None:
        if context is not None and not hasattr(context, "layout"):
            raise TypeError(f"Composer takes a Context, not {type(context).__name__}")
        self.session = ComposingSession(context, engine, max_tokens=max_tokens)
        super().__init__(state=self.session.state())
        self.session.listen(self._show)

    @property
    def context(self) -> Context:
        """What is being composed."""
        return self.session.context

    def refresh(self) -> None:
        """Show the context as it is now."""
        self._show(self.session.state())

    def _show(self, state: dict[str, Any]) -> None:
        self.state = state

    def close(self) -> None:
        """Take the widget down, and no more uploads."""
        if session := self.__dict__.get("session"):  # none where the widget was refused
            session.close()
        super().close()

    def _engine(self) -> Any:
        engine = self.session.engine
        return engine if hasattr(engine, "reconnect") else None

    def _reconnected(self) -> None:
        self.refresh()

    def twin_html(self) -> str:
        budget = self.context.budget(getattr(self.session.engine, "info", self.session.engine), max_tokens=self.session.max_tokens)
        words = html.escape(f"{budget.prompt_tokens:,} tokens of {budget.limit_tokens:,}")
        return f'<figure class="inkling-twin" style="margin:0" aria-label="{words}">{budget._repr_html_()}</figure>'

    def _answer(self, request: Any) -> tuple[dict[str, Any], list[bytes]]:
        return self.session.answer(request)

    def __repr__(self) -> str:
        totals = self.state["totals"]
        return f"Composer({len(self.state['entries'])} entries, {totals['prompt_tokens']:,} of {totals['limit_tokens']:,} tokens)"
