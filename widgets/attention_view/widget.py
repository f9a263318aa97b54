"""The notebook side of the attention view: traits, answers, and the display with its static twin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import traitlets

from workbench.attention_views import AttentionSubject, answer, mask, traits
from workbench.captures import Capture
from workbench.errors import SelectionError

from .._esm import css, esm
from .._twinned import TwinnedWidget, picture_html

if TYPE_CHECKING:
    from engine import Engine
    from engine.protocol import Reply


class AttentionView(TwinnedWidget):
    """Where an answer's tokens looked.

    Parameters
    ----------
    capture : Capture
        With attention.
    engine, reply : Engine, Reply, optional
        With both, spans can be masked from the view, and the answer is judged without them.
    query : int
        Index among the recorded query tokens.
    layer, head : int, optional
        The model's indices; the last recorded layer and the mean over heads (-1) by default.
    selection : (int, int) or None
        Chosen keys, stop excluded.

    Examples
    --------
    >>> reply = eng.generate(ctx, max_tokens=8, temperature=0)                                      # doctest: +SKIP
    >>> plan = CapturePlan(attention=AttentionPlan(queries="reply", layers="all", profiles=True))   # doctest: +SKIP
    >>> view = AttentionView(eng.capture(reply, plan), engine=eng, reply=reply)                     # doctest: +SKIP
    >>> lost = view.mask(4, 12)  # nats that the reply loses without these tokens                   # doctest: +SKIP
    >>> lost == view.effects["4-12"].drop                                                           # doctest: +SKIP
    True
    """

    _esm = esm("attention_view")
    _css = css("attention_view")

    meta = traitlets.Dict().tag(sync=True)
    """Queries, layers, heads, spans, media."""
    measures = traitlets.Bytes().tag(sync=True)
    """float32 (5,l,h) of the first query."""
    palette = traitlets.Bytes().tag(sync=True)
    query = traitlets.Int(0).tag(sync=True)
    """Index among the recorded query tokens."""
    layer = traitlets.Int(0).tag(sync=True)
    head = traitlets.Int(-1).tag(sync=True)
    """-1 is the mean over heads."""
    selection = traitlets.List(traitlets.Int()).tag(sync=True)
    """Chosen tokens: [start, stop), or empty."""
    window = traitlets.List(traitlets.Int()).tag(sync=True)
    """Tokens in view: [start, stop)."""

    def __init__(
        self, capture: Capture, *, engine: Engine | None = None, reply: Reply | None = None, query: int = 0,
        layer: int | None = None, head: int = -1, selection: tuple[int, int] | None = None,
    ) -> None:  # fmt: skip
        if not isinstance(capture, Capture):
            raise TypeError(f"AttentionView takes a Capture (eng.capture(…) or Capture.load(…)), not {type(capture).__name__}")
        self.capture = capture
        self.subject = AttentionSubject.of(capture, engine, reply)
        state = traits(self.subject)
        chosen = int(state["layer"]) if layer is None else layer
        self.subject.windows.place(query, chosen, head)
        state.update(query=query, layer=chosen, head=head, selection=list(selection or ()))
        super().__init__(**state)

    @property
    def effects(self) -> dict[str, Any]:
        """What masking did, by ``"start-stop"``: see :class:`workbench.effects.Effect`."""
        return self.subject.effects.found

    def mask(self, start: int, stop: int) -> float:
        """Log-probability that the reply loses without tokens `start` to `stop`, in nats; the page shows it too.

        Raises
        ------
        SelectionError
            No engine or reply was given, or no such tokens.
        """
        key = mask(self.subject, [(start, stop)])
        self.subject.effects.wait()
        found = self.effects.get(key)
        if found is None or found.drop is None:
            raise SelectionError(found.problem if found else "the measurement was stopped")
        return found.drop

    @traitlets.validate("selection", "window")
    def _check_range(self, proposal: dict[str, Any]) -> list[int]:
        value = list(proposal["value"])
        if value:
            if len(value) != 2:
                raise SelectionError(f"a token range is [start, stop], not {value}")
            self.subject.windows.range(value[0], value[1])
        return value

    @traitlets.validate("query", "layer", "head")
    def _check_row(self, proposal: dict[str, Any]) -> int:
        row = {"query": 0, "layer": int(self.subject.windows.layers[0]), "head": -1}
        self.subject.windows.place(**(row | {proposal["trait"].name: proposal["value"]}))
        return proposal["value"]

    def snapshot(self) -> bytes:
        """The static picture as PNG bytes, as a saved notebook shows it."""
        from workbench.figures import png
        from workbench.figures.attention_view import attention_view

        return png(attention_view(self.subject, query=self.query, layer=self.layer, head=self.head), dpi=110)

    def twin_html(self) -> str:
        return picture_html(self.snapshot(), f"Attention, static picture: {self!r}")

    def _engine(self) -> Engine | None:
        return self.subject.effects.engine

    def _answer(self, request: Any) -> tuple[dict[str, Any], list[bytes]]:
        return answer(self.subject, request)

    def __repr__(self) -> str:
        head = "mean over heads" if self.head < 0 else f"head {self.head}"
        t = int(self.subject.windows.queries[self.query])
        return f"AttentionView(token {t:,}, layer {self.layer}, {head}; {self.capture!r})"
