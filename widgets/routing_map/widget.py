"""The notebook side of the routing map: traits, answers, and the display with its static twin."""

from __future__ import annotations

from typing import Any

import traitlets

from workbench.captures import Capture
from workbench.errors import SelectionError
from workbench.routing import check_cell, check_range
from workbench.routing_answers import answer, check_region
from workbench.routing_views import traits
from workbench.routing_windows import METRICS, STATS, Metric

from .._esm import css, esm
from .._twinned import TwinnedWidget, picture_html


class RoutingMap(TwinnedWidget):
    """Map of a capture's routing.

    Parameters
    ----------
    capture : Capture
        With routing.
    selection : (int, int) or None
        Tokens shown above, stop excluded.
    cell : (int, int) or None
        Chosen layer (the model's index) and expert.
    metric : {"entropy", "sink", "expert"}
        What colours the tokens.
    against : Capture, optional
        Another capture of the same model: the map shows what this one has more, expert by expert; and token by token where both are
        of the same tokens (one context under different interventions).

    Examples
    --------
    >>> cap = eng.capture(ctx, CapturePlan(routing=True))              # doctest: +SKIP
    >>> m = RoutingMap(cap, selection=(12, 18))                        # doctest: +SKIP
    >>> m.selection, m.cell                                            # doctest: +SKIP
    ([12, 18], [])
    >>> RoutingMap(cap, against=cap).difference                        # doctest: +SKIP
    True
    """

    _esm = esm("routing_map")
    _css = css("routing_map")

    meta = traitlets.Dict().tag(sync=True)
    """Sizes, layers, limits, spans and parts."""
    share = traitlets.Bytes().tag(sync=True)
    """float32 (l,e): share of each layer's weight."""
    chosen = traitlets.Bytes().tag(sync=True)
    """float32 (l,e): share of the tokens that chose the expert."""
    sink = traitlets.Bytes().tag(sync=True)
    """float32 (l,s)."""
    entropy = traitlets.Bytes().tag(sync=True)
    sink_mass = traitlets.Bytes().tag(sync=True)
    """uint8 (l,b): overview strips."""
    palette = traitlets.Bytes().tag(sync=True)
    """256 × RGB."""
    diverging = traitlets.Bytes().tag(sync=True)
    metric = traitlets.Enum(METRICS, default_value="sink").tag(sync=True)
    stat = traitlets.Enum(STATS, default_value="mean").tag(sync=True)
    """What a bucket of several tokens shows."""
    difference = traitlets.Bool(False).tag(sync=True)
    """Whether what this capture has more than the other is shown."""
    selection = traitlets.List(traitlets.Int()).tag(sync=True)
    """Chosen tokens: [start, stop), or empty."""
    region = traitlets.List(traitlets.List(traitlets.Int())).tag(sync=True)
    """Ranges inside the selection that are meant, as a rectangle of patches has them; empty: all of it."""
    cell = traitlets.List(traitlets.Int()).tag(sync=True)
    """Chosen [layer, expert], or empty."""
    window = traitlets.List(traitlets.Int()).tag(sync=True)
    """Tokens in view: [start, stop)."""

    def __init__(
        self, capture: Capture, *, selection: tuple[int, int] | None = None, cell: tuple[int, int] | None = None,
        metric: Metric = "sink", against: Capture | None = None,
    ) -> None:  # fmt: skip
        if not isinstance(capture, Capture):
            raise TypeError(f"RoutingMap takes a Capture (eng.capture(…) or Capture.load(…)), not {type(capture).__name__}")
        if against is not None and not isinstance(against, Capture):
            raise TypeError(f"against= takes another Capture, not {type(against).__name__}")
        self.capture, self.against = capture, against
        state = traits(capture, against=against)
        state.update(selection=list(selection or ()), cell=list(cell or ()), metric="expert" if cell else metric)
        super().__init__(**state)

    @traitlets.validate("selection", "window")
    def _check_range(self, proposal: dict[str, Any]) -> list[int]:
        value = list(proposal["value"])
        if value:
            if len(value) != 2:
                raise SelectionError(f"a token range is [start, stop], not {value}")
            check_range(self.capture.routing, value[0], value[1])
        return value

    @traitlets.validate("region")
    def _check_region(self, proposal: dict[str, Any]) -> list[list[int]]:
        return [list(pair) for pair in check_region(self.capture, proposal["value"])]

    @traitlets.validate("difference")
    def _check_difference(self, proposal: dict[str, Any]) -> bool:
        if proposal["value"] and self.against is None:
            raise SelectionError("there is no other capture to compare with: RoutingMap(cap, against=other)")
        return proposal["value"]

    @traitlets.validate("cell")
    def _check_cell(self, proposal: dict[str, Any]) -> list[int]:
        value = list(proposal["value"])
        if value:
            if len(value) != 2:
                raise SelectionError(f"a cell is [layer, expert], not {value}")
            check_cell(self.capture.routing, value[0], value[1])
        return value

    def snapshot(self) -> bytes:
        """The static picture as PNG bytes, as a saved notebook shows it."""
        from workbench.figures import png
        from workbench.figures.routing import routing_map

        return png(routing_map(self.capture, against=self.against if self.difference else None), dpi=110)

    def twin_html(self) -> str:
        beside = f", what it has more than {self.against!r}" if self.difference else ""
        return picture_html(self.snapshot(), f"Expert routing, static picture: {self.capture!r}{beside}")

    def _answer(self, request: Any) -> tuple[dict[str, Any], list[bytes]]:
        return answer(self.capture, request, self.against)

    def __repr__(self) -> str:
        chosen = [f"tokens {self.selection[0]} to {self.selection[1] - 1}"] if self.selection else []
        chosen += [f"layer {self.cell[0]}, expert {self.cell[1]}"] if self.cell else []
        return f"RoutingMap({self.capture!r}{', ' if chosen else ''}{', '.join(chosen)})"
