"""Composing as any host shows it: a context, what every entry costs, what every edit would cost, and files that come in pieces.

Used by the notebook widget and the app. The context stays the caller's own: edits from the page are edits of it, with its undo.
Requests as in :mod:`workbench.view_requests`; an answer that changes something carries the whole ``state``:

    verb      args                             result; buffers
    state     –                                state
    edit      action, index, to, value         state
    cost      action, index, to, value         words, tokens, compute_tokens, fits (nothing is changed)
    text      text, role                       state
    upload    key, name, size, offset, data    received; with the last piece: state (data is base64)
    drop      key                              dropped (an upload that the reader stopped)
    door      –                                port, secret: where uploads may go by HTTP (see :mod:`workbench.upload_doors`)
    preview   index, page                      kind and what it needs; PNG, or float32 (2,n): lowest and highest sample

This module knows no widget library and no HTTP.
"""

from __future__ import annotations

import base64
import binascii
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from engine.errors import InklingError
from engine.protocol import EFFORTS

from . import palettes
from .budgets import Budget, budget_of
from .composing_previews import preview
from .contexts import Context
from .engine_rules import probe_of, rules_of
from .errors import MessageError, SelectionError
from .parts import AudioPart, DocumentPart, ImagePart, RecordingPart
from .upload_doors import Incoming, UploadDoor
from .view_requests import answered

if TYPE_CHECKING:
    from .budget_trees import Branch
    from .entries import Entry
    from .rendering import Layout, Section

ACTIONS = ("move", "pin", "unpin", "disable", "enable", "remove", "undo", "redo", "effort", "system")
MOST_CHILDREN = 200
"""Branches of one branch that travel; the rest is one line."""


