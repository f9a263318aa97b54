"""RoutingMap: which experts every token used, in a notebook.

Layers × experts above with the sinks set apart, all tokens below; choosing in one shows in the other. The browser asks for the
window it shows (``workbench.routing_views``), so a gesture moves well under a megabyte at a million tokens. Where no kernel runs, a
saved notebook shows the static twin that was put beside the widget.

``esm``, ``css`` and ``traits`` give other hosts the same module and data without any notebook library.
"""

from __future__ import annotations

import base64
import html
from typing import TYPE_CHECKING, Any

from .. import _esm

if TYPE_CHECKING:
    from workbench.captures import Capture

    from .widget import RoutingMap

__all__ = ["RoutingMap", "css", "esm", "traits"]


def esm() -> str:
    """The widget's ES module: ``export default { render }``."""
    return _esm.esm("routing_map")


def css() -> str:
    """The widget's style sheet."""
    return _esm.css("routing_map")


def traits(capture: Capture) -> dict[str, Any]:
    """Initial state for any host (see :func:`workbench.routing_views.traits`)."""
    from workbench.routing_views import traits as of

    return of(capture)


def twin_html(capture: Capture) -> str:
    """The static picture as an HTML figure with a text alternative."""
    picture = base64.b64encode(_picture(capture)).decode()
    words = html.escape(f"Expert routing, static picture: {capture!r}")
    return (
        f'<figure class="inkling-twin" style="margin:0"><img alt="{words}" style="max-width:100%;height:auto;background:#fff" '
        f'src="data:image/png;base64,{picture}"></figure>'
    )


def _picture(capture: Capture) -> bytes:
    from workbench.figures import png
    from workbench.figures.routing import routing_map

    return png(routing_map(capture), dpi=110)


def __getattr__(name: str) -> Any:
    """The widget class needs notebook libraries; it is made when it is first asked for."""
    if name == "RoutingMap":
        from .widget import RoutingMap

        return RoutingMap
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
