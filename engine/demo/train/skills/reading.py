"""Documents to look facts up in, of any length, and questions that they answer, do not answer, or answer in two steps.

The same facts and layouts as :mod:`engine.demo.train.lookup`, as scenes: for evaluation, for thinking, and beside other media.
"""

from __future__ import annotations

from random import Random

from engine.demo.train.facts import Fact, Phrases
from engine.demo.train.lookup import NOT_STATED, absent_fact, chains_of, document, facts_of, filler, question_for
from engine.demo.train.skills.items import Answer, Ask, Scene, Step, Text, it_is
from engine.demo.train.tokens import encode, vocabulary_words

FACTS_TOKENS = 8_000
"""Longer documents get no more facts than such a one, but more filler between them."""


class Foreign(Phrases):
    """Phrases whose names, places and things training never sees: no word of the common lists."""

    def _ours(self, pool: list[str]) -> str:
        kind = "name" if pool[0][0].isupper() else "noun"
        if self.random.random() < 0.5:
            return self._pick(vocabulary_words(kind, self.held_out))
        return self.made_up().capitalize() if kind == "name" else self.made_up()


def scene(random: Random, *, held_out: bool, level: float, room: int, foreign: bool = False) -> Scene:
    """A document of about `room` tokens.

    Parameters
    ----------
    foreign : bool
        Draw names and things outside the common lists, too.
    """
    del level
    phrases = (Foreign if foreign else Phrases)(random, held_out=held_out)
    facts, texts = facts_of(phrases, max(30, min(room, FACTS_TOKENS) - 20))
    used = sum(len(encode(text)) + 1 for text in texts)
    if used < room - 40:
        while used < room - 40:
            texts.append(filler(phrases))
            used += len(encode(texts[-1])) + 1
        random.shuffle(texts)
    return Scene((Text(document(random, phrases, texts)),), kinds(phrases, facts), max(2, min(10, room // 50)), alone=True)


def kinds(phrases: Phrases, facts: list[Fact]) -> tuple[tuple[float, str, Ask], ...]:
    """Questions about a document of these facts."""
    chains = chains_of(facts)

    def stated(random: Random, paraphrase: bool) -> tuple[Step, ...]:
        fact = random.choice(facts)
        return Text(question_for(random, fact, paraphrase)), it_is(fact.value, "lookup")

    def absent(random: Random, paraphrase: bool) -> tuple[Step, ...]:
        phrases.random = random
        while True:
            if fact := absent_fact(phrases, facts):
                return Text(question_for(random, fact, paraphrase)), Answer("not stated", NOT_STATED)

    def two_hops(random: Random, paraphrase: bool) -> tuple[Step, ...]:
        first, second = random.choice(chains)
        text = question_for(random, second, paraphrase, key=f"the {first.key} of {first.of}")
        return Text(text), it_is(f"{first.value}: {second.value}", "two hops", thinking=first.sentence())

    return (
        (0.7, "lookup", stated),
        (0.2, "not stated", absent),
        *(((0.1, "two hops", two_hops),) if chains else ()),
    )
