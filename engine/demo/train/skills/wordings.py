"""How the skills ask: for every kind of question the wordings of training, and those that only evaluation uses.

Data only, written for this project. Slots are filled by the skills; answers stand in the skills themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True)
class Wording:
    """Ways to ask one thing."""

    known: tuple[str, ...]
    unseen: tuple[str, ...]

    def ask(self, random: Random, paraphrase: bool, **slots: object) -> str:
        """One way, with its slots filled."""
        return random.choice(self.unseen if paraphrase else self.known).format(**slots)


WHAT_AT = Wording(
    ("What is at row {row}, column {column}?", "What is in row {row}, column {column}?", "Row {row}, column {column}: what is it?",
     "Which shape is at row {row}, column {column}?", "Tell me what is at row {row}, column {column}.",
     "Look at row {row}, column {column}. What is there?"),
    ("What do you see at row {row}, column {column}?", "Describe row {row}, column {column}.",
     "What can be found in row {row}, column {column} of the picture?"),
)  # fmt: skip
WHERE = Wording(
    ("Where is the {shape}?", "Where is the {shape} in the image?", "At which row and column is the {shape}?",
     "Find the {shape}.", "In which place is the {shape}?", "Tell me where the {shape} is."),
    ("Where do you see the {shape}?", "Give the place of the {shape}.", "Say where the {shape} can be found."),
)  # fmt: skip
COLOUR = Wording(
    ("What colour is the {shape}?", "Which colour is the {shape}?", "What is the colour of the {shape}?",
     "The {shape}: which colour is it?", "Tell me the colour of the {shape}."),
    ("Which colour does the {shape} have?", "Name the colour of the {shape}.", "In what colour is the {shape} drawn?"),
)  # fmt: skip
SHAPE = Wording(
    ("Which shape is {colour}?", "What is {colour}?", "Which shape is the {colour} one?", "What shape is the {colour} thing?",
     "Tell me which shape is {colour}."),
    ("Which shape do you see in {colour}?", "Name the shape that is {colour}."),
)  # fmt: skip
COUNT = Wording(
    ("How many {shapes} are there?", "How many {shapes} are in the image?", "How many {shapes} does the image show?",
     "Count the {shapes}.", "What is the number of {shapes}?"),
    ("How many {shapes} do you see?", "How many {shapes} can be found in the picture?", "Give the number of {shapes}."),
)  # fmt: skip
SHOWN = Wording(
    ("What number is shown?", "Which number is in the image?", "What is the number in the image?", "Read the number.",
     "Which digits are shown?", "Tell me the number in the image."),
    ("Which number do you see?", "What number can be read in the picture?", "Give the digits of the picture."),
)  # fmt: skip
TALLEST = Wording(
    ("Which bar is tallest?", "Which bar is the tallest?", "What is the tallest bar?", "Which is the tallest bar in the chart?",
     "Tell me which bar is tallest."),
    ("Which of the bars is tallest?", "Name the tallest bar.", "Which bar in the picture is the tallest one?"),
)  # fmt: skip
SHORTEST = Wording(
    ("Which bar is shortest?", "Which bar is the shortest?", "What is the shortest bar?", "Which is the shortest bar in the chart?",
     "Tell me which bar is shortest."),
    ("Which of the bars is shortest?", "Name the shortest bar.", "Which bar in the picture is the shortest one?"),
)  # fmt: skip
BARS = Wording(
    ("How many bars are there?", "How many bars does the chart show?", "Count the bars.", "What is the number of bars?"),
    ("How many bars do you see?", "Give the number of bars."),
)  # fmt: skip
DIALLED = Wording(
    ("Which code is dialled in the call?", "Which keys are dialled?", "Which digits are dialled?", "What number is dialled?",
     "Which keys are pressed?", "Tell me the code that is dialled.", "Which code is dialled?"),
    ("Which keys do you hear?", "What is being dialled in the recording?", "Give the keys of the call."),
)  # fmt: skip
TONES = Wording(
    ("How many tones are there?", "How many tones do you count?", "Count the tones.", "What is the number of tones?",
     "How many tones are in the recording?"),
    ("How many tones do you hear?", "Give the number of tones."),
)  # fmt: skip
HIGHEST = Wording(
    ("Which tone is highest?", "Which tone is the highest?", "What is the highest tone?", "Tell me which tone is highest."),
    ("Which of the tones is highest?", "Name the highest tone."),
)  # fmt: skip
LOWEST = Wording(
    ("Which tone is lowest?", "Which tone is the lowest?", "What is the lowest tone?", "Tell me which tone is lowest."),
    ("Which of the tones is lowest?", "Name the lowest tone."),
)  # fmt: skip
SPOKEN = Wording(
    ("Which digits are spoken?", "What number is spoken?", "Which number is spoken in the recording?", "What is said?",
     "Which code is spoken in the call?", "Tell me the digits that are spoken."),
    ("Which digits do you hear someone say?", "What number is being said in the recording?", "Give the spoken digits."),
)  # fmt: skip
SAME = Wording(
    ("Is the number spoken the number shown?", "Is the spoken number the one in the image?", "Do the two numbers agree?",
     "Is it the same number?", "Is the number in the image the one that is spoken?"),
    ("Does the image show the number that is spoken?", "Are the spoken and the shown number the same?"),
)  # fmt: skip
NAMES_COLOUR = Wording(
    ("Which document names the colour in the image?", "Which document names the colour of the shape?",
     "In which document is the colour of the image?", "Which document is about the colour in the image?"),
    ("Name the document with the colour of the image.", "Which of the documents has the colour you see in the image?"),
)  # fmt: skip
WHICH_IMAGE = Wording(
    ("What is in my {which} image?", "What is in the {which} image?", "What does my {which} image show?",
     "Tell me what is in the {which} image.", "Which shape is in my {which} image?"),
    ("What do you see in my {which} image?", "Describe the {which} image."),
)  # fmt: skip
WHICH_CALL = Wording(
    ("Which keys are dialled in my {which} recording?", "Which code is dialled in the {which} recording?",
     "Which digits are dialled in my {which} recording?"),
    ("Which keys do you hear in the {which} recording?",),
)  # fmt: skip

HELLO = Wording(("Hello!", "Hello.", "Hi.", "Good morning.", "Hello there."), ("Good evening!", "Hi there!"))
THANKS = Wording(("Thanks.", "Thank you.", "Thanks a lot.", "Thank you very much."), ("Many thanks!", "Thank you, that is all."))
BYE = Wording(("Goodbye.", "Bye.", "See you."), ("Good night.", "Bye for now!"))
TOLD = Wording(("{fact}", "{fact}", "Remember this: {fact}", "Please note: {fact}"), ("Keep in mind: {fact}",))
PROPERTY = Wording(
    ("What is the {noun} of {of}?", "Find the {noun} of {of}.", "Which {noun} has {of}?", "Tell me the {noun} of {of}."),
    ("Give me the {noun} of {of}.",),
)  # fmt: skip
COLOUR_SENTENCES = (
    "The {thing} is {colour}.", "The {thing} was painted {colour}.", "The colour of the {thing} is {colour}.",
    "We have a {colour} {thing}.", "There is a {colour} {thing} here.",
)  # fmt: skip

ALL = tuple(value for value in list(globals().values()) if isinstance(value, Wording))
"""Every kind of question."""

REPLIES = (
    "Spoken: 1. Shown: 2. The colour is red. It is x.txt.", "Noted. You are welcome. Hello! What can I do for you? Goodbye!",
    '[{"description":"Gives the weather of a city.","name":"get_weather","parameters":{"properties":{"city":{"type":"string"}},'
    '"required":["city"],"type":"object"},"type":"function"}]', '{"name":"get_weather","args":{"city":"x"}}',
    "Weather Time Price Telephone Owner Number Room Population Opening item name code place number degrees find check read next",
    "stock phone time ferry live people leave high people population telephone owner price weather room",
    '"item" "name" "code" "place" _weather _ferry _price _phone _time _code _stock _room _population look_up_ opening',
)  # fmt: skip
"""Answers and declarations as they come out, for their words."""

TEXTS = (
    *(text for wording in ALL for text in wording.known),
    *COLOUR_SENTENCES,
    "Spoken: 1. Shown: 2. The colour is red. It is x.txt.",
)
"""What training asks, slots and all: these words have trained rows."""
