"""Phrases that facts are about and the values they state, drawn at random for training or for evaluation.

Values and most words come from pools that both sides do not share. Deterministic in the generator that is passed in.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from engine.demo.train import words
from engine.demo.train.relations import RELATIONS, Relation
from engine.demo.train.tokens import is_held_out, vocabulary_words

_VALUE_KINDS = ("person", "code", "number", "price", "opens", "spot", "length", "date", "name")
_ONSETS = [*"bcdfghklmnprstvwz", "br", "cr", "dr", "gr", "pr", "st", "tr"]
_VOWELS = [*"aeiou", "ai", "ei", "ou", "ia"]
_CODAS = ["", "n", "r", "l", "s", "m", "k", "t", "nd", "rt"]


@dataclass(frozen=True, slots=True)
class Fact:
    """A relation with its slots filled."""

    relation: Relation
    key: str
    other: str
    value: str
    form: int
    asked: int = 0
    """How many of the relation's questions are in use; 0: all that training knows."""

    @property
    def of(self) -> str:
        """The second phrase as it stands after "of"."""
        return f"the {self.other}" if self.relation.key == "role_of_thing" else self.other

    @property
    def two(self) -> bool:
        """Whether it takes key and second phrase together to tell what it is about."""
        return "{other}" in self.relation.sentences[0]

    def sentence(self) -> str:
        """How the document states it."""
        return self.relation.sentences[self.form].format(key=self.key, other=self.other, value=self.value)


