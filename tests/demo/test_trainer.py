"""The trainer: rows from spellings, generators that share no values, a forward that equals transformers' Inkling."""

from __future__ import annotations

import hashlib
from random import Random

import numpy as np
import pytest
import torch

from engine.demo.checkpoint import write_checkpoint
from engine.demo.rows import spelled_rows
from engine.demo.shape import VOCABULARY, Shape
from engine.demo.train.chat import say
from engine.demo.train.drafts import Draft
from engine.demo.train.evaluate import Score
from engine.demo.train.export import write_compact
from engine.demo.train.facts import Phrases
from engine.demo.train.lookup import lookup, question_for
from engine.demo.train.loop import new_model
from engine.demo.train.model import DemoModel
from engine.demo.train.relations import RELATIONS
from engine.demo.train.tokens import decode, encode, is_held_out, vocabulary_words
from engine.demo.trained import trained_tensors
from engine.errors import EngineError


@pytest.fixture(scope="module")
def model() -> DemoModel:
    """A model away from its start: every part that begins neutral is made to matter."""
    made = new_model()
    torch.manual_seed(3)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
            parameter.copy_(parameter.bfloat16())
        for name, buffer in made.named_buffers():
            if name.endswith("mlp.bias"):
                buffer.normal_(0, 0.1)
    return made.eval()


@pytest.fixture(scope="module")
def compact(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("compact") / "demo.safetensors"
    torch.manual_seed(4)
    write_compact(model, [Draft(Shape()) for _ in range(Shape().draft_layers)], path)
    return path


def test_rows_are_reproducible_and_exact_in_bfloat16():
    rows = spelled_rows(128)
    assert np.array_equal(rows, torch.from_numpy(rows).bfloat16().float().numpy())
    assert len(np.unique(rows, axis=0)) == len(rows)
    # Written down once: another machine or library version must draw the very same rows, or shipped weights would not fit them.
    assert hashlib.sha256(rows.tobytes()).hexdigest()[:16] == "10abe2cb579b19cd"
    space, bare = (rows[tokens[0]] for tokens in (encode(" Ana"), encode("Ana")))
    assert np.array_equal(space[:112], bare[:112])
    assert not np.array_equal(space[112:], bare[112:])


def test_generators_are_deterministic_and_share_no_words():
    first, again = (lookup(Random("a"), 512).ids for _ in range(2))
    assert first == again
    assert lookup(Random("b"), 512).ids != first
    for kind in ("name", "noun"):
        assert not {w.lower() for w in vocabulary_words(kind, True)} & {w.lower() for w in vocabulary_words(kind, False)}
    assert all(is_held_out(word) for word in vocabulary_words("name", True))


def test_training_never_asks_in_the_wording_that_is_held_out():
    random = Random("wordings")
    phrases = Phrases(random)
    for relation in RELATIONS:
        held_out = relation.questions[-1]
        assert held_out not in relation.questions[:-1]
        for _ in range(80):
            fact = phrases.fact(relation)
            asked = question_for(random, fact, False)
            key = fact.key[0].lower() + fact.key[1:] if relation.key == "heading" else fact.key
            assert held_out.format(key=key, other=fact.other, unit=fact.value.split()[-1]) not in asked


def test_an_answer_is_in_the_document_and_ends_the_turn():
    for number in range(20):
        chat = lookup(Random(number), 512, plain=0.0)
        document = decode(chat.ids[: chat.answers[0].start]).replace("\n", " ")
        for answer in chat.answers:
            told = decode(chat.ids[slice(*answer.payload)])
            assert told.startswith("It is ")
            if answer.skill != "not stated":
                # Of an answer over two facts both values stand in the document, though not side by side.
                values = told[len("It is ") : -1].split(": ") if answer.skill == "two hops" else [told[len("It is ") : -1]]
                assert all(value in document for value in values)
            assert decode(chat.ids[answer.payload[1] : answer.stop]) == "<|end_message|><|content_model_end_sampling|>"


def test_an_answer_copies_the_tokens_of_running_text():
    for value in ("Ana Duarte", "48213", "35 euros", "pier 7", "09:40"):
        ids = say(value)
        assert decode(ids) == f"It is {value}."
        # A fixed beginning makes the answer a plain copy: the value is the same run of ids in a sentence of the document.
        text, inner = encode(f"The code of the gate is {value}, they say."), tuple(ids[2:-1])
        assert any(text[i : i + len(inner)] == inner for i in range(len(text)))


def test_the_interval_holds_the_share():
    low, high = Score(194, 200).interval()
    assert low < 0.97 < high
    assert (round(low, 3), round(high, 3)) == (0.936, 0.986)  # Wilson's interval, from its published formula


def test_the_exported_checkpoint_equals_the_trainer(model, compact, tmp_path):
    """Trainer and transformers agree on the unpacked checkpoint: text, image and audio, longer than both reaches."""
    from transformers import InklingForConditionalGeneration

    folder = write_checkpoint(
        tmp_path / "unpacked", Shape(), lambda: trained_tensors(compact), revision="test", random_weights=False
    )
    theirs = InklingForConditionalGeneration.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    torch.manual_seed(5)
    ids = torch.randint(0, 199_000, (1, 384))
    ids[0, 10:16], ids[0, 300:310] = 200_054, 200_053
    patches, frames = torch.randn(6, 40, 40, 3), torch.randint(0, 16, (10, 80))
    with torch.no_grad():
        stream = model.hidden(model.embed(ids, [(0, 10, patches), (0, 300, frames)]))
        wanted = theirs(
            input_ids=ids, pixel_values=patches[:, None].expand(-1, 2, -1, -1, -1), audio_input_ids=frames[None],
            audio_input_ids_mask=torch.ones(1, 10, dtype=torch.bool),
        ).logits[0]  # fmt: skip
        got = model.logits(stream[0], torch.arange(VOCABULARY))
    # The weights are bfloat16 values on both sides, but for the head: its product of row and scale is rounded once, by at most
    # 2^-9 of each value, which 128 summands of random sign turn into under 1 % of the logits' spread.
    assert float((got - wanted).abs().max()) < 0.04 * float(wanted.std())
    # With the trainer's own unrounded head the rest agrees to fp32.
    hidden = theirs.model(
        input_ids=ids, pixel_values=patches[:, None].expand(-1, 2, -1, -1, -1), audio_input_ids=frames[None],
        audio_input_ids_mask=torch.ones(1, 10, dtype=torch.bool),
    ).last_hidden_state[0]  # fmt: skip
    mine = model.norm(stream[0]).detach()
    assert float((mine - hidden.detach()).abs().max()) < 5e-5 * float(hidden.detach().abs().max())


def test_a_damaged_file_is_refused(compact, tmp_path):
    copy = tmp_path / "demo.safetensors"
    content = bytearray(compact.read_bytes())
    content[-1] ^= 1
    copy.write_bytes(bytes(content))
    copy.with_suffix(".sha256").write_text(compact.with_suffix(".sha256").read_text())
    with pytest.raises(EngineError, match="damaged"):
        trained_tensors(copy)
