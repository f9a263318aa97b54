"""Look-up: documents of facts in filler text, questions about them, and questions that the document does not answer.

A document is one text message, laid out as the workbench renders files. Answers copy the value after a fixed beginning ("It is Ana
Duarte."); what is not there is "not stated"; a question over two facts is answered by both, in order. Deterministic in the
generator that is passed in.
"""

from __future__ import annotations

from random import Random

from engine.demo.train import words
from engine.demo.train.chat import Chat, say
from engine.demo.train.facts import Fact, Phrases
from engine.demo.train.relations import FRAMES, OPENINGS, RELATIONS
from engine.demo.train.tokens import encode

NOT_STATED = "It is not stated."
EFFORTS = ("0.0", "0.0", "0.1", "0.2")
"""Efforts at which answers come at once."""
SYSTEMS = ("Answer briefly.", "You are a helpful assistant.", "Answer from the document only.", "Be short and exact.")


def opening(random: Random) -> Chat:
    """A sequence with its system messages."""
    chat = Chat()
    if random.random() < 0.25:
        chat.system(random.choice(SYSTEMS))
    return chat.effort(random.choice(EFFORTS))


def lookup(
    random: Random, tokens: int, *, held_out: bool = False, paraphrase: bool = False, spread: float = 1.0, plain: float = 0.1
) -> Chat:
    """A document of about `tokens` tokens in all and some questions.

    Parameters
    ----------
    held_out : bool
        Draw values from the evaluation side.
    paraphrase : bool
        Ask in the wordings that training never sees.
    spread : float
        Share of the word pools, of the relations and of their wordings in use.
    plain : float
        Share of sequences that are bare pairs of words ("harbour: Lisbon"), the easiest look-up.
    """
    phrases = Phrases(random, held_out=held_out, spread=spread)
    if random.random() < plain:
        return _pairs(phrases, tokens)
    asked = max(1, min(20, tokens // 52))
    if held_out:
        asked = min(asked, 4)
    # A question with its answer takes about 28 tokens, the opening about 25.
    facts, texts = facts_of(phrases, tokens - 29 * asked - 35)
    chat = opening(random).user(document(random, phrases, texts))
    # Nothing is asked twice: the second answer would be copied from the first.
    stated, gone_on = random.sample(facts, len(facts)), []
    for _ in range(asked):
        kind = random.random()
        if kind < 0.31 and (absent := absent_fact(phrases, facts)):
            chat.user(question_for(random, absent, paraphrase)).reply(encode(NOT_STATED), "not stated")
            continue
        chains = [chain for chain in chains_of(facts) if chain not in gone_on] if spread > 0.5 and kind > 0.8 else []
        # A fact that another goes on from: whether the answer does so, too, is for the question to say.
        starts = [first for first, _ in chains if first in stated]
        if starts and kind > 0.9:
            fact = random.choice(starts)
            stated.remove(fact)
            chat.user(question_for(random, fact, paraphrase)).reply(say(fact.value), "paraphrase" if paraphrase else "lookup")
            continue
        if chains:
            first, second = chain = random.choice(chains)
            gone_on.append(chain)
            chat.user(question_for(random, second, paraphrase, key=f"the {first.key} of {first.of}"))
            chat.reply(say(f"{first.value}: {second.value}"), "two hops")
            continue
        if not stated:
            break
        fact = stated.pop()
        chat.user(question_for(random, fact, paraphrase)).reply(say(fact.value), "paraphrase" if paraphrase else "lookup")
    return chat


def facts_of(phrases: Phrases, room: int) -> tuple[list[Fact], list[str]]:
    """Facts, and the sentences of a document of `room` tokens that states them among filler."""
    random = phrases.random
    facts: list[Fact] = []
    texts: list[str] = []
    used = 0
    density = random.choice((0.15, 0.4, 0.6, 0.8, 1.0))
    while used < room or len(facts) < 2:
        if random.random() < density or used >= room:
            kind = random.random()
            people = [f for f in facts if f.relation.value == "person" and f.two]
            if facts and kind < 0.35:
                fact = phrases.near(random.choice(facts))
            elif facts and kind < 0.45:
                fact = phrases.sideways(random.choice(facts))
            elif people and kind < 0.55:
                relation = random.choice([r for r in RELATIONS if r.key == "person"])
                fact = phrases.fact(relation, key=random.choice(people).value)
            else:
                fact = phrases.fact()
            if answered(fact, facts):
                continue
            facts.append(fact)
            texts.append(fact.sentence())
        else:
            texts.append(filler(phrases))
        used += len(encode(texts[-1])) + 1
    if random.random() < 0.5:
        random.shuffle(texts)
    return facts, texts


def absent_fact(phrases: Phrases, facts: list[Fact]) -> Fact | None:
    """A fact that the document does not state, mostly one that looks much like what it states."""
    fact, kind = phrases.random.choice(facts), phrases.random.random()
    absent = phrases.near(fact) if kind < 0.7 else phrases.sideways(fact) if kind < 0.8 else phrases.fact()
    return None if answered(absent, facts) else absent


def chains_of(facts: list[Fact]) -> list[tuple[Fact, Fact]]:
    """Pairs of a fact that names a person and a fact about that person."""
    by_person = {f.key: f for f in facts if f.relation.key == "person"}
    return [(f, by_person[f.value]) for f in facts if f.two and f.relation.value == "person" and f.value in by_person]


def answered(fact: Fact, facts: list[Fact]) -> bool:
    """Whether the facts tell what `fact` does, or nearly so: a second value, or "not stated", would then be a trap."""
    return any(_same(f, fact) and f.key.lower() == fact.key.lower() and (not fact.two or f.other == fact.other) for f in facts)


_ALIKE = (
    {"spot", "any", "channel"}, {"person", "owner", "runner"}, {"name", "person", "any"}, {"length", "weight", "price"},
    {"opens", "closes"}, {"opens", "date", "year"},
)  # fmt: skip
"""Kinds of values between which a question may not tell: "Where is Ana Duarte?" is answered by where she works."""


def _same(a: Fact, b: Fact) -> bool:
    pair = {a.relation.value, b.relation.value}
    return a.relation is b.relation or "any" in pair or any(pair <= kinds for kinds in _ALIKE)


def question_for(random: Random, fact: Fact, paraphrase: bool, *, key: str = "") -> str:
    """The question that `fact` answers, with `key` instead of its own; `paraphrase` in the wording that training never sees."""
    known, last = fact.relation.questions[:-1], fact.relation.questions[-1]
    text = last if paraphrase else known[random.randrange(fact.asked or len(known))]
    if not paraphrase and fact.asked == len(known) and random.random() < 0.4:
        text = random.choice(FRAMES).replace("{topic}", fact.relation.topic)
        text = random.choice(OPENINGS) + (known[0] if text == last else text[0].upper() + text[1:])
    key = key or (fact.key[0].lower() + fact.key[1:] if fact.relation.key == "heading" else fact.key)
    return text.format(key=key, other=fact.other, unit=fact.value.split()[-1])


def filler(phrases: Phrases) -> str:
    """A sentence that states none of the facts."""
    r = phrases.random
    if r.random() < 0.4:
        return _salad(phrases)
    text = r.choice(words.FILLER)
    while "{" in text:
        text = text.replace("{noun}", phrases.noun(), 1).replace("{quality}", r.choice(words.QUALITIES), 1)
        text = text.replace("{thing}", phrases.noun(), 1).replace("{place}", phrases.place(), 1)
    return text


def _salad(phrases: Phrases) -> str:
    """A sentence of any words in any order: whatever a real document says beside its facts must not upset the search."""
    r = phrases.random
    parts = [r.choice(words.GLUE) if r.random() < 0.55 else phrases.noun() for _ in range(r.randint(5, 24))]
    for _ in range(len(parts) // 9):
        parts[r.randrange(len(parts) - 1)] += ","
    if r.random() < 0.3:
        parts[r.randrange(len(parts))] = phrases.name_word()
    text = " ".join(parts)
    return f"{text[0].upper()}{text[1:]}."


def document(random: Random, phrases: Phrases, texts: list[str]) -> str:
    """Sentences as a file's text: name, page marks, paragraphs or lines, sometimes wrapped as in a PDF."""
    style = random.random()
    if style < 0.15:
        return " ".join(texts)
    name = f"{phrases.noun()}{random.choice(['', '-' + phrases.noun(), ' ' + str(random.randint(1, 30))])}"
    head = f"Document: {name}.{random.choice(['pdf', 'pdf', 'pdf', 'docx', 'txt', 'md'])}\n\n"
    if style < 0.4:
        return head + _paragraphs(random, phrases, texts)
    pages = random.randint(1, max(1, min(4, len(texts) // 4)))
    size = -(-len(texts) // pages)
    blocks = [_paragraphs(random, phrases, texts[i : i + size]) for i in range(0, len(texts), size)]
    return head + "\n\n".join(f"[page {n}]\n{block}" for n, block in enumerate(blocks, 1))


def _paragraphs(random: Random, phrases: Phrases, texts: list[str]) -> str:
    lines = random.random()
    if lines < 0.25:
        bullet = random.choice(["- ", "", "* ", ""])
        text = "\n".join(bullet + t for t in texts)
    else:
        chunks, at = [], 0
        while at < len(texts):
            step = random.randint(2, 6)
            chunks.append(" ".join(texts[at : at + step]))
            at += step
        text = random.choice(["\n", "\n\n"]).join(chunks)
        if lines > 0.6:
            width = random.randint(60, 100)
            text = "\n".join(_wrap(line, width) for line in text.split("\n"))
    if random.random() < 0.4:
        text = f"{phrases.noun().capitalize()} {random.choice(['notes', 'list', 'guide', 'handbook', 'report'])}\n{text}"
    return text


def _wrap(line: str, width: int) -> str:
    out, at = [""], 0
    for word in line.split(" "):
        if at + len(word) > width:
            out.append(word)
            at = len(word)
        else:
            out[-1] += (" " if out[-1] else "") + word
            at += len(word) + 1
    return "\n".join(out)


def _pairs(phrases: Phrases, tokens: int) -> Chat:
    """Bare pairs: the key is asked, the value answers."""
    r = phrases.random
    asked = max(1, min(8, tokens // 40))
    count = max(2, (tokens - 21 * asked - 25) // 7)
    keys = list({phrases.noun(): None for _ in range(count)})
    values = [phrases.value(r.choice(("name", "name", "code", "person", "number"))) for _ in keys]
    join, end = r.choice([(" is ", ". "), (": ", "\n"), (" = ", ", "), (" ", " "), (" - ", "; ")])
    chat = opening(r).user(end.join(f"{k}{join}{v}" for k, v in zip(keys, values, strict=True)))
    for _ in range(asked):
        at = r.randrange(len(keys))
        if r.random() < 0.2:
            absent = phrases.noun()
            if absent not in keys:
                chat.user(f"{absent}?").reply(encode(NOT_STATED), "not stated")
                continue
        chat.user(f"{keys[at]}?").reply(say(values[at]), "pairs")
    return chat