class ComposingSession:
    """One context being composed.

    Parameters
    ----------
    context : Context, optional
        The caller's own; an empty one by default.
    engine : Engine or EngineInfo, optional
        Whose limits and image rule count, and who is asked what is cached.
    max_tokens : int
        Reserved for the answer.
    """

    def __init__(self, context: Context | None = None, engine: Any = None, *, max_tokens: int = 256) -> None:
        if max_tokens < 1:
            raise MessageError(f"max_tokens is {max_tokens}: reserve at least 1 token for the answer")
        self.context = Context() if context is None else context
        self.engine, self.max_tokens = engine, max_tokens
        self._problem: dict[str, Any] | None = None
        self._incoming = Incoming()
        self._door: UploadDoor | None = None
        self._lock = threading.RLock()
        self._listeners: list[Callable[[dict[str, Any]], None]] = []

    def listen(self, changed: Callable[[dict[str, Any]], None]) -> None:
        """Call `changed` with the new state, on whatever thread, when a page or an upload changed the context."""
        self._listeners.append(changed)

    def close(self) -> None:
        """Take no more uploads by HTTP."""
        if self._door is not None:
            self._door.close()
            self._door = None

    def state(self) -> dict[str, Any]:
        """What a page draws, JSON values: ``entries``, ``sections``, ``totals``, ``tree``, ``settings``, ``history``, ``notes``,
        and ``problem``, why the engine cannot say what it has cached.

        Notes
        -----
        Renders the context (parts that were rendered before cost nothing) and asks the engine what it has cached.
        """
        with self._lock:
            budget, layout, probe = self._counted(self.context)
            return {
                "entries": self._entries(layout, budget.cached_tokens),
                "sections": [self._section(section, layout) for section in layout.sections],
                "totals": _totals(budget, probe),
                "tree": _branch(budget.tree),
                "settings": {
                    "effort": _effort_name(self.context.effort), "efforts": list(EFFORTS), "system": self.context.system or "",
                    "tools": len(self.context.tools),
                },
                "history": {"undo": self.context.can_undo, "redo": self.context.can_redo},
                "notes": list(budget.notes),
                "modalities": palettes.MODALITY_COLOURS,
                "problem": self._problem,
            }  # fmt: skip

    def answer(self, request: Any) -> tuple[dict[str, Any], list[bytes]]:
        """Answer one request; one that cannot be answered becomes an error answer and changes nothing."""
        verbs = {
            "state": lambda: {"state": self.state()}, "edit": self._edit_asked, "cost": self._cost_asked, "text": self._text_asked,
            "upload": self._upload_asked, "drop": self._drop_asked, "door": self._door_asked, "preview": self._preview_asked,
        }  # fmt: skip
        return answered(request, verbs)

    def edit(self, action: str, *, index: int | None = None, to: int | None = None, value: Any = None) -> dict[str, Any]:
        """Change the context as the page does; the new state.

        Raises
        ------
        MessageError, SelectionError, EffortError
            Nothing was changed.
        """
        with self._lock:
            apply(self.context, action, index=index, to=to, value=value)
        return self._changed()

    def cost(self, action: str, *, index: int | None = None, to: int | None = None, value: Any = None) -> dict[str, Any]:
        """What an edit would cost, without making it: made on a copy, counted, and thrown away."""
        with self._lock:
            before, _, _ = self._counted(self.context)
            trial = self._trial(action)
            apply(trial, action, index=index, to=to, value=value)
            after, _, probe = self._counted(trial)
        return {
            "tokens": after.prompt_tokens, "compute_tokens": after.compute_tokens, "fits": after.left_tokens >= 0,
            "words": cost_words(before, after), "reason": getattr(probe, "reason", "") or "",
        }  # fmt: skip

    def add_bytes(self, name: str, data: bytes) -> dict[str, Any]:
        """Add a file that arrived whole; the new state.

        Raises
        ------
        SourceError, MediaTooLarge
            Nothing was added.
        """
        trial = Context()
        part = _read(trial, name, data)
        with self._lock:
            self.context.add(part)
        return self._changed()

    def _trial(self, action: str) -> Context:
        """A copy to try an edit on; one that has the history, where that is what is asked about."""
        trial = self.context.copy()
        if action in ("undo", "redo"):
            trial._past, trial._future = self.context._past, self.context._future
        return trial

    def _counted(self, context: Context) -> tuple[Budget, Layout, Any]:
        _, limits, name = rules_of(self.engine)
        layout = context.layout(self.engine)
        self._problem = None
        probe = probe_of(self.engine, layout.rendered, told=self._trouble)
        return budget_of(layout, limits=limits, limit_of=name, max_tokens=self.max_tokens, probe=probe), layout, probe

    def _trouble(self, problem: InklingError) -> None:
        self._problem = problem.to_json()

    def _entries(self, layout: Layout, cached: int | None) -> list[dict[str, Any]]:
        sections = iter([section for section in layout.sections if section.part is not None])
        return [
            _entry(index, entry, None if entry.disabled else next(sections), layout, cached)
            for index, entry in enumerate(self.context.items)
        ]

    def _section(self, section: Section, layout: Layout) -> dict[str, Any]:
        runs: list[list[Any]] = []
        for span in layout.spans(section):
            if runs and runs[-1][0] == span.modality:
                runs[-1][1] += len(span)
            else:
                runs.append([span.modality, len(span)])
        return {"label": section.name, "start": section.start, "stop": section.stop, "runs": _merged(runs)}

    def _changed(self) -> dict[str, Any]:
        state = self.state()
        for changed in list(self._listeners):
            changed(state)
        return state

    def _edit_asked(self, action: str, index: int | None = None, to: int | None = None, value: Any = None) -> dict[str, Any]:
        return {"state": self.edit(action, index=index, to=to, value=value)}

    def _cost_asked(self, action: str, index: int | None = None, to: int | None = None, value: Any = None) -> dict[str, Any]:
        if action == "text":
            return self._text_cost(str(value or ""))
        return self.cost(action, index=index, to=to, value=value)

    def _text_cost(self, text: str) -> dict[str, Any]:
        with self._lock:
            before, _, _ = self._counted(self.context)
            trial = self.context.copy()
            trial.add_text(text)
            after, _, _ = self._counted(trial)
        return {
            "tokens": after.prompt_tokens, "compute_tokens": after.compute_tokens, "fits": after.left_tokens >= 0,
            "words": cost_words(before, after), "reason": "",
        }  # fmt: skip

    def _text_asked(self, text: str, role: Any = "user") -> dict[str, Any]:
        with self._lock:
            self.context.add_text(text, role=role)
        return {"state": self._changed()}

    def _upload_asked(self, key: str, name: str, size: int, offset: int, data: str) -> dict[str, Any]:
        try:
            piece = base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError):
            raise SelectionError("a piece of an upload is base64") from None
        whole = self._incoming.put(str(key), str(name), int(size), int(offset), piece)
        if whole is None:
            return {"received": int(offset) + len(piece)}
        return {"received": int(size), "state": self.add_bytes(str(name), whole)}

    def _drop_asked(self, key: str) -> dict[str, Any]:
        return {"dropped": self._incoming.drop(str(key))}

    def _door_asked(self) -> dict[str, Any]:
        if self._door is None:
            self._door = UploadDoor(self.add_bytes)
        return {"port": self._door.port, "secret": self._door.secret}

    def _preview_asked(self, index: int, page: int = 0) -> tuple[dict[str, Any], list[bytes]]:
        items = self.context.items
        if not isinstance(index, int) or not 0 <= index < len(items):
            raise SelectionError(f"there is no entry {index}: this context has {len(items)}")
        return preview(items[index].part, rules_of(self.engine)[0], page=int(page))


