"""Causes from a view, on the real engine: what a page starts and asks for is what scoring by hand gives."""

from __future__ import annotations

import numpy as np
import pytest

from engine.protocol import MaskSpan, ScaleSconv
from workbench import Context
from workbench.effects import Effects
from workbench.errors import SelectionError


def test_without_an_engine_it_says_what_is_missing():
    effects = Effects(None, None)
    assert effects.state() == {"running": None, "prefill": None, "found": [], "problem": None}
    with pytest.raises(SelectionError, match="engine= and reply="):
        effects.start("0-4", (MaskSpan(start=0, stop=4),))


@pytest.fixture(scope="module")
def asked(eng):
    context = Context(system="Answer briefly.", effort="none")
    context.add_document(b"The harbour master of Lisbon is Ana Duarte. The code of the north gate is 48213.", name="note.txt")
    context.ask("Who is the harbour master of Lisbon?")
    return eng.generate(context, max_tokens=8, temperature=0)


@pytest.mark.engine
def test_a_mask_and_a_question_without_convolutions(eng, asked):
    effects = Effects(eng, asked)
    span = next(span for span in eng.context_of(asked).spans if span.label.startswith("note.txt"))
    mask = MaskSpan(start=span.start, stop=span.stop, sconv=True)
    effects.start("note", (mask,))
    with pytest.raises(SelectionError, match="being measured"):
        effects.start("other", (mask,))
    effects.wait(120)
    found = effects.found["note"]
    base, changed = eng.score(asked), eng.score(asked, interventions=(mask,))
    # Two runs of the same prefill differ by rounding where they are batched differently.
    np.testing.assert_allclose(found.by_token, base - changed, atol=1e-3)
    assert found.drop == pytest.approx(sum(found.by_token))
    assert effects.state()["running"] is None

    effects.start("mlp", (ScaleSconv(sites=("mlp",)),), again=True)
    effects.wait(120)
    found = effects.found["mlp"]
    assert not found.problem
    assert found.base_text == asked.text
    assert found.drop == pytest.approx(
        float((base - eng.score(asked, interventions=(ScaleSconv(sites=("mlp",)),))).sum()), abs=1e-3
    )

    # What the engine refuses is said, and another measurement can follow.
    effects.start("bad", (MaskSpan(start=5, stop=10**6),))
    effects.wait(120)
    assert "not a span" in effects.found["bad"].problem
    assert effects.state()["running"] is None
