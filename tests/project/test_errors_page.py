"""docs/errors.md has an entry with symptom, cause and fix for every public error, and for nothing else."""

from __future__ import annotations

import ast
import re

import pytest

import workbench.errors  # noqa: F401  (its classes join the tree)
from engine.errors import InklingError, from_json
from tests.project.sources import ROOT, modules

ENTRIES = dict(re.findall(r"^### (\w+)\n(.*?)(?=^##|\Z)", (ROOT / "docs/errors.md").read_text("utf-8"), re.M | re.S))


def tree(root: type[InklingError]) -> dict[str, type[InklingError]]:
    """Every class of this project from `root` down, by name."""
    found = {root.__name__: root}
    for child in root.__subclasses__():
        if child.__module__.split(".")[0] in ("engine", "workbench", "widgets"):
            found |= tree(child)
    return found


ERRORS = tree(InklingError)


@pytest.mark.parametrize("name", sorted(set(modules()) - {"engine.errors", "workbench.errors"}))
def test_errors_are_defined_in_the_two_tree_files_only(name: str):
    """Elsewhere one would be missed here until something happened to import it."""
    bases = {
        ast.unparse(base).split(".")[-1]
        for node in ast.walk(ast.parse(modules()[name].read_text("utf-8")))
        if isinstance(node, ast.ClassDef)
        for base in node.bases
    }
    assert not bases & set(ERRORS)


def test_every_error_has_an_entry_and_every_entry_an_error():
    assert set(ENTRIES) == set(ERRORS)


@pytest.mark.parametrize("name", sorted(ENTRIES))
def test_an_entry_says_code_symptom_cause_and_fix(name: str):
    entry = ENTRIES[name]
    assert entry.startswith(f"`{ERRORS[name].code}` — ")
    for word in ("Symptom", "Cause", "Fix"):
        assert entry.count(f"*{word}:*") == 1


def test_codes_are_distinct_and_cross_http():
    assert len({error.code for error in ERRORS.values()}) == len(ERRORS)
    for error in ERRORS.values():
        back = from_json(error("what was given", part="p").to_json())
        assert type(back) is error
        assert back.detail == {"part": "p"}
