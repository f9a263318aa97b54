"""Kinds of facts: how a document may state one and how one may ask for it.

A relation has sentences and questions over the slots ``{key}`` (what it is about), ``{other}`` (a second phrase, for some),
``{value}`` and ``{unit}``. Every question of a relation is answered by every sentence of it. Sentences name what they are about
before the value, as prose mostly does: a causal model reads the value knowing whose it is. The last question of each relation is
held out: training never sees its wording. Written for this project.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Relation:
    """One kind of fact: `key` and `value` name makers of phrases in :mod:`.facts`, `topic` is what is asked for."""

    key: str
    value: str
    topic: str
    sentences: tuple[str, ...]
    questions: tuple[str, ...]


FRAMES = (
    "What is {topic}?", "Tell me {topic}.", "Give me {topic}.", "Find {topic}.", "Look up {topic}.", "I need {topic}.", "{topic}?",
    "State {topic}.", "Can you find {topic}?", "Which is {topic}?", "Do you know {topic}?", "Name {topic}.", "Read me {topic}.",
    "Could you tell me {topic}?", "I want to know {topic}.", "Show me {topic}.", "Say {topic}.", "What about {topic}?",
    "Let me have {topic}.", "I am looking for {topic}.", "What does it say about {topic}?", "Is {topic} given? Which is it?",
)  # fmt: skip
"""Ways to ask for any topic; of a relation, all but the one it holds out."""

OPENINGS = ("", "", "", "Please: ", "According to the document: ", "In the document: ", "Question: ", "One more: ")


def _relation(key: str, value: str, topic: str, sentences: str, questions: str) -> Relation:
    return Relation(key, value, topic, tuple(sentences.split("|")), tuple(questions.split("|")))


RELATIONS: tuple[Relation, ...] = (
    # The three plainest first: training begins with the first relations and the first wordings of each.
    _relation("role_of_place", "person", "the {key} of {other}",
              "The {key} of {other} is {value}.|The {key} in {other} is {value}.|The {key} of {other} is called {value}."
              "|In {other}, the {key} is {value}.|Since last year the {key} of {other} has been {value}.",
              "Who is the {key} of {other}?|Who is the {key} in {other}?|What is the name of the {key} of {other}?"
              "|Tell me who the {key} of {other} is.|Which person is the {key} of {other}?"
              "|I am looking for the {key} of {other}. Who is it?|Who works as {key} of {other}?"
              "|Name the person who is {key} in {other}.|Name the {key} of {other}."),
    _relation("thing", "code", "the code of the {key}",
              "The code of the {key} is {value}.|The code for the {key} is {value}.|The {key} code is {value}."
              "|The {key} opens with the code {value}.|The access code of the {key} is {value}.",
              "What is the code of the {key}?|What is the code for the {key}?|What is the {key} code?"
              "|Which code opens the {key}?|Which code does the {key} take?|Give me the {key} code."
              "|With which code do I open the {key}?|What code is for the {key}?|Give me the code for the {key}."),
    _relation("thing", "spot", "the place of the {key}",
              "The {key} is at {value}.|The {key} is in {value}.|The {key} is kept in {value}.|You find the {key} at {value}."
              "|The {key} lies at {value}.",
              "Where is the {key}?|Where do I find the {key}?|Where can the {key} be found?|In what place is the {key}?"
              "|Where must I look for the {key}?|Tell me where the {key} is.|At what place do I find the {key}?"
              "|Where does the {key} lie?|Where is the {key} kept?|At which place is the {key}?"),
    _relation("role", "person", "the {key}",
              "The {key} is {value}.|Our {key} is {value}.|The {key} is called {value}.|The {key} on duty is {value}."
              "|The post of {key} is held by {value}.",
              "Who is the {key}?|What is the name of the {key}?|Tell me who the {key} is.|What is the {key} called?"
              "|Which person is the {key}?|Who works as {key}?|Tell me the name of the {key}.|Which name has the {key}?"
              "|Name the person who is {key}.|Name the {key}."),
    _relation("role_of_thing", "person", "the {key} of the {other}",
              "The {key} of the {other} is {value}.|The {key} for the {other} is {value}."
              "|The {key} of the {other} is called {value}.",
              "Who is the {key} of the {other}?|What is the name of the {key} of the {other}?|Who is the {key} for the {other}?"
              "|Tell me who the {key} of the {other} is.|Which person is the {key} of the {other}?"
              "|Name the person who is {key} of the {other}.|What is the {key} of the {other} called?"
              "|Name the {key} of the {other}."),
    _relation("thing", "price", "the price of the {key}",
              "The {key} costs {value}.|The price of the {key} is {value}.|The fee for the {key} is {value}."
              "|The {key} fee is {value}.|A {key} costs {value}.|For the {key} you pay {value}.",
              "How much is the {key}?|How much does the {key} cost?|What is the price of the {key}?"
              "|What is the fee for the {key}?|How much is the {key} fee?|What does the {key} cost?"
              "|How much do I pay for the {key}?|What must be paid for the {key}?|What is paid for the {key}?"
              "|For the {key}, how much must I pay?|Tell me the {key} fee.|What price has the {key}?"
              "|What do I pay for the {key}?"),
    _relation("fee_for", "price", "the {key} fee for {other}",
              "The {key} fee for {other} is {value}.|The {key} charge for {other} is {value}."
              "|The price of {key} for {other} is {value}.",
              "How much is the {key} fee for {other}?|What is the {key} fee for {other}?|What does {key} cost for {other}?"
              "|What do {other} pay for the {key}?|Which fee do {other} pay for {key}?|For {key}, what must {other} pay?"
              "|What is the price of {key} for {other}?|What is the {key} charge for {other}?"
              "|How much do {other} pay for {key}?"),
    _relation("thing_to_place", "time", "the time of the {key} to {other}",
              "The {key} to {other} leaves at {value}.|The first {key} to {other} leaves at {value}."
              "|The {key} to {other} departs at {value}.|For {other} the {key} leaves at {value}.",
              "When does the {key} to {other} leave?|At what time does the {key} to {other} leave?"
              "|When does the first {key} to {other} leave?|What time is the {key} to {other}?"
              "|When does the {key} to {other} depart?|At what time does the {key} depart to {other}?"
              "|At what time is the {key} for {other}?|Tell me when the {key} to {other} leaves."
              "|When is the first {key} for {other}?|When does the {key} depart for {other}?"),
    _relation("thing", "number", "the number of the {key}",
              "The number of the {key} is {value}.|The {key} number is {value}.|The serial number of the {key} is {value}."
              "|The {key} carries the number {value}.",
              "What is the number of the {key}?|What is the {key} number?|Which number does the {key} carry?"
              "|Which number has the {key}?|What is the serial number of the {key}?|Say the number of the {key}."
              "|Which number is on the {key}?|Tell me the {key} number.|Tell me the number of the {key}."),
    _relation("thing", "opens", "the opening time of the {key}",
              "The {key} opens at {value}.|The {key} is open from {value}.|The {key} starts at {value}.",
              "When does the {key} open?|At what time does the {key} open?|When does the {key} start?"
              "|From what time on is the {key} open?|When is the {key} open from?|Tell me when the {key} opens."
              "|When can I go into the {key}?|At what time does the {key} start?|From when is the {key} open?"),
    _relation("thing", "closes", "the closing time of the {key}",
              "The {key} closes at {value}.|The {key} is open until {value}.|The {key} ends at {value}.",
              "When does the {key} close?|At what time does the {key} close?|When does the {key} end?"
              "|Until what time is the {key} open?|When is the {key} open until?|Tell me when the {key} closes."
              "|At what time does the {key} end?|How long is the {key} open today?|Until when is the {key} open?"),
    _relation("thing", "channel", "the channel of the {key}",
              "The {key} answers on {value}.|The {key} listens on {value}.|You reach the {key} on {value}.",
              "On which channel does the {key} answer?|How do I reach the {key}?|Which channel is the {key} on?"
              "|On which channel does the {key} listen?|On what does the {key} listen?|On what channel can I reach the {key}?"
              "|Where do I reach the {key}?|Where does the {key} answer?|Tell me the channel of the {key}."
              "|Where does the {key} listen?"),
    _relation("thing", "count", "the number of {unit} of the {key}",
              "The {key} has {value}.|The {key} holds {value}.|The {key} offers {value}.|At the {key} there are {value}.",
              "How many {unit} does the {key} have?|How many {unit} are at the {key}?|What does the {key} have?"
              "|How many {unit} are held by the {key}?|How many {unit} does the {key} offer?"
              "|What number of {unit} does the {key} hold?|How many {unit} do you find at the {key}?|What does the {key} hold?"
              "|How many {unit} does the {key} hold?"),
    _relation("thing", "length", "the length of the {key}",
              "The {key} is {value} long.|The length of the {key} is {value}.|The {key} measures {value}.",
              "How long is the {key}?|What is the length of the {key}?|How much does the {key} measure?"
              "|How long does the {key} measure?|What length does the {key} have?|Tell me how long the {key} is."
              "|Which length does the {key} measure?|What does the {key} measure?"),
    _relation("thing", "weight", "the weight of the {key}",
              "The {key} weighs {value}.|The weight of the {key} is {value}.|The {key} has a weight of {value}.",
              "How much does the {key} weigh?|What is the weight of the {key}?|What does the {key} weigh?"
              "|How much weight has the {key}?|What weight does the {key} have?|Is the {key} heavy? What is its weight?"
              "|Tell me how heavy the {key} is.|Say how much the {key} weighs.|How heavy is the {key}?"),
    _relation("thing", "date", "the date of the {key}",
              "The {key} opens on {value}.|The next {key} inspection is on {value}.|The {key} is checked on {value}."
              "|The date of the {key} is {value}.",
              "On which day is the {key}?|What is the date of the {key}?|On what date is the {key}?|What day is the {key} on?"
              "|Which date has the {key}?|When is the {key}? Give the date.|On which date is the {key}?"
              "|When is the next {key} inspection?|On what day is the {key} checked?|Which day is the {key} on?"),
    _relation("thing", "year", "the year of the {key}",
              "The {key} was built in {value}.|The {key} dates from {value}.|The {key} was founded in {value}.",
              "When was the {key} built?|In which year was the {key} built?|When was the {key} founded?"
              "|From what year does the {key} date?|Which year is the {key} from?|What year was the {key} built in?"
              "|In what year was the {key} founded?|How old is the {key}? Give the year.|From which year is the {key}?"),
    _relation("thing", "owner", "the owner of the {key}",
              "The {key} belongs to {value}.|The owner of the {key} is {value}.|The {key} is owned by {value}.",
              "Who owns the {key}?|Who is the owner of the {key}?|To whom does the {key} belong?|Who has the {key}?"
              "|Whose property is the {key}?|By whom is the {key} owned?|Tell me who owns the {key}."
              "|Who does the {key} belong to?|Whose is the {key}?"),
    _relation("thing", "runner", "the person in charge of the {key}",
              "The {key} is run by {value}.|The {key} is looked after by {value}.|The person in charge of the {key} is {value}.",
              "Who runs the {key}?|Who looks after the {key}?|Who is in charge of the {key}?|Who cares for the {key}?"
              "|By whom is the {key} run?|Who takes charge of the {key}?|Tell me who runs the {key}."
              "|Who is the person in charge of the {key}?|Who takes care of the {key}?"),
    _relation("thing", "name", "the name of the {key}",
              "The {key} is called {value}.|The name of the {key} is {value}.|The {key} is named {value}.",
              "What is the {key} called?|What is the name of the {key}?|How is the {key} called?|What name does the {key} have?"
              "|What is the {key} named?|How do they call the {key}?|Tell me what the {key} is called."
              "|Which name has the {key}?|Name the {key}."),
    _relation("thing", "password", "the password of the {key}",
              "The password of the {key} is {value}.|The password for the {key} is {value}.|The {key} password is {value}.",
              "What is the password of the {key}?|What is the {key} password?|Which password does the {key} have?"
              "|What password has the {key}?|Give me the {key} password.|Tell me the password for the {key}."
              "|What is the password for the {key}?|I need the {key} password.|Give me the password of the {key}."),
    _relation("thing", "colour", "the colour of the {key}",
              "The colour of the {key} is {value}.|The {key} is painted {value}.|The {key} is {value}.",
              "What is the colour of the {key}?|Which colour is the {key}?|What colour is the {key}?"
              "|What colour was the {key} painted?|In what colour is the {key}?|Tell me which colour the {key} is."
              "|Which colour does the {key} have?|How is the {key} painted?|In which colour is the {key} painted?"),
    _relation("thing", "material", "the material of the {key}",
              "The {key} is made of {value}.|The {key} is built of {value}.|The {key} consists of {value}.",
              "What is the {key} made of?|What is the {key} built of?|From what is the {key} made?"
              "|Of which material is the {key}?|What does the {key} consist of?|Tell me what the {key} is made of."
              "|Which material is the {key} built of?|Of what is the {key} made?"),
    _relation("person", "spot", "the place of {key}",
              "{key} works at {value}.|{key} can be found at {value}.|The office of {key} is at {value}.",
              "Where does {key} work?|Where is {key}?|Where do I find {key}?|At what place does {key} work?"
              "|Where can {key} be found?|Where is the office of {key}?|Tell me where {key} is.|In which place do I find {key}?"
              "|At which place is {key}?"),
    _relation("person", "number", "the number of {key}",
              "The number of {key} is {value}.|{key} has the number {value}.|You can call {key} on {value}.",
              "What is the number of {key}?|Which number does {key} have?|What number do I call for {key}?"
              "|On which number can I call {key}?|Tell me the number of {key}.|What is the telephone number of {key}?"
              "|Give me a number for {key}.|How do I call {key}?|Give me the number of {key}."),
    _relation("heading", "any", "the {key}",
              "{key}: {value}|{key} - {value}|{key} = {value}|{key} is {value}.",
              "What is the {key}?|Which {key} is given?|What is {key}?|Which is the {key}?|What does it say for {key}?"
              "|Give me the {key}.|What is written for {key}?|State what the {key} is.|Tell me the {key}."),
)  # fmt: skip
