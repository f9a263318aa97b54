"""The widgets' ES modules: pure functions by node's own runner, types by tsc, sizes and habits by reading them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from workbench.esm import inline, style

ROOT = Path(__file__).parents[2]
MODULES = sorted((ROOT / "widgets").rglob("*.js"))
WIDGETS = sorted(path.parent.name for path in (ROOT / "widgets").glob("*/index.js"))
LONGEST_LINES, LARGEST_BYTES = 300, 200_000


@pytest.mark.skipif(shutil.which("node") is None, reason="no node on this machine")
def test_pure_functions_by_nodes_runner():
    tests = sorted(map(str, (ROOT / "tests/widgets/js").glob("*.test.mjs")))
    done = subprocess.run(["node", "--test", *tests], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_modules_are_short_and_keep_to_themselves(path: Path):
    text = path.read_text("utf-8")
    assert text.count("\n") <= LONGEST_LINES
    assert text.startswith("//"), "a module begins by saying what it is"
    code = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)
    assert not re.search(r"https?:|require\(|\b(window|globalThis)\.\w+\s*=[^=]|\beval\(|new Function", code)
    assert "innerHTML" not in code, "text from outside must stay text"


@pytest.mark.parametrize("name", WIDGETS)
def test_a_widget_is_one_small_module_and_one_style_sheet(name: str):
    assert len(inline(ROOT / "widgets" / name / "index.js").encode()) < LARGEST_BYTES
    for part in selectors(style(name)):
        assert ".ink-" in part, f"{name}: the rule {part!r} would reach the host page"
    for part in selectors((ROOT / "widgets" / name / "index.css").read_text("utf-8")):
        assert part.startswith(".ink-widget.ink-"), f"{name}: another widget's sheet on the same page would undo {part!r}"


def selectors(css: str) -> list[str]:
    """Every selector of a style sheet."""
    rules = re.sub(r"/\*.*?\*/|@[^{]*\{", "", css, flags=re.DOTALL)
    found = re.findall(r"(?:^|[{}])\s*([^{}]+)\{", rules)
    return [part.strip() for selector in found for part in re.sub(r"\([^)]*\)", "", selector).split(",")]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("npm") is None, reason="no npm on this machine")
def test_types_by_tsc(tmp_path: Path):
    """TypeScript checks the JSDoc types; a development tool, fetched for this test alone."""
    fetched = subprocess.run(
        ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(tmp_path), "typescript@5.9"],
        capture_output=True, text=True, check=False, timeout=180,
    )  # fmt: skip
    tsc = tmp_path / "node_modules/.bin/tsc"
    if not tsc.exists():
        pytest.skip(f"typescript cannot be had from npm here: {fetched.stderr.strip().splitlines()[-1:]}")
    options = [
        "--noEmit", "--allowJs", "--checkJs", "--strict", "--skipLibCheck", "--target", "es2022", "--module", "es2022",
        "--moduleResolution", "bundler", "--lib", "es2022,dom,dom.iterable",
    ]  # fmt: skip
    done = subprocess.run([str(tsc), *options, *map(str, MODULES)], capture_output=True, text=True, check=False, timeout=180)
    assert done.returncode == 0, done.stdout
