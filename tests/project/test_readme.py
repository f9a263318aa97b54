"""The README keeps its promises: it is short, its Python runs, its links and commands exist."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

import engine
from tests.project.sources import ROOT
from workbench.cli import COMMANDS

README = (ROOT / "README.md").read_text("utf-8")


def test_it_is_short():
    assert README.count("\n") <= 150


@pytest.mark.parametrize("page", ["README.md", *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md")))])
def test_links_and_pictures_exist(page: str):
    here = ROOT / page
    targets = [link for link in re.findall(r"\]\(([^)#]+)\)", here.read_text("utf-8")) if "://" not in link]
    assert [link for link in targets if not (here.parent / link).exists()] == []


@pytest.mark.parametrize("page", ["README.md", "docs/commands.md", "docs/errors.md", "docs/security.md"])
def test_commands_and_targets_exist(page: str):
    text = (ROOT / page).read_text("utf-8")
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert set(re.findall(r"[`\s]inkling ([a-z]+)", text)) <= set(COMMANDS)
    assert [name for name in re.findall(r"(?:`|    )make ([a-z-]+)", text) if f"\n{name}:" not in makefile] == []


@pytest.mark.engine
def test_the_ten_lines_run(eng: engine.Engine):
    """As printed, in a process of its own; only the last line, which would stop the tests' shared engine, is left out."""
    (code,) = re.findall(r"```python\n(.*?)```", README, re.S)
    lines = [line for line in code.splitlines() if line.strip() and not line.startswith(("import", "from"))]
    assert len(lines) == 10
    assert lines[-1] == "eng.stop()"
    code = code.replace("eng.stop()", "")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    assert "harbour.pdf" in done.stdout, "the budget names the parts"
    assert re.search(r"'t': \d+, 'l': \d+, 'k': \d+", done.stdout), "the capture has the dimensions the comment names"
