"""One file from several ES modules: widgets share helpers by relative import, and every host takes one file.

A notebook's widget runtime and a self-contained report cannot follow relative imports, so they are inlined when a widget loads:
each module becomes a function scope that returns its exports, in the order they need one another. Only what the project's own
modules use is understood, and the rest refused by file and line: imports in braces from a relative path, exports of functions,
classes and constants, one ``export default`` in the entry. This module knows no widget; it finds their folder without importing it.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

IMPORT = re.compile(r'^import\s*\{([^}]*)\}\s*from\s*"(\.{1,2}/[^"]+\.js)";[ \t]*$', re.MULTILINE)
EXPORT = re.compile(r"^export\s+(?:async\s+)?(?:function\*?|class|const|let)\s+([A-Za-z_$][\w$]*)", re.MULTILINE)
LEFT_OVER = re.compile(r"^\s*(import\b(?!\s*\()|export\b).*$", re.MULTILINE)


class EsmError(ValueError):
    """A module the inliner does not understand; the message names file and line."""


def inline(entry: Path) -> str:
    """The ES module `entry` with everything it imports, as the text of one module.

    Raises
    ------
    EsmError
        An import or export outside the forms above, a missing file, or a cycle.
    """
    order: list[Path] = []
    _visit(entry.resolve(), order, ())
    names = {path: f"module_{number}_{path.stem}" for number, path in enumerate(order)}
    pieces = [_wrap(path, names) for path in order[:-1]]
    return "".join(pieces) + _body(order[-1], names, entry=True)


def widget_folder(name: str) -> Path:
    """Folder of the widget `name` (``routing_map``), without importing any notebook library."""
    spec = importlib.util.find_spec("widgets")
    for place in (spec.submodule_search_locations or []) if spec else []:
        folder = Path(place) / name
        if folder.is_dir():
            return folder
    raise EsmError(f"no widget folder {name!r}: the installation is incomplete")


def style(name: str) -> str:
    """The style sheet of the widget `name`: what all widgets share, then its own rules."""
    folder = widget_folder(name)
    return "".join(path.read_text(encoding="utf-8") for path in (folder.parent / "_shared" / "base.css", folder / "index.css"))


def _visit(path: Path, order: list[Path], above: tuple[Path, ...]) -> None:
    if path in above:
        raise EsmError(f"modules import each other: {' -> '.join(p.name for p in (*above, path))}")
    if path in order:
        return
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        by = f", imported by {above[-1].name}" if above else ""
        raise EsmError(f"no module {path.name}{by}") from None
    for match in IMPORT.finditer(text):
        _visit((path.parent / match[2]).resolve(), order, (*above, path))
    order.append(path)


def _wrap(path: Path, names: dict[Path, str]) -> str:
    text = path.read_text(encoding="utf-8")
    exports = ", ".join(EXPORT.findall(text))
    return f"const {names[path]} = (() => {{\n{_body(path, names, entry=False)}\nreturn {{ {exports} }};\n}})();\n"


def _body(path: Path, names: dict[Path, str], *, entry: bool) -> str:
    text = path.read_text(encoding="utf-8")

    def bind(match: re.Match[str]) -> str:
        inner = ", ".join(part.strip().replace(" as ", ": ") for part in match[1].split(",") if part.strip())
        return f"const {{ {inner} }} = {names[(path.parent / match[2]).resolve()]};"

    text = IMPORT.sub(bind, text)
    if not entry:
        text = re.sub(EXPORT.pattern, lambda m: m[0].removeprefix("export").lstrip(), text, flags=re.MULTILINE)
    for match in LEFT_OVER.finditer(text):
        if entry and re.match(r"\s*export\s+(default|async|function|class|const|let)\b", match[0]):
            continue
        raise EsmError(f"{path.name}: cannot inline `{match[0].strip()}`")
    return f"// {path.parent.name}/{path.name}\n{text}"