class Phrases:
    """Draws words on one side: training, or held out.

    Parameters
    ----------
    random : Random
        All draws come from it.
    held_out : bool
        Which side's words.
    spread : float
        Share of the pools in use, 0 to 1: small at the start of training.
    """

    def __init__(self, random: Random, *, held_out: bool = False, spread: float = 1.0):
        self.random, self.held_out, self.spread = random, held_out, spread
        self.relations = RELATIONS[: max(3, round(len(RELATIONS) * spread))]

    def _pick(self, pool: tuple[str, ...] | list[str]) -> str:
        return pool[int(self.random.random() * max(1, round(len(pool) * self.spread)))]

    def name_word(self) -> str:
        """A capitalised word: a given list's, the vocabulary's, or one made up of syllables (several tokens)."""
        kind = self.random.random()
        if kind < 0.55 + 0.25 * (1 - self.spread):
            return self._pick(vocabulary_words("name", self.held_out))
        if kind < 0.8 + 0.2 * (1 - self.spread):
            return self._ours(words.GIVEN + words.FAMILY + words.PLACES)
        return self.made_up().capitalize()

    def noun(self) -> str:
        """A lower-case word."""
        if self.random.random() < 0.5:
            return self._ours(words.THINGS)
        return self._pick(vocabulary_words("noun", self.held_out))

    def _ours(self, pool: list[str]) -> str:
        # Key words of our own lists are common to both sides; it is values and wordings that are held apart.
        return self.random.choice(pool)

    def made_up(self) -> str:
        """A word of two or three random syllables on this side."""
        r = self.random
        while True:
            word = "".join(r.choice(_ONSETS) + r.choice(_VOWELS) + r.choice(_CODAS) for _ in range(r.randint(2, 3)))
            if is_held_out(word) == self.held_out:
                return word

    def thing(self) -> str:
        """One to three words, e.g. "north gate"."""
        r = self.random
        head = self.noun()
        kind = r.random()
        if kind < 0.15:
            return head
        if kind < 0.5:
            return f"{r.choice(words.QUALITIES)} {head}"
        if kind < 0.8:
            return f"{self.noun()} {head}"
        if kind < 0.9:
            return f"{r.choice(words.QUALITIES)} {self.noun()} {head}"
        return f"{head} of {self.place()}"

    def role(self) -> str:
        """One or two words, e.g. "harbour master"."""
        r = self.random
        if r.random() < 0.2:
            return r.choice(words.ROLES)
        first = self.noun() if r.random() < 0.7 else r.choice(words.QUALITIES)
        return f"{first} {r.choice(words.ROLES)}"

    def place(self) -> str:
        """A place's name."""
        return self._ours(words.PLACES) if self.random.random() < 0.5 else self.name_word()

    def person(self) -> str:
        """Two names, sometimes one or three."""
        r, parts = self.random, [self._value_name(), self._value_name()]
        kind = r.random()
        if kind < 0.1:
            return parts[0]
        if kind < 0.18:
            return f"Dr {parts[1]}"
        if kind < 0.25:
            parts.insert(1, self._value_name())
        return " ".join(parts)

    def _value_name(self) -> str:
        """A name on this side only: values are never shared."""
        while True:
            word = self.name_word()
            if is_held_out(word) == self.held_out:
                return word

    def value(self, kind: str) -> str:
        """A value of a kind that :data:`RELATIONS` names."""
        r = self.random
        match kind:
            case "any":
                return self.value(r.choice(_VALUE_KINDS))
            case "person":
                return self.person()
            case "code":
                return self._code()
            case "number":
                return str(r.randint(10, 10 ** r.randint(2, 7) + 10))
            case "price":
                whole, cents = r.randint(1, 999), f"{r.randint(1, 99)}.{r.randint(0, 99):02}"
                amount = r.choice([str(whole), str(whole), cents, f"{r.randint(1, 9)},{r.randint(0, 999):03}"])
                return f"{amount} {r.choice(words.UNITS[:5])}"
            case "time" | "opens" | "closes":
                return f"{r.randint(0, 23):02}:{r.choice(range(0, 60, 5)):02}"
            case "spot":
                return self._spot()
            case "channel":
                return f"channel {r.randint(1, 99)}"
            case "count":
                return f"{r.randint(2, 400)} {r.choice(words.COUNTED)}"
            case "length" | "weight":
                return f"{r.randint(2, 900)} {r.choice(('metres', 'kilometres') if kind == 'length' else ('kilograms', 'tonnes'))}"
            case "date":
                day = f"{r.randint(1, 28)} {r.choice(words.MONTHS)}"
                return r.choice([day, f"{day} {r.randint(1850, 2035)}", r.choice(words.DAYS)])
            case "year":
                return str(r.randint(1500, 2035))
            case "owner" | "runner":
                return self.person()
            case "name" | "password":
                return self._value_name() if r.random() < 0.6 else self._pick(vocabulary_words("noun", self.held_out))
            case "colour":
                return r.choice(words.COLOURS) if r.random() < 0.5 else self._pick(vocabulary_words("noun", self.held_out))
            case "material":
                return self._pick(vocabulary_words("noun", self.held_out))
        raise ValueError(f"no such kind of value: {kind}")

    def _code(self) -> str:
        r = self.random
        digits = "".join(r.choice("0123456789") for _ in range(r.randint(3, 7)))
        letters = "".join(r.choice("ABCDEFGHKLMNPRSTUVWXYZ") for _ in range(r.randint(1, 3)))
        if not self.held_out and r.random() < 0.4:
            # Capitals are what a copy loses most easily: training has more of them.
            return f"{letters}{r.choice(('-', '-', ''))}{digits}"
        return r.choice(
            [digits, digits, digits, f"{letters}-{digits}", f"{letters}{digits}", f"{digits[:2]}-{digits[2:]}", self.made_up()]
        )

    def _spot(self) -> str:
        r = self.random
        kind = r.random()
        if kind < 0.5:
            return f"{r.choice(words.HOLDERS)} {r.randint(1, 99)}"
        if kind < 0.8:
            return f"the {self.thing()}"
        return self._value_name()

    def fact(self, relation: Relation | None = None, *, key: str | None = None) -> Fact:
        """A new fact, of `relation` and about `key` where given."""
        relation = relation or self.random.choice(self.relations)
        other = self.place()
        match relation.key:
            case "role_of_place" | "role":
                made = self.role()
            case "role_of_thing":
                made, other = self.role(), self.thing()
            case "fee_for":
                made, other = self.noun(), self.noun() + "s"
            case "person":
                made = self.person()
            case "heading":
                made = (self.role() if self.random.random() < 0.4 else self.thing()).capitalize()
            case _:
                made = self.thing()
        forms = max(1, round(len(relation.sentences) * self.spread))
        asked = max(1, round((len(relation.questions) - 1) * self.spread))
        return Fact(relation, key or made, other, self.value(relation.value), self.random.randrange(forms), asked)

    def near(self, fact: Fact) -> Fact:
        """A fact easily taken for `fact`: its relation, sharing words of its key or its second phrase."""
        fresh = self.fact(fact.relation)
        if fact.two and self.random.random() < 0.5:
            return Fact(fact.relation, fact.key, fresh.other, fresh.value, fresh.form, fresh.asked)
        pieces, mine = fact.key.split(), fresh.key.split()
        if len(pieces) > 1 and self.random.random() < 0.8:
            first = self.random.random() < 0.5
            pieces[0 if first else -1] = mine[0 if first else -1]
            key = " ".join(pieces)
        else:
            key = fresh.key
        return Fact(fact.relation, key, fact.other, fresh.value, fresh.form, fresh.asked)

    def sideways(self, fact: Fact) -> Fact:
        """A fact of another relation about the same thing: it answers none of the questions about `fact`."""
        others = [r for r in self.relations if r.key == fact.relation.key and r.value != fact.relation.value]
        return self.fact(self.random.choice(others), key=fact.key) if others else self.near(fact)
