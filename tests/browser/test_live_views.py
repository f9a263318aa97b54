"""Views over a running engine: a masked part, a question asked without convolutions, what the cache would serve."""

from __future__ import annotations

import json

import numpy as np
import pytest

from engine.protocol import MaskSpan, ScaleSconv
from tests.browser.widget_pages import eventually, open_cells
from workbench import Context

pytestmark = [pytest.mark.browser, pytest.mark.engine]

CELLS = (
    """import engine
from workbench import AttentionPlan, CapturePlan, Context
from widgets import AttentionView, Composer, SconvView
eng = engine.attach()
ctx = Context(system="Answer briefly.", effort="none")
ctx.add_document(b"The harbour master is Ana Duarte. The ferry leaves at seven. " * 40, name="note.txt")
ctx.ask("Who is the harbour master?")
reply = eng.generate(ctx, max_tokens=8, temperature=0)
cap = eng.capture(reply, CapturePlan(sconv=True, attention=AttentionPlan(queries="reply", layers="all")))
eng.generate(ctx, max_tokens=1, temperature=0)  # the prompt is in the cache now
attention = AttentionView(cap, engine=eng, reply=reply)
attention""",
    "sconv = SconvView(cap, engine=eng, reply=reply)\nsconv",
    "composer = Composer(ctx, eng)\ncomposer",
)


def context() -> Context:
    ctx = Context(system="Answer briefly.", effort="none")
    ctx.add_document(b"The harbour master is Ana Duarte. The ferry leaves at seven. " * 40, name="note.txt")
    ctx.ask("Who is the harbour master?")
    return ctx


def test_causes_are_measured_and_the_cache_is_shown(eng, lab, visit, shoot, tmp_path):
    page = open_cells(lab, visit, tmp_path / "live.ipynb", *CELLS, height=2400)
    attention, sconv, composer = (page.locator(f".ink-{name}") for name in ("attention", "sconv", "composer"))

    # The part masked: beside its weight stands what the reply loses, as the engine's own scores say it.
    row = attention.locator(".ink-parts tbody tr", has_text="note.txt")
    row.get_by_role("button", name="Mask note.txt").click()
    row.locator(".ink-effect b").wait_for()
    reply = eng.generate(context(), max_tokens=8, temperature=0)
    assert reply.text == lab.python(page, "print(reply.text)").strip()
    whole = eng.context_of(reply)
    masks = [
        MaskSpan(start=span.start, stop=span.stop, sconv=True)
        for span in whole.spans if span.part == next(item for item in whole.spans if item.label == "note.txt").part
    ]  # fmt: skip
    drop = float(np.sum(eng.score(reply)) - np.sum(eng.score(reply, interventions=masks)))
    shown = float(row.locator(".ink-effect b").inner_text().split()[0].replace("−", "-"))
    # Two decimals on the page; the same prompt in other batches gives the last bits of bfloat16 differently.
    assert shown == pytest.approx(-drop, abs=0.05)
    assert "likely" in row.inner_text()
    assert "%" in row.locator(".ink-weight").inner_text()

    # Asked again without a site: the page shows the old answer beside the new one, which is the engine's.
    sconv.get_by_role("checkbox", name="after the MLP").check()
    sconv.get_by_role("button", name="Ask the question again without").click()
    card = sconv.locator(".ink-result")
    card.wait_for()
    changed = eng.generate(context(), max_tokens=16, temperature=0, interventions=[ScaleSconv(sites=("mlp",), layers="all")])
    found = lab.python(page, "import json; e = next(iter(sconv.effects.values())); print(json.dumps([e.text, e.drop]))")
    text, loss = json.loads(found)
    assert text == changed.text
    assert f"{-loss:.2f}" in card.inner_text().replace("−", "-")
    assert (text.strip() or "(nothing)") in card.inner_text()
    shoot(attention, "attention-view-live")
    shoot(sconv, "sconv-view-live")

    # The composer says what the prefix cache would serve, as the engine's probe does, and what another effort would cost.
    eventually(lab, page, "composer.refresh() or composer.state['totals']['cached_tokens'] == eng.probe(ctx).cached_tokens", "True")
    cached = int(lab.python(page, "print(composer.state['totals']['cached_tokens'])"))
    total = len(context().render(eng))
    assert 0 < cached < total
    assert f"{cached:,}" in composer.inner_text()
    composer.locator(".ink-choice select").select_option("low")
    composer.locator(".ink-readout", has_text="to compute (+").wait_for()  # the effort stands before everything
    shoot(composer, "composer-live")
