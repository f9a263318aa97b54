"""The documentation builds without a warning, names every page, and reaches for no other host."""

from __future__ import annotations

import doctest
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIGHT = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for folder in ("engine", "engine/inkling", "engine/planner")
    for path in sorted((ROOT / folder).glob("*.py"))
    if ">>>" in path.read_text(encoding="utf-8")
]
"""Modules of the engine's client side with examples; those of workbench and the protocol run with all tests."""


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("docs")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", str(ROOT / "docs"), str(out)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


def test_every_page_is_reached_from_the_index(site):
    # A page in no table of contents is a warning, so building is the check; here: each became a page.
    for page in (ROOT / "docs").rglob("*.md"):
        assert (site / page.relative_to(ROOT / "docs").with_suffix(".html")).is_file()


def test_the_reference_holds_the_fixed_names(site):
    text = "".join(path.read_text(encoding="utf-8") for path in (site / "reference").glob("*.html"))
    for name in ("engine.start", "engine.attach", "engine.Engine.generate", "workbench.Context.budget", "widgets.RoutingMap"):
        assert f'id="{name}"' in text


def test_pages_load_nothing_from_other_hosts(site):
    for path in site.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        loaded = re.findall(r"<(?:script|img|link|iframe)\b[^>]*?(?:src|href)=\"(https?:[^\"]+)\"", text)
        assert not loaded, path.name


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda path: path.stem)
def test_examples_in_the_pages_give_what_they_say(page: Path) -> None:
    assert doctest.testfile(str(page), module_relative=False, encoding="utf-8").failed == 0


@pytest.mark.parametrize("name", LIGHT)
def test_examples_of_the_client_give_what_they_say(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_there_are_examples_to_run() -> None:
    assert len(LIGHT) >= 3
