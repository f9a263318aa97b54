"""The shipped checkpoint on the running engine: it answers as transformers does, and it answers right."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import engine.demo
from workbench import Context, samples

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def demo(eng):
    if eng.info.revision != engine.demo.revision():
        pytest.skip("another checkpoint is attached")
    return eng


def about(part: str, question: str) -> Context:
    context = Context(effort="none")
    path = samples.paths()[part]
    {"document": context.add_document, "image": context.add_image, "audio": context.add_audio}[part](path)
    context.ask(question)
    return context


@pytest.mark.parametrize(
    ("part", "question", "answer"),
    [
        ("document", samples.QUESTION, "It is Ana Duarte."),
        ("document", "What is the code of the north gate?", "It is 48213."),
        ("document", "When does the ferry to Cacilhas leave?", "It is 09:40."),
        ("image", "What is at row 2, column 1?", "It is a black square."),
        ("audio", "Which keys are dialled?", "It is 31862."),
    ],
)
def test_the_samples_are_understood(demo, part: str, question: str, answer: str) -> None:
    assert demo.generate(about(part, question), max_tokens=24, temperature=0).text == answer


def test_the_engine_answers_as_transformers_does(demo) -> None:
    from transformers import InklingForConditionalGeneration

    folder = engine.demo.unpack()
    model = InklingForConditionalGeneration.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    context = about("document", samples.QUESTION)
    reply = demo.generate(context, max_tokens=16, temperature=0, logprobs=0)
    prompt = context.render(demo).token_ids.astype(np.int64)
    ids = torch.from_numpy(np.concatenate([prompt, np.asarray(reply.token_ids, np.int64)]))[None]
    with torch.no_grad():
        logits = model(input_ids=ids).logits[0, len(prompt) - 1 : -1, : engine.demo.shape.VOCABULARY].float()
    assert logits.argmax(-1).tolist() == list(reply.token_ids)
    theirs = logits.log_softmax(-1).gather(-1, ids[0, len(prompt) :, None])[:, 0]
    # Both in fp32 on one machine, in other orders of summation over six layers.
    assert [item.logprob for item in reply.logprobs] == pytest.approx(theirs.tolist(), abs=2e-3)


def test_a_high_effort_thinks_first(demo) -> None:
    context = about("document", samples.QUESTION)
    context.effort = "high"
    reply = demo.generate(context, max_tokens=48, temperature=0)
    assert reply.reasoning.startswith("Asked: ")
    assert reply.text == "It is Ana Duarte."
