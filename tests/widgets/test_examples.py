"""The examples in the widgets' docstrings, run as they stand over a real engine; what they presume is what a notebook has."""

from __future__ import annotations

import doctest

import pytest

import widgets
import workbench
from workbench import Context

pytestmark = pytest.mark.engine


@pytest.mark.parametrize("name", widgets.__all__)
def test_the_example_of_a_docstring_runs(name: str, eng):
    ctx = Context(system="Answer briefly.", effort="none")
    ctx.add_document(b"The harbour master is Ana Duarte. The ferry leaves at seven.", name="note.txt")
    ctx.ask("Who is the harbour master?")
    known = {"eng": eng, "ctx": ctx, **{item: getattr(widgets, item) for item in widgets.__all__}}
    known |= {item: getattr(workbench, item) for item in ("AttentionPlan", "CapturePlan", "Context")}
    text = getattr(widgets, name).__doc__.replace("# doctest: +SKIP", "")  # skipped where no engine runs, not here
    example = doctest.DocTestParser().get_doctest(text, known, name, None, None)
    assert example.examples, f"{name} has no example"
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE, verbose=False)
    runner.run(example, out=said.append)
    assert not runner.failures, "".join(said)
