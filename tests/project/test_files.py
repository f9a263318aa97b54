"""What may lie in the repository: no paths of one machine, no registry addresses, no file too long to read, nothing too large."""

from __future__ import annotations

import re

from tests.project.sources import ROOT, tracked

MACHINE_PATHS = re.compile(r"(?<![\w./-])/(?:work|root|home|tmp|Users)/\w")
HOSTS = re.compile(r"(pypi\.org|pythonhosted\.org|npmjs\.org|npmjs\.com|pytorch\.org/whl|deb\.debian\.org|anaconda\.org)")
ALLOWED = {("Makefile", "pytorch.org/whl")}
"""PyTorch's public wheel index, named once, because vLLM's CPU build wants a torch that the package index does not carry."""

LONGEST_LINES = 500
LARGEST_BYTES = 30 << 20
READ = {".py", ".js", ".css", ".md", ".toml", ".yml", ".html"}


def test_no_machine_paths():
    found = [
        f"{path.relative_to(ROOT)}: {match.group()}"
        for path in tracked()
        if path != ROOT / "tests/project/test_files.py"
        for match in MACHINE_PATHS.finditer(path.read_bytes().decode("latin-1"))
    ]
    assert not found, "\n".join(found)


def test_no_registry_hosts():
    found = [
        (str(path.relative_to(ROOT)), match.group())
        for path in tracked()
        if path != ROOT / "tests/project/test_files.py"
        for match in HOSTS.finditer(path.read_bytes().decode("latin-1"))
    ]
    assert set(found) <= ALLOWED, found


def test_files_are_short_enough_to_read():
    long = [
        f"{path.relative_to(ROOT)}: {lines} lines"
        for path in tracked()
        if path.suffix in READ and (lines := path.read_text("utf-8").count("\n")) >= LONGEST_LINES
    ]
    assert not long, "\n".join(long)


def test_no_file_is_too_large():
    assert [path for path in tracked() if path.stat().st_size > LARGEST_BYTES] == []


def test_every_package_folder_has_an_init():
    """A folder without one would be left out of the wheel's import path, or shadowed by another distribution's."""
    folders = {path.parent for package in ("engine", "widgets", "workbench") for path in (ROOT / package).rglob("*.py")}
    assert [folder for folder in folders if not (folder / "__init__.py").exists()] == []
