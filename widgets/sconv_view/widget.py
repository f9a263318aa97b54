"""The notebook side of the convolution view: traits, answers, and the display with its static twin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import traitlets

from workbench.captures import Capture
from workbench.errors import SelectionError
from workbench.routing_windows import STATS
from workbench.sconv_views import SconvSubject, answer, traits, without
from workbench.sconv_windows import METRICS, Metric

from .._esm import css, esm
from .._twinned import TwinnedWidget, picture_html

if TYPE_CHECKING:
    from engine import Engine
    from engine.protocol import Reply
    from workbench.effects import Effect


class SconvView(TwinnedWidget):
    """The short convolutions of a capture.

    Parameters
    ----------
    capture : Capture
        With convolutions; taps too for what each brings.
    engine, reply : Engine, Reply, optional
        With both, the question can be asked again without some of them.
    layer, site : int, str, optional
        The chosen convolution.
    metric : {"ratio", "cosine", "tap"}
        What colours the tokens.
    selection : (int, int) or None
        Chosen tokens, stop excluded.

    Examples
    --------
    >>> reply = eng.generate(ctx, max_tokens=8, temperature=0)                                   # doctest: +SKIP
    >>> view = SconvView(eng.capture(reply, CapturePlan(sconv=True)), engine=eng, reply=reply)   # doctest: +SKIP
    >>> effect = view.without("mlp")  # the question asked again without these convolutions      # doctest: +SKIP
    >>> effect.base_text, effect.text, effect.drop                                               # doctest: +SKIP
    ('...', '...', ...)
    """

    _esm = esm("sconv_view")
    _css = css("sconv_view")

    meta = traitlets.Dict().tag(sync=True)
    """Layers, sites, channels, spans."""
    kernels = traitlets.Bytes().tag(sync=True)
    """float32 (l,site,tap,5): quantiles over the channels."""
    palette = traitlets.Bytes().tag(sync=True)
    diverging = traitlets.Bytes().tag(sync=True)
    metric = traitlets.Enum(METRICS, default_value="ratio").tag(sync=True)
    site = traitlets.Unicode().tag(sync=True)
    tap = traitlets.Int(1).tag(sync=True)
    """For ``metric="tap"``: 0 is the token itself, 1 the one before it."""
    layer = traitlets.Int(0).tag(sync=True)
    stat = traitlets.Enum(STATS, default_value="mean").tag(sync=True)
    """What a bucket of several tokens shows."""
    selection = traitlets.List(traitlets.Int()).tag(sync=True)
    """Chosen tokens: [start, stop), or empty."""
    window = traitlets.List(traitlets.Int()).tag(sync=True)
    """Tokens in view: [start, stop)."""

    def __init__(
        self, capture: Capture, *, engine: Engine | None = None, reply: Reply | None = None, layer: int | None = None,
        site: str | None = None, metric: Metric = "ratio", selection: tuple[int, int] | None = None,
    ) -> None:  # fmt: skip
        if not isinstance(capture, Capture):
            raise TypeError(f"SconvView takes a Capture (eng.capture(…) or Capture.load(…)), not {type(capture).__name__}")
        self.capture = capture
        self.subject = SconvSubject.of(capture, engine, reply)
        state = traits(self.subject)
        state.update(metric=metric, selection=list(selection or ()))
        state.update({name: value for name, value in (("layer", layer), ("site", site)) if value is not None})
        super().__init__(**state)

    @property
    def effects(self) -> dict[str, Effect]:
        """What leaving convolutions out did."""
        return self.subject.effects.found

    def without(self, *sites: str, layers: str | Sequence[int] = "all") -> Effect:
        """Ask again without the convolutions at `sites`; the page shows it too.

        Parameters
        ----------
        sites : str
            Some of ``k``, ``v``, ``attention``, ``mlp``.
        layers : {"all", "global", "local"} or sequence of int

        Raises
        ------
        SelectionError
            No engine or reply was given, or no such site.
        """
        key = without(self.subject, sites, layers)
        self.subject.effects.wait()
        found = self.effects.get(key)
        if found is None or found.drop is None:
            raise SelectionError(found.problem if found else "the measurement was stopped")
        return found

    @traitlets.validate("selection", "window")
    def _check_range(self, proposal: dict[str, Any]) -> list[int]:
        value = list(proposal["value"])
        if value:
            if len(value) != 2:
                raise SelectionError(f"a token range is [start, stop], not {value}")
            self.subject.windows.range(value[0], value[1])
        return value

    @traitlets.validate("site", "layer")
    def _check_place(self, proposal: dict[str, Any]) -> Any:
        windows = self.subject.windows
        place: dict[str, Any] = {"layer": int(windows.layers[0]), "site": windows.sites[0]}
        windows.place(**(place | {proposal["trait"].name: proposal["value"]}))
        return proposal["value"]

    def snapshot(self) -> bytes:
        """The static picture as PNG bytes, as a saved notebook shows it."""
        from workbench.figures import png
        from workbench.figures.sconv_view import sconv_view

        return png(sconv_view(self.subject, site=self.site), dpi=110)

    def twin_html(self) -> str:
        return picture_html(self.snapshot(), f"Short convolutions, static picture: {self.capture!r}")

    def _engine(self) -> Engine | None:
        return self.subject.effects.engine

    def _answer(self, request: Any) -> tuple[dict[str, Any], list[bytes]]:
        return answer(self.subject, request)

    def __repr__(self) -> str:
        return f"SconvView(layer {self.layer}, {self.site}; {self.capture!r})"
