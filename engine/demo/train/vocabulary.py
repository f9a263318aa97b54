"""Which ids have trained rows: everything our own texts are made of. All others keep the rows drawn from their spelling."""

from __future__ import annotations

import re
from functools import lru_cache

from engine.demo.train import words
from engine.demo.train.lookup import NOT_STATED, SYSTEMS
from engine.demo.train.relations import FRAMES, OPENINGS, RELATIONS
from engine.demo.train.skills.wordings import TEXTS
from engine.demo.train.tokens import encode, framing, tokenizer

_EXTRA = (
    NOT_STATED, "Thinking effort level: 0.0 0.1 0.2 0.5 0.7 0.9 0.99", "Document: report.pdf docx txt md\n\n[page 1]\n",
    "[page 1: blank] [page 2: shown as image 1 below]", "notes list guide handbook report", "Hello! Hi. Thanks. Yes. No. OK",
    "What is at row 1, column 2? red green blue yellow black purple orange white circle square triangle empty",
    "Which shape is where? How many shapes are there? What colour is the circle? Where is the red circle? row column",
    "Which keys are dialled? Which digits are spoken? What number is shown? Is it the same number? Which bar is tallest? shortest",
    'Which code is dialled in the call? {"name":"","args":{"":""}} {"city":"","query":"","code":""} tool_declare description',
    "image images audio recording call first second third document picture chart number digits code text answer question",
    ". , ; : ! ? - = * # / \\ ( ) [ ] { } ' \" _ + % & @ < > | ~ ` ^ $ € £", " .\n .\n\n :\n \n \n\n  ,\n",
)  # fmt: skip


@lru_cache(1)
def trained_ids() -> tuple[int, ...]:
    """Sorted ids with trained rows: words of templates and lists in every spelling used, numbers up to 999, letters, framing."""
    texts = [*_EXTRA, *TEXTS, *SYSTEMS, *words.FILLER, "It is red.", "Asked: ", *FRAMES, *OPENINGS]
    for relation in RELATIONS:
        texts += [*relation.sentences, *relation.questions, relation.topic]
    found: set[int] = set()
    for text in texts:
        found.update(encode(re.sub(r"\{\w+\}", "x", text)))
    pools = (
        words.GLUE, words.COLOURS, words.QUALITIES, words.THINGS, words.ROLES, words.MONTHS, words.DAYS, words.UNITS, words.COUNTED,
        words.HOLDERS,
    )  # fmt: skip
    for word in {w for pool in pools for w in pool} | {w for text in texts for w in re.findall(r"[A-Za-z]+", text)}:
        for spelled in (word, word.capitalize(), " " + word, " " + word.capitalize()):
            if len(ids := encode(spelled)) == 1:
                found.update(ids)
    for number in range(1000):
        for spelled in (str(number), f"{number:02}", f"{number:03}"):
            found.update(encode(spelled))
    for code in range(32, 127):
        found.update(encode(chr(code)))
    found.update(tokenizer().encode_special(name) for name in tokenizer().special_tokens())
    found.update(getattr(framing(), name) for name in ("image_slot", "audio_slot"))
    return tuple(sorted(found))