def apply(context: Context, action: str, *, index: int | None = None, to: int | None = None, value: Any = None) -> None:
    """Make one edit of a context.

    Raises
    ------
    SelectionError
        An unknown action, or one without what it needs.
    MessageError, EffortError
        As the context's own methods.
    """
    if action not in ACTIONS:
        raise SelectionError(f"there is no edit {action!r}: {', '.join(ACTIONS)}")
    if action in ("undo", "redo"):
        return getattr(context, action)()
    if action == "effort":
        context.effort = value
        return None
    if action == "system":
        context.system = str(value) if value else None
        return None
    if not isinstance(index, int):
        raise SelectionError(f"{action} needs the index of an entry")
    if action != "move":
        getattr(context, action)(index)
        return None
    if not isinstance(to, int):
        raise SelectionError("move needs the index to move to")
    return context.move(index, to)


def cost_words(before: Budget, after: Budget) -> str:
    """What an edit changes, for a reader.

    The prompt's length, then what would be computed now; seconds where the engine's rate is known.
    """
    change = after.prompt_tokens - before.prompt_tokens
    words = [f"{after.prompt_tokens:,} tokens ({change:+,})" if change else f"{after.prompt_tokens:,} tokens, as now"]
    if after.cached_tokens is not None:
        took = f", about {after.compute_s:,.1f} s" if after.compute_s is not None else ""
        more = after.compute_tokens - before.compute_tokens
        words.append(f"{after.compute_tokens:,} to compute ({f'{more:+,}' if more else 'as now'}){took}")
    if after.left_tokens < 0:
        words.append(f"too long by {-after.left_tokens:,}")
    return "; ".join(words)


def _read(context: Context, name: str, data: bytes) -> Any:
    """A part of a file's bytes, read by the kind that its name and first bytes say."""
    from .readers.sources import Source, kind_of

    kind = kind_of(Source(data, name))
    add = {"image": context.add_image, "audio": context.add_audio, "document": context.add_document}[kind]
    return add(data, name=name)


def _entry(index: int, entry: Entry, section: Section | None, layout: Layout, cached: int | None) -> dict[str, Any]:
    part = entry.part
    kind = {ImagePart: "image", AudioPart: "audio", RecordingPart: "audio", DocumentPart: "document"}.get(type(part), "text")
    values: dict[str, Any] = {
        "index": index, "name": part.name, "kind": kind, "role": entry.role, "pinned": entry.pinned, "disabled": entry.disabled,
        "modality": kind if kind in ("image", "audio") else "text", "tokens": None, "start": None, "cached": None,
        "detail": _detail(part), "notes": list(getattr(part, "notes", ())),
    }  # fmt: skip
    if section is None:
        return values
    tokens = section.stop - section.start
    held = None if cached is None else min(max(cached - section.start, 0), tokens)
    return values | {"tokens": tokens, "start": section.start, "cached": held}


def _detail(part: Any) -> str:
    match part:
        case ImagePart():
            return f"{part.width_px:,} × {part.height_px:,} px"
        case AudioPart():
            return f"{part.duration_s:,.2f} s"
        case RecordingPart():
            return f"{part.duration_s:,.1f} s in {len(part.clips)} clips"
        case DocumentPart():
            pages = len(part.pages)
            return f"{pages} {'page' if pages == 1 else 'pages'}" if part.pages[0].number is not None else "document"
        case _:
            text = getattr(part, "text", "")
            return " ".join(str(text).split())[:80]


def _merged(runs: list[list[Any]]) -> list[list[Any]]:
    """At most sixteen runs: framing marks of a long document join what they stand between."""
    if len(runs) <= 16:
        return runs
    totals: dict[str, int] = {}
    for modality, tokens in runs:
        totals[modality] = totals.get(modality, 0) + tokens
    return [[modality, tokens] for modality, tokens in totals.items()]


def _totals(budget: Budget, probe: Any) -> dict[str, Any]:
    names = (
        "prompt_tokens", "framing_tokens", "effort_tokens", "tools_tokens", "reserved_tokens", "limit_tokens", "limit_of",
        "left_tokens", "cached_tokens", "compute_tokens", "compute_s",
    )  # fmt: skip
    values = {name: getattr(budget, name) for name in names}
    return values | {"by_modality": budget.by_modality(), "reason": getattr(probe, "reason", "") or ""}


def _branch(branch: Branch) -> dict[str, Any]:
    kept = sorted(branch.children, key=lambda child: child.tokens, reverse=True)[:MOST_CHILDREN]
    shown = [child for child in branch.children if child in kept]
    return {
        "label": branch.label, "kind": branch.kind, "tokens": branch.tokens, "by_modality": branch.by_modality,
        "children": [_branch(child) for child in shown], "more": len(branch.children) - len(shown),
    }  # fmt: skip


def _effort_name(value: float) -> str:
    return next((name for name, number in EFFORTS.items() if number == value), f"{value:g}")
