"""The notebook side of the span table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import traitlets

from engine.protocol import EngineInfo, Rendered
from workbench import span_views
from workbench.captures import Capture
from workbench.errors import SelectionError

from .._esm import css, esm
from .._twinned import TwinnedWidget

if TYPE_CHECKING:
    from engine import Engine
    from workbench import Context


class SpanTable(TwinnedWidget):
    """Table of a context's spans: what every token is and where it comes from.

    Parameters
    ----------
    source : Context, Rendered or Capture
        A context is rendered once, now; make a new table after an edit.
    engine : Engine or EngineInfo, optional
        Whose image rule a context is rendered by.
    selection : (int, int) or None
        Chosen tokens, stop excluded.

    Examples
    --------
    >>> from workbench import Context
    >>> ctx = Context()
    >>> _ = ctx.ask("Which berth is free?")
    >>> table = SpanTable(ctx)
    >>> len(table.spans), table.selection
    (7, [])
    """

    _esm = esm("span_table")
    _css = css("span_table")

    meta = traitlets.Dict().tag(sync=True)
    """Tokens, labels, places, modalities with colours and totals."""
    starts = traitlets.Bytes().tag(sync=True)
    """uint32 (spans,)."""
    kinds = traitlets.Bytes().tag(sync=True)
    """uint8 (spans,)."""
    selection = traitlets.List(traitlets.Int()).tag(sync=True)
    """Chosen tokens: [start, stop), or empty."""

    def __init__(
        self, source: Context | Rendered | Capture, engine: Engine | EngineInfo | None = None, *,
        selection: tuple[int, int] | None = None,
    ) -> None:  # fmt: skip
        if not isinstance(source, (Rendered, Capture)):
            if not hasattr(source, "render"):
                raise TypeError(f"SpanTable takes a Context, a Rendered or a Capture, not {type(source).__name__}")
            source = source.render(engine)
        self.source = source
        super().__init__(**(span_views.traits(source) | {"selection": list(selection or ())}))

    @property
    def spans(self) -> Any:
        """The spans, in order; they partition the tokens."""
        return self.source.spans

    @traitlets.validate("selection")
    def _check_range(self, proposal: dict[str, Any]) -> list[int]:
        value = list(proposal["value"])
        tokens = len(self.source.token_ids)
        if value and not (len(value) == 2 and 0 <= value[0] < value[1] <= tokens):
            raise SelectionError(f"a token range is [start, stop] within 0 to {tokens}, not {value}")
        return value

    def twin_html(self) -> str:
        return span_views.twin_html(self.source)

    def _answer(self, request: Any) -> tuple[dict[str, Any], list[bytes]]:
        return span_views.answer(self.source, request)

    def __repr__(self) -> str:
        return f"SpanTable({len(self.spans)} spans, {len(self.source.token_ids):,} tokens)"
