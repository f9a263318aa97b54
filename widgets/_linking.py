"""One token selection for several widgets: choosing in one shows in the others."""

from __future__ import annotations

from typing import Any

import traitlets


def link(*widgets: Any) -> list[traitlets.link]:
    """Share the token selection of `widgets`; they must show the same tokens.

    Returns
    -------
    list of traitlets.link
        ``unlink()`` each to part them again.

    Raises
    ------
    ValueError
        A widget without a token selection, or widgets over different numbers of tokens.

    Examples
    --------
    >>> cap = eng.capture(ctx, CapturePlan(routing=True))              # doctest: +SKIP
    >>> view, table = RoutingMap(cap), SpanTable(cap)                  # doctest: +SKIP
    >>> links = link(view, table)                                      # doctest: +SKIP
    >>> view.selection = [2, 5]; table.selection                       # doctest: +SKIP
    [2, 5]
    """
    for widget in widgets:
        if not widget.has_trait("selection"):
            raise ValueError(f"{type(widget).__name__} has no token selection to share")
    lengths = [int(widget.meta["tokens"]) for widget in widgets]
    if len(set(lengths)) > 1:
        said = ", ".join(f"{type(widget).__name__} {tokens:,}" for widget, tokens in zip(widgets, lengths, strict=True))
        raise ValueError(f"these widgets show different tokens ({said}): link those of one context")
    first, *others = widgets or (None,)
    return [traitlets.link((first, "selection"), (other, "selection")) for other in others]
