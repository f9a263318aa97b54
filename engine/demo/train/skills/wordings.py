"""How the skills ask: for every kind of question the wordings of training, and those that only evaluation uses.

Data only, written for this project. Slots are filled by the skills; answers stand in the skills themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

BEFORE = ("Please: ", "Question: ", "Look: ", "Now: ", "Quick question: ", "And: ", "So, ", "OK. ", "Next. ", "Please help. ")
"""What may stand before a question without changing it."""


@dataclass(frozen=True, slots=True)
class Wording:
    """Ways to ask one thing."""

    known: tuple[str, ...]
    unseen: tuple[str, ...]

    def ask(self, random: Random, paraphrase: bool, **slots: object) -> str:
        """One way, with its slots filled; in training now and then after a word that does not matter."""
        if paraphrase:
            return random.choice(self.unseen).format(**slots)
        before = random.choice(BEFORE) if random.random() < 0.2 else ""
        return before + random.choice(self.known).format(**slots)


WHAT_AT = Wording(
    ("What is at row {row}, column {column}?", "What is in row {row}, column {column}?", "Row {row}, column {column}: what is it?",
     "Which shape is at row {row}, column {column}?", "Tell me what is at row {row}, column {column}.",
     "Look at row {row}, column {column}. What is there?",
     "Say what is at row {row}, column {column}.", "Name what is in row {row}, column {column}.",
     "What do we have at row {row}, column {column}?", "What is drawn at row {row}, column {column}?",
     "Give me row {row}, column {column}.", "In row {row}, column {column}, what can I see?",
     "What is found at row {row}, column {column} of the image?",
     "Describe what is in the picture at row {row}, column {column}."),
    ("What do you see at row {row}, column {column}?", "Describe row {row}, column {column}.",
     "What can be found in row {row}, column {column} of the picture?"),
)  # fmt: skip
WHERE = Wording(
    ("Where is the {shape}?", "Where is the {shape} in the image?", "At which row and column is the {shape}?",
     "Find the {shape}.", "In which place is the {shape}?", "Tell me where the {shape} is.",
     "Where can I see the {shape}?", "Where is the {shape} drawn?", "Say in which row and column the {shape} is.",
     "Give me the row and the column of the {shape}.", "Name the place of the {shape}.", "Where in the picture is the {shape}?",
     "Do you see the {shape}? Where?"),
    ("Where do you see the {shape}?", "Give the place of the {shape}.", "Say where the {shape} can be found."),
)  # fmt: skip
COLOUR = Wording(
    ("What colour is the {shape}?", "Which colour is the {shape}?", "What is the colour of the {shape}?",
     "The {shape}: which colour is it?", "Tell me the colour of the {shape}.",
     "In which colour is the {shape}?", "Say which colour the {shape} is.", "Give me the colour of the {shape}.",
     "What colour do you see on the {shape}?", "What colour does the {shape} have?",
     "Which colour has the {shape} in the picture?", "Name the {shape} by its colour."),
    ("Which colour does the {shape} have?", "Name the colour of the {shape}.", "In what colour is the {shape} drawn?"),
)  # fmt: skip
SHAPE = Wording(
    ("Which shape is {colour}?", "What is {colour}?", "Which shape is the {colour} one?", "What shape is the {colour} thing?",
     "Tell me which shape is {colour}.",
     "Say which shape is {colour}.", "Name the {colour} shape.", "Give me the shape that is {colour}.",
     "What do you see in {colour}?", "Which shape is drawn in {colour}?", "Which {colour} shape is in the picture?",
     "Describe the {colour} one."),
    ("Which shape do you see in {colour}?", "Name the shape that is {colour}."),
)  # fmt: skip
COUNT = Wording(
    ("How many {shapes} are there?", "How many {shapes} are in the image?", "How many {shapes} does the image show?",
     "Count the {shapes}.", "What is the number of {shapes}?",
     "Say how many {shapes} there are.", "How many {shapes} do we have?", "How many {shapes} can I see in the picture?",
     "Give me a count of the {shapes}.", "How many {shapes} are drawn?", "What number of {shapes} do you find?",
     "Do you see {shapes}? How many?"),
    ("How many {shapes} do you see?", "How many {shapes} can be found in the picture?", "Give the number of {shapes}."),
)  # fmt: skip
SHOWN = Wording(
    ("What number is shown?", "Which number is in the image?", "What is the number in the image?", "Read the number.",
     "Which digits are shown?", "Tell me the number in the image.",
     "Which number can you read?", "What number do you see in the image?", "Say the number.",
     "Give me the number in the picture.", "Read the digits of the image.", "What digits are in the picture?",
     "Which number is written here?"),
    ("Which number do you see?", "What number can be read in the picture?", "Give the digits of the picture."),
)  # fmt: skip
TALLEST = Wording(
    ("Which bar is tallest?", "Which bar is the tallest?", "What is the tallest bar?", "Which is the tallest bar in the chart?",
     "Tell me which bar is tallest.",
     "Say which bar is tallest.", "Give me the tallest bar.", "Which one is the tallest bar?",
     "Which bar do you see as tallest?", "Of all bars, which is tallest?", "Name the bar that is tallest.",
     "In the picture, which bar is tallest?"),
    ("Which of the bars is tallest?", "Name the tallest bar.", "Which bar in the picture is the tallest one?"),
)  # fmt: skip
SHORTEST = Wording(
    ("Which bar is shortest?", "Which bar is the shortest?", "What is the shortest bar?", "Which is the shortest bar in the chart?",
     "Tell me which bar is shortest.",
     "Say which bar is shortest.", "Give me the shortest bar.", "Which one is the shortest bar?",
     "Which bar do you see as shortest?", "Of all bars, which is shortest?", "Name the bar that is shortest.",
     "In the picture, which bar is shortest?"),
    ("Which of the bars is shortest?", "Name the shortest bar.", "Which bar in the picture is the shortest one?"),
)  # fmt: skip
BARS = Wording(
    ("How many bars are there?", "How many bars does the chart show?", "Count the bars.", "What is the number of bars?",
     "Say how many bars there are.", "How many bars are in the picture?", "How many bars can I see?",
     "Give me the count of the bars.", "How many bars are drawn?", "Do you see bars? How many?"),
    ("How many bars do you see?", "Give the number of bars."),
)  # fmt: skip
DIALLED = Wording(
    ("Which code is dialled in the call?", "Which keys are dialled?", "Which digits are dialled?", "What number is dialled?",
     "Which keys are pressed?", "Tell me the code that is dialled.", "Which code is dialled?",
     "Say which keys are dialled.", "Give me the keys that are dialled.", "What keys can you hear?",
     "Which digits do you hear in the call?", "What is dialled in the recording?", "What code is pressed on the keys?",
     "Name the keys that are pressed."),
    ("Which keys do you hear?", "What is being dialled in the recording?", "Give the keys of the call."),
)  # fmt: skip
TONES = Wording(
    ("How many tones are there?", "How many tones do you count?", "Count the tones.", "What is the number of tones?",
     "How many tones are in the recording?",
     "Say how many tones there are.", "Give me the count of the tones.", "How many tones can I hear?",
     "How many tones does the recording have?", "What number of tones do you hear?", "How many are the tones?"),
    ("How many tones do you hear?", "Give the number of tones."),
)  # fmt: skip
HIGHEST = Wording(
    ("Which tone is highest?", "Which tone is the highest?", "What is the highest tone?", "Tell me which tone is highest.",
     "Say which tone is highest.", "Give me the highest tone.", "Which one is the highest tone?",
     "Which tone do you hear as highest?", "Of all tones, which is highest?", "Name the tone that is highest."),
    ("Which of the tones is highest?", "Name the highest tone."),
)  # fmt: skip
LOWEST = Wording(
    ("Which tone is lowest?", "Which tone is the lowest?", "What is the lowest tone?", "Tell me which tone is lowest.",
     "Say which tone is lowest.", "Give me the lowest tone.", "Which one is the lowest tone?",
     "Which tone do you hear as lowest?", "Of all tones, which is lowest?", "Name the tone that is lowest."),
    ("Which of the tones is lowest?", "Name the lowest tone."),
)  # fmt: skip
SPOKEN = Wording(
    ("Which digits are spoken?", "What number is spoken?", "Which number is spoken in the recording?", "What is said?",
     "Which code is spoken in the call?", "Tell me the digits that are spoken.",
     "Say which digits are spoken.", "Give me the number that is spoken.", "What digits do you hear?",
     "Which number do you hear in the recording?", "What number does the voice say?", "What is being said in the call?",
     "Which digits does someone say?"),
    ("Which digits do you hear someone say?", "What number is being said in the recording?", "Give the spoken digits."),
)  # fmt: skip
SAME = Wording(
    ("Is the number spoken the number shown?", "Is the spoken number the one in the image?", "Do the two numbers agree?",
     "Is it the same number?", "Is the number in the image the one that is spoken?",
     "Does the image show what is spoken?", "Say if the two numbers are the same.", "Is the number I hear the one I see?",
     "Are the two numbers the same?", "Do you see the number that you hear?", "Does the spoken number agree with the picture?"),
    ("Does the image show the number that is spoken?", "Are the spoken and the shown number the same?"),
)  # fmt: skip
NAMES_COLOUR = Wording(
    ("Which document names the colour in the image?", "Which document names the colour of the shape?",
     "In which document is the colour of the image?", "Which document is about the colour in the image?",
     "Name the document about the colour of the shape.", "Which of the documents names the colour I see?",
     "Say which document has the colour in the image.", "Which document has the colour of the picture?",
     "Give me the document that names the colour in the image.", "Where is the colour of the image named?"),
    ("Name the document with the colour of the image.", "Which of the documents has the colour you see in the image?"),
)  # fmt: skip
WHICH_IMAGE = Wording(
    ("What is in my {which} image?", "What is in the {which} image?", "What does my {which} image show?",
     "Tell me what is in the {which} image.", "Which shape is in my {which} image?",
     "Say what is in my {which} image.", "Name the shape in the {which} image.", "What do we see in the {which} image?",
     "What is drawn in my {which} image?", "Give me what the {which} image shows.", "What can you see in my {which} picture?",
     "Describe what is in the {which} picture."),
    ("What do you see in my {which} image?", "Describe the {which} image."),
)  # fmt: skip
WHICH_CALL = Wording(
    ("Which keys are dialled in my {which} recording?", "Which code is dialled in the {which} recording?",
     "Which digits are dialled in my {which} recording?",
     "Say which keys are dialled in my {which} recording.", "What keys can you hear in the {which} recording?",
     "What is dialled in my {which} recording?", "Give me the keys of the {which} recording.",
     "Which digits do you hear in my {which} recording?"),
    ("Which keys do you hear in the {which} recording?",),
)  # fmt: skip

HELLO = Wording(("Hello!", "Hello.", "Hi.", "Good morning.", "Hello there."), ("Good evening!", "Hi there!"))
THANKS = Wording(("Thanks.", "Thank you.", "Thanks a lot.", "Thank you very much."), ("Many thanks!", "Thank you, that is all."))
BYE = Wording(("Goodbye.", "Bye.", "See you."), ("Good night.", "Bye for now!"))
TOLD = Wording(("{fact}", "{fact}", "Remember this: {fact}", "Please note: {fact}"), ("Keep in mind: {fact}",))
PROPERTY = (
    "What is the {noun} of {of}?", "Find the {noun} of {of}.", "Which {noun} has {of}?", "Tell me the {noun} of {of}.",
    "What {noun} does {of} have?", "Say the {noun} of {of}.", "I need the {noun} of {of}.", "Look up the {noun} of {of}.",
)  # fmt: skip
COLOUR_SENTENCES = (
    "The {thing} is {colour}.", "The {thing} was painted {colour}.", "The colour of the {thing} is {colour}.",
    "We have a {colour} {thing}.", "There is a {colour} {thing} here.",
)  # fmt: skip

ALL = tuple(value for value in list(globals().values()) if isinstance(value, Wording))
"""Every kind of question."""

TEXTS = (
    *(text for wording in ALL for text in wording.known),
    *PROPERTY,
    *COLOUR_SENTENCES,
    "Spoken: 1. Shown: 2. The colour is red. It is x.txt.",
)
"""What training asks, slots and all: these words have trained rows."""
