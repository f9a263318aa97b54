"""Look-up: documents of facts in filler text, questions about them, and questions that the document does not answer.

A document is one text message, laid out as the workbench renders files. Answers are the bare value, copied; what is not there is
"Not stated." Deterministic in the generator that is passed in.
"""

from __future__ import annotations

from random import Random

from engine.demo.train import words
from engine.demo.train.chat import Chat
from engine.demo.train.facts import Fact, Phrases
from engine.demo.train.tokens import encode, quote

NOT_STATED = "Not stated."
EFFORTS = ("0.9", "0.9", "0.9", "0.0", "0.1", "0.2", "0.7", "0.99", "0.5")
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
        Share of the word pools in use.
    plain : float
        Share of sequences that are bare pairs of words ("harbour: Lisbon"), the easiest look-up.
    """
    phrases = Phrases(random, held_out=held_out, spread=spread)
    if random.random() < plain:
        return _pairs(phrases, tokens)
    asked = max(1, min(8, tokens // 50))
    if held_out:
        asked = min(asked, 4)
    # A question with its answer takes about 26 tokens, the opening about 25.
    room = tokens - 27 * asked - 35
    facts: list[Fact] = []
    texts: list[str] = []
    used = 0
    density = random.choice((0.2, 0.4, 0.6, 0.6, 0.8, 1.0))
    while used < room or len(facts) < 2:
        if random.random() < density or used >= room:
            near = facts and random.random() < 0.35
            fact = phrases.near(random.choice(facts)) if near else phrases.fact()
            if _answered(fact, facts):
                continue
            facts.append(fact)
            texts.append(fact.sentence())
        else:
            texts.append(filler(phrases))
        used += len(encode(texts[-1])) + 1
    if random.random() < 0.3:
        random.shuffle(texts)
    chat = opening(random).user(document(random, phrases, texts))
    for _ in range(asked):
        if random.random() < 0.2:
            absent = phrases.near(random.choice(facts)) if random.random() < 0.7 else phrases.fact()
            if not _answered(absent, facts):
                chat.user(_question(random, absent, paraphrase)).reply(encode(NOT_STATED), "not stated")
                continue
        fact = random.choice(facts)
        chat.user(_question(random, fact, paraphrase)).reply(quote(fact.value), "paraphrase" if paraphrase else "lookup")
    return chat


def _answered(fact: Fact, facts: list[Fact]) -> bool:
    """Whether the document says anything of the key: a second value, or "not stated", would then be a trap."""
    two = fact.relation.key in ("role_of_place", "thing_to_place")
    return any(f.key.lower() == fact.key.lower() and (not two or f.other == fact.other) for f in facts)


def _question(random: Random, fact: Fact, paraphrase: bool) -> str:
    known, last = fact.relation.questions[:-1], fact.relation.questions[-1]
    text = last if paraphrase else random.choice(known)
    unit = fact.value.split()[-1]
    key = fact.key if text.startswith("{key}") else fact.key[0].lower() + fact.key[1:]
    return text.format(key=key, other=fact.other, unit=unit)


def filler(phrases: Phrases) -> str:
    """A sentence that states none of the facts."""
    r = phrases.random
    text = r.choice(words.FILLER)
    while "{" in text:
        text = text.replace("{noun}", phrases.noun(), 1).replace("{quality}", r.choice(words.QUALITIES), 1)
        text = text.replace("{thing}", phrases.noun(), 1).replace("{place}", phrases.place(), 1)
    return text


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
    count = max(2, (tokens - 17 * asked - 25) // 7)
    keys = list({phrases.noun(): None for _ in range(count)})
    values = [phrases.value(r.choice(("word", "word", "code", "person", "number"))) for _ in keys]
    join, end = r.choice([(" is ", ". "), (": ", "\n"), (" = ", ", "), (" ", " "), (" - ", "; ")])
    chat = opening(r).user(end.join(f"{k}{join}{v}" for k, v in zip(keys, values, strict=True)))
    for _ in range(asked):
        at = r.randrange(len(keys))
        if r.random() < 0.12:
            absent = phrases.noun()
            if absent not in keys:
                chat.user(f"{absent}?").reply(encode(NOT_STATED), "not stated")
                continue
        chat.user(f"{keys[at]}?").reply(quote(values[at]), "pairs")
    return chat
