"""Taps: vLLM's own functions, wrapped while someone observes or intervenes, and untouched otherwise.

Several may wrap the same function at once (a capture beside an intervened request) and leave in any order: the wrappers of one
function are a chain, kept in the order of their rank and not of their coming. With the last one gone the attribute is what it was
before, of a class or of an instance alike. Whoever intervenes ranks below whoever observes, so that a capture sees what ran.

A wrapper needs Python to run. While :func:`without_graphs` holds, a worker on a GPU does not replay recorded graphs; this has not
been tried on a GPU yet. Knows of vLLM only where its graph managers keep that (``CudaGraphManager._graphs_captured``, 0.32).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

Around = Callable[..., Any]
"""``around(call, *args, **kwargs)``: `call` is the next wrapper inwards, in the end vLLM's own function."""

INTERVENE, OBSERVE = 0, 10
"""Ranks: the lower one is nearer to vLLM's own function."""


class _Chain:
    """The wrappers of one attribute of one holder."""

    def __init__(self, holder: Any, attribute: str) -> None:
        self.holder, self.attribute = holder, attribute
        self.original = getattr(holder, attribute)
        self.own = attribute in vars(holder)
        self.members: list[tuple[int, Around]] = []
        self.call: Around = self.original

        @functools.wraps(self.original)
        def dispatch(*args: Any, **kwargs: Any) -> Any:
            return self.call(*args, **kwargs)

        self.dispatch = dispatch

    def rebuild(self) -> None:
        """Put the members around the original, the lowest rank first, or the original back when there are none."""
        self.call = self.original
        for _, around in self.members:
            self.call = functools.partial(around, self.call)
        if self.members:
            setattr(self.holder, self.attribute, self.dispatch)
        elif self.own:
            setattr(self.holder, self.attribute, self.original)
        else:
            delattr(self.holder, self.attribute)


_chains: dict[tuple[int, str], _Chain] = {}
"""Chains with members, by holder and attribute; a chain keeps its holder alive."""


def wrap(holder: Any, attribute: str, around: Around, *, rank: int = INTERVENE) -> Callable[[], None]:
    """Call ``around(call, *args, **kwargs)`` in the place of ``holder.attribute`` until the returned function is called.

    Parameters
    ----------
    holder : module, class or instance
        As a class attribute the wrapped function is a method: `args` begin with its instance.
    rank : int
        Lower ones are nearer to the original; among equals the first one is.

    Raises
    ------
    AttributeError
        `holder` has no such attribute; nothing was wrapped.
    """
    key = (id(holder), attribute)
    chain = _chains.get(key) or _Chain(holder, attribute)
    member = (rank, around)
    chain.members = sorted([*chain.members, member], key=lambda item: item[0])
    _chains[key] = chain
    chain.rebuild()

    def undo() -> None:
        kept = [item for item in chain.members if item is not member]
        if len(kept) == len(chain.members):
            return
        chain.members = kept
        chain.rebuild()
        if not kept:
            _chains.pop(key, None)

    return undo


def without_graphs(runner: Any) -> Callable[[], None]:
    """Have a runner compute every step in Python until the returned function is called; holds as long as anyone holds it.

    Raises
    ------
    AttributeError
        This vLLM keeps its graphs elsewhere.
    """

    def eagerly(manager: Any, call: Around, *args: Any, **kwargs: Any) -> Any:
        # A manager that has recorded no graph answers with an eager step of the same shape.
        before, manager._graphs_captured = manager._graphs_captured, False
        try:
            return call(*args, **kwargs)
        finally:
            manager._graphs_captured = before

    undo = [wrap(manager, "dispatch", functools.partial(eagerly, manager)) for manager in graph_managers(runner)]

    def end() -> None:
        for take_off in undo:
            take_off()

    return end


def graph_managers(runner: Any) -> list[Any]:
    """Who decides whether a step replays a recorded graph: the runner's manager and, if there is one, the drafter's one or two.

    Raises
    ------
    AttributeError
        This vLLM keeps it elsewhere.
    """
    own = ("cudagraph_manager", "prefill_cudagraph_manager", "decode_cudagraph_manager")
    managers = [runner.cudagraph_manager, *(getattr(runner.speculator, name, None) for name in own)]
    managers = [manager for manager in managers if manager is not None]
    for manager in managers:
        _ = manager._graphs_captured, manager.dispatch
    return managers
