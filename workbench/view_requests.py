"""What a page asks about the thing it shows, and what it is told: one form for all views and hosts.

A request is ``{"id", "verb", "args"}``; the answer ``{"id", "ok": true, "result"}`` with binary buffers, or
``{"id", "ok": false, "error"}``. Verbs are listed where they are answered. This module knows no widget library and no HTTP.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from engine.errors import InklingError

from .errors import SelectionError


def answered(request: Any, verbs: Mapping[str, Callable[..., Any]]) -> tuple[dict[str, Any], list[bytes]]:
    """Answer one request; whatever is wrong with it becomes an error answer, so that the page can show it.

    Parameters
    ----------
    request : Any
        As it came from the page.
    verbs : mapping of str to callable
        What answers each verb: takes its ``args`` by name, returns the result (JSON values), or a pair of the result and buffers.

    Returns
    -------
    dict, list of bytes
        The answer and its buffers.

    Examples
    --------
    >>> answered({"id": 1, "verb": "add", "args": {"a": 2, "b": 3}}, {"add": lambda a, b: {"sum": a + b}})
    ({'id': 1, 'ok': True, 'result': {'sum': 5}}, [])
    >>> answered({"id": 2, "verb": "drop"}, {"add": None})[0]["error"]["message"]
    "a request needs a verb (add), not 'drop'"
    """
    given = request if isinstance(request, dict) else {}
    verb, args = given.get("verb"), given.get("args") or {}
    try:
        if not isinstance(verb, str) or verb not in verbs:
            raise SelectionError(f"a request needs a verb ({', '.join(verbs)}), not {verb!r}")
        found = verbs[verb](**args)
    except InklingError as problem:
        return {"id": given.get("id"), "ok": False, "error": problem.to_json()}, []
    except (TypeError, ValueError) as problem:
        refused = SelectionError(f"cannot answer {verb} with {args}: {problem}")
        return {"id": given.get("id"), "ok": False, "error": refused.to_json()}, []
    result, buffers = found if isinstance(found, tuple) else (found, [])
    return {"id": given.get("id"), "ok": True, "result": result}, buffers
