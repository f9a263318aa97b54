"""Notebooks that show one widget, and what every widget's page is asked: themes, widths, zoom, keyboard, accessibility."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest

LOOKS = [("light", 1200), ("dark", 1200), ("light", 800), ("dark", 800)]
AXE_VERSION = "4.10.3"
"""Of axe-core, which only these tests use: a folder with ``axe.min.js`` in ``INKLING_AXE``, or npm's package of this version."""


def write_notebook(path: Path, *cells: str) -> Path:
    """A notebook of code cells that JupyterLab opens without asking for a kernel."""
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in cells])
    book.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(book, path)
    return path


def eventually(lab: Any, page: Any, expression: str, wanted: str) -> None:
    """Wait until Python sees it: widget messages and this question take different ways to the kernel."""
    found = ""
    for _ in range(80):
        found = lab.python(page, f"print({expression})").strip()
        if found == wanted:
            return
        page.wait_for_timeout(100)
    pytest.fail(f"{expression} is {found}, not {wanted}")


def set_look(page: Any, theme: str, width: int) -> None:
    """JupyterLab's light or dark theme, and a page so wide that its notebook leaves `width` to the output."""
    name = "JupyterLab Dark" if theme == "dark" else "JupyterLab Light"
    page.evaluate("(theme) => window.jupyterapp.commands.execute('apputils:change-theme', { theme })", name)
    page.wait_for_function(f"() => document.body.dataset.jpThemeLight === '{'false' if theme == 'dark' else 'true'}'")
    page.set_viewport_size({"width": width, "height": 1700})
    page.evaluate("() => window.jupyterapp.shell.collapseLeft()")
    page.wait_for_timeout(400)  # layout and theme settle; a picture is for people


def looks(page: Any, widget: str, name: str, shoot: Callable[..., Path]) -> None:
    """Screenshots of a widget in both themes and at both widths."""
    for theme, width in LOOKS:
        set_look(page, theme, width)
        found = page.locator(widget)
        assert found.evaluate("(el) => el.scrollWidth <= el.clientWidth + 1"), f"{name} is wider than its place at {width} px"
        shoot(found, f"{name}-{theme}-{width}")
    set_look(page, "light", 1200)


def axe_source() -> str:
    """axe-core's code; the test is skipped where it cannot be had."""
    if folder := os.environ.get("INKLING_AXE"):
        return (Path(folder) / "axe.min.js").read_text("utf-8")
    if shutil.which("npm") is None:
        pytest.skip("axe-core is not here: set INKLING_AXE to a folder with axe.min.js, or install npm")
    from engine.protocol.places import cache_folder  # the tests' own

    folder = cache_folder() / "axe"
    script = folder / "node_modules" / "axe-core" / "axe.min.js"
    if not script.exists():
        folder.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder), f"axe-core@{AXE_VERSION}"],
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        if not script.exists():
            pytest.skip(f"axe-core cannot be had from npm here: {done.stderr.strip().splitlines()[-1:]}")
    return script.read_text("utf-8")


def check_accessible(page: Any, widget: str) -> None:
    """No serious or critical violation inside the widget, by axe-core."""
    page.evaluate(axe_source())
    found = page.evaluate("async (widget) => (await axe.run(widget, { resultTypes: ['violations'] })).violations", widget)
    serious = [
        f"{item['id']} ({item['impact']}): {item['help']}: {json.dumps([node['html'][:160] for node in item['nodes'][:3]])}"
        for item in found
        if item["impact"] in ("serious", "critical")
    ]
    assert not serious, "\n".join(serious)
