"""Kinds of facts: how a document may state one and how one may ask for it.

A relation has sentences and questions over the slots ``{key}`` (what it is about), ``{other}`` (a second phrase, for some) and
``{value}``. The last question of each relation is held out: training never sees its wording. Written for this project.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Relation:
    """One kind of fact. `key` and `value` name the makers of phrases in :mod:`engine.demo.train.facts`."""

    key: str
    value: str
    sentences: tuple[str, ...]
    questions: tuple[str, ...]


RELATIONS: tuple[Relation, ...] = (
    Relation("role_of_place", "person",
             ("The {key} of {other} is {value}.", "{value} is the {key} of {other}.", "In {other}, the {key} is {value}.",
              "The {key} in {other} is called {value}.", "Since last year the {key} of {other} has been {value}."),
             ("Who is the {key} of {other}?", "Who is the {key} in {other}?", "What is the name of the {key} of {other}?",
              "What is the {key} of {other} called?", "Tell me who the {key} of {other} is.", "Name the {key} of {other}.")),
    Relation("role", "person",
             ("The {key} is {value}.", "Our {key} is {value}.", "{value} works here as {key}.", "The {key} is called {value}.",
              "The {key} on duty is {value}.", "The post of {key} is held by {value}."),
             ("Who is the {key}?", "What is the name of the {key}?", "What is the {key} called?", "Tell me who the {key} is.",
              "Who works as {key}?", "Name the {key}.")),
    Relation("thing", "code",
             ("The code of the {key} is {value}.", "The {key} code is {value}.", "The code for the {key} is {value}.",
              "Use the code {value} for the {key}.", "The {key} opens with the code {value}.",
              "The access code of the {key} is {value}."),
             ("What is the code of the {key}?", "What is the code for the {key}?", "What is the {key} code?",
              "Which code opens the {key}?", "What is the access code of the {key}?", "Give me the code for the {key}.")),
    Relation("thing", "number",
             ("The {key} number is {value}.", "The number of the {key} is {value}.", "The serial number of the {key} is {value}.",
              "The {key} carries the number {value}."),
             ("What is the number of the {key}?", "What is the {key} number?", "Which number does the {key} carry?",
              "What is the serial number of the {key}?", "Tell me the number of the {key}.")),
    Relation("thing", "price",
             ("The {key} costs {value}.", "The {key} fee is {value}.", "The fee for the {key} is {value}.",
              "The price of the {key} is {value}.", "A {key} costs {value}.", "You pay {value} for the {key}."),
             ("How much is the {key}?", "What does the {key} cost?", "How much does the {key} cost?",
              "What is the price of the {key}?",
              "What is the fee for the {key}?", "How much is the {key} fee?", "How much do I pay for the {key}?")),
    Relation("thing", "time",
             ("The {key} opens at {value}.", "The {key} leaves at {value}.", "The {key} closes at {value}.",
              "The {key} starts at {value}.", "The {key} is open until {value}.", "The {key} departs at {value}."),
             ("When does the {key} open?", "When does the {key} leave?", "When does the {key} close?", "When does the {key} start?",
              "Until when is the {key} open?", "At what time does the {key} depart?")),
    Relation("thing_to_place", "time",
             ("The {key} to {other} leaves at {value}.", "The {key} from {other} arrives at {value}.",
              "The first {key} to {other} leaves at {value}.", "The {key} to {other} departs at {value}."),
             ("When does the {key} to {other} leave?", "When does the {key} from {other} arrive?",
              "When does the first {key} to {other} leave?", "At what time does the {key} to {other} depart?")),
    Relation("thing", "spot",
             ("The {key} is at {value}.", "The {key} is in {value}.", "You find the {key} at {value}.",
              "The {key} is kept in {value}.",
              "The {key} lies at {value}.", "The {key} stands next to {value}."),
             ("Where is the {key}?", "Where do I find the {key}?", "Where is the {key} kept?", "Where does the {key} lie?",
              "At which place is the {key}?")),
    Relation("thing", "count",
             ("The {key} has {value}.", "There are {value} at the {key}.", "The {key} holds {value}.", "The {key} offers {value}."),
             ("What does the {key} have?", "What does the {key} hold?", "How many {unit} does the {key} have?",
              "How many {unit} are at the {key}?", "How many {unit} does the {key} hold?")),
    Relation("thing", "measure",
             ("The {key} is {value} long.", "The {key} is {value} deep.", "The {key} is {value} wide.", "The {key} weighs {value}.",
              "The {key} takes {value}."),
             ("How long is the {key}?", "How deep is the {key}?", "How wide is the {key}?", "How much does the {key} weigh?",
              "How long does the {key} take?")),
    Relation("thing", "date",
             ("The {key} opens on {value}.", "The {key} was built on {value}.", "The {key} is checked on {value}.",
              "The next {key} inspection is on {value}."),
             ("When does the {key} open?", "When was the {key} built?", "When is the {key} checked?",
              "On which day is the next {key} inspection?")),
    Relation("thing", "person",
             ("The {key} belongs to {value}.", "The owner of the {key} is {value}.", "The {key} is run by {value}.",
              "{value} owns the {key}.", "Ask {value} about the {key}.", "The key of the {key} is with {value}."),
             ("Who owns the {key}?", "Who is the owner of the {key}?", "Who runs the {key}?", "To whom does the {key} belong?",
              "Who has the key of the {key}?", "Whose is the {key}?")),
    Relation("thing", "word",
             ("The {key} is called {value}.", "The name of the {key} is {value}.", "The password of the {key} is {value}.",
              "The {key} is made of {value}.", "The colour of the {key} is {value}.", "The {key} is {value}."),
             ("What is the {key} called?", "What is the name of the {key}?", "What is the password of the {key}?",
              "What is the {key} made of?", "What is the colour of the {key}?", "Which colour is the {key}?")),
    Relation("heading", "any",
             ("{key}: {value}", "{key} - {value}", "{key} = {value}", "{key} is {value}."),
             ("What is the {key}?", "{key}?", "Which {key} is given?", "What is {key}?", "Tell me the {key}.")),
)  # fmt: skip
