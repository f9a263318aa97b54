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


def open_cells(
    lab: Any, visit: Callable[..., Any], path: Path, *cells: str, width: int = 1200, height: int = 1400, **options: Any
) -> Any:
    """A page of JupyterLab with a notebook of these cells, written to `path` and run."""
    page = visit(width=width, height=height, **options)
    lab.open(page, write_notebook(path, *cells))
    lab.run_all(page)
    return page


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
        before = None
        while (box := found.bounding_box()) != before:  # a busy machine lays out late
            before = box
            page.wait_for_timeout(300)
        assert found.evaluate("(el) => el.scrollWidth <= el.clientWidth + 1"), f"{name} is wider than its place at {width} px"
        shoot(found, f"{name}-{theme}-{width}")
    set_look(page, "light", 1200)


def check_qualities(page: Any, widget: str) -> None:
    """What every widget owes every reader: accessible in both themes, usable at 200 % zoom, still where motion is unwanted."""
    for theme in ("dark", "light"):
        set_look(page, theme, 1200)
        check_accessible(page, widget)
    check_zoom(page, widget)
    check_still(page, widget)


ZOOMED = """(widget) => {
  const el = document.querySelector(widget);
  const drawn = [...el.querySelectorAll("canvas")].filter((canvas) => canvas.clientWidth && !canvas.closest("[hidden]"));
  const right = el.getBoundingClientRect().right;
  const named = (test) => drawn.filter(test).map((canvas) => canvas.getAttribute("aria-label") ?? canvas.className);
  return {
    ratio: devicePixelRatio, over: el.scrollWidth - el.clientWidth,
    blurred: named((canvas) => canvas.width < Math.floor(canvas.clientWidth * 2) - 1),
    wide: named((canvas) => canvas.getBoundingClientRect().right > right + 1),
  };
}"""


def check_zoom(page: Any, widget: str) -> None:
    """At 200 % zoom (half the CSS pixels, two device pixels for each) nothing is cut off, and canvases are drawn for the screen."""
    size = page.viewport_size
    session = page.context.new_cdp_session(page)
    metrics = {"width": size["width"] // 2, "height": size["height"] // 2, "deviceScaleFactor": 2, "mobile": False}
    session.send("Emulation.setDeviceMetricsOverride", metrics)
    page.wait_for_timeout(500)  # sizes are observed, and drawn in the next frame
    found = page.evaluate(ZOOMED, widget)
    session.send("Emulation.clearDeviceMetricsOverride")
    session.detach()
    for wider in (1, 0):  # Playwright sets only what it takes for another size
        page.set_viewport_size({"width": size["width"] + wider, "height": size["height"]})
    assert found["ratio"] == 2
    assert found["over"] <= 1, f"{widget} is {found['over']} px wider than its place at 200 % zoom"
    assert not found["blurred"], f"not drawn for the screen: {found['blurred']}"
    assert not found["wide"], f"cut off: {found['wide']}"


MOVING = """(widget) => [...document.querySelectorAll(`${widget}, ${widget} *`)].filter((el) => {
  const style = getComputedStyle(el);
  return style.animationName !== "none" || style.transitionDuration.split(",").some((time) => parseFloat(time) > 0);
}).map((el) => el.className).slice(0, 5)"""


def check_still(page: Any, widget: str) -> None:
    """Where the reader asked for less motion nothing moves by itself."""
    page.emulate_media(reduced_motion="reduce")
    found = page.evaluate(MOVING, widget)
    page.emulate_media(reduced_motion="no-preference")
    assert not found, f"{widget} moves although motion is unwanted: {found}"


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
