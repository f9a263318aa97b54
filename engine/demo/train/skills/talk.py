"""Conversation: greetings, and facts that are told over several turns and asked for later."""

from __future__ import annotations

from random import Random

from engine.demo.train.facts import Phrases
from engine.demo.train.lookup import answered
from engine.demo.train.skills import reading
from engine.demo.train.skills.items import Answer, Scene, Step, Text, counted_as
from engine.demo.train.skills.wordings import BYE, HELLO, THANKS, TOLD

NOTED, WELCOME, GREETING, PARTING = "Noted.", "You are welcome.", "Hello! What can I do for you?", "Goodbye!"


def told(random: Random, *, held_out: bool, level: float, room: int) -> Scene:
    """One to five facts, each told in a turn of its own, then questions about them; and a greeting now and then."""
    phrases, facts, steps = Phrases(random, held_out=held_out), [], []
    if random.random() < 0.3:
        steps += [*_said(HELLO.ask(random, False), GREETING)]
    for _ in range(random.randint(1, max(1, min(round(1 + 4 * level), (room - 10) // 32)))):
        fact = phrases.fact()
        while answered(fact, facts):
            fact = phrases.fact()
        facts.append(fact)
        steps += [*_said(TOLD.ask(random, False, fact=fact.sentence()), NOTED)]
    questions = tuple(
        (share, "turns", counted_as(ask, "turns")) if name == "lookup" else (share, name, ask)
        for share, name, ask in reading.kinds(phrases, facts)
    )

    def courtesy(random: Random, paraphrase: bool) -> tuple[Step, ...]:
        wording, reply = random.choice(((HELLO, GREETING), (THANKS, WELCOME), (THANKS, WELCOME), (BYE, PARTING)))
        return _said(wording.ask(random, paraphrase), reply)

    return Scene(tuple(steps), (*questions, (0.1, "courtesy", courtesy)), questions=2 * len(facts) + 1, alone=True)


def _said(text: str, reply: str) -> tuple[Step, ...]:
    return Text(text), Answer("courtesy", reply)
