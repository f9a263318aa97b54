"""Several things at once: numbers that are spoken and shown, documents and images, first and second, and a whole desk of them."""

from __future__ import annotations

from random import Random

from engine.demo.train.facts import Phrases
from engine.demo.train.skills import digits, grids, reading, sounds, spoken
from engine.demo.train.skills.items import Answer, Picture, Scene, Step, Text, counted_as, drawn_for, it_is
from engine.demo.train.skills.speech import held_out_speakers, training_speakers
from engine.demo.train.skills.wordings import COLOUR, COLOUR_SENTENCES, NAMES_COLOUR, SAME, SHOWN, SPOKEN, WHICH_CALL, WHICH_IMAGE

ORDINALS = ("first", "second", "third")
SYSTEM = "Answer briefly."
TOLD_NUMBERS = (
    "The number spoken is {said}. The number shown is {seen}.", "Spoken: {said}. Shown: {seen}.",
    "In the image there is {seen}. The voice says {said}.",
)  # fmt: skip


def scene(random: Random, *, held_out: bool, level: float, room: int) -> Scene:
    """One of the four, by chance."""
    # Training has more of what takes two steps.
    same, which, one = (0.25, 0.5, 0.7) if held_out else (0.35, 0.65, 0.75)
    kind = random.random()
    if kind < same:
        return same_number(random, held_out=held_out, level=level, room=room)
    if kind < which:
        return which_document(random, held_out=held_out, level=level, room=room)
    if kind < one:
        return which_one(random, held_out=held_out, level=level, room=room)
    return desk(random, held_out=held_out, level=level, room=room)


def same_number(random: Random, *, held_out: bool, level: float, room: int) -> Scene:
    """A number said and a number shown: are they the same?"""
    most = max(2, min(round(2 + 3 * level), (room - 20) // 20))
    said = sounds.code(random, held_out, (2, most))
    seen = said if random.random() < 0.5 else _other(random, said, held_out)
    speaker = random.choice(held_out_speakers() if held_out else training_speakers())
    sound: Step = spoken.say(said, speaker, random, varied=not held_out, room_s=room / 40)
    picture: Step = _number(random, seen)
    steps = [sound, picture]
    random.shuffle(steps)

    def ask(random: Random, paraphrase: bool) -> tuple[Step, ...]:
        same = "Yes" if said == seen else "No"
        # Both numbers first: what is compared is then text, one digit beside the other.
        answer = Answer("together", f"Spoken: {said}. Shown: {seen}. {same}.", spelled=True, value=same)
        return Text(SAME.ask(random, paraphrase)), answer

    def read(random: Random, paraphrase: bool) -> tuple[Step, ...]:
        return Text(SHOWN.ask(random, paraphrase)), it_is(seen, "digits shown", spelled=True)

    def heard(random: Random, paraphrase: bool) -> tuple[Step, ...]:
        return Text(SPOKEN.ask(random, paraphrase)), it_is(said, "spoken", spelled=True)

    kinds = ((0.5, "together", ask), (0.25, "digits shown", read), (0.25, "spoken", heard))
    return Scene(tuple(steps), kinds, questions=3, alone=True)


def told_numbers(random: Random, *, held_out: bool, level: float, room: int) -> Scene:
    """The same question about two numbers in a sentence: many more of it fit into a sequence than with sound and image."""
    most = max(2, min(round(2 + 3 * level), (room - 50) // 6))
    said = sounds.code(random, held_out, (2, most))
    seen = said if random.random() < 0.5 else _other(random, said, held_out)
    text = random.choice(TOLD_NUMBERS).format(said=" ".join(said), seen=" ".join(seen))

    def ask(random: Random, paraphrase: bool) -> tuple[Step, ...]:
        same = "Yes" if said == seen else "No"
        answer = Answer("numbers told", f"Spoken: {said}. Shown: {seen}. {same}.", spelled=True, value=same)
        return Text(SAME.ask(random, paraphrase)), answer

    return Scene((Text(text),), ((1.0, "numbers told", ask),))


def _number(random: Random, seen: str) -> Picture:
    size = random.randint(12, 20)
    name = random.choice(digits.FACES)
    canvas, origin = digits.place(random, seen, name, size, slotted=True)
    return digits.draw(seen, name, size, slotted=True, origin=origin, canvas=canvas)


def _other(random: Random, said: str, held_out: bool) -> str:
    """Another number of the same length: by one digit, or by all."""
    while True:
        at = random.randrange(len(said))
        near = said[:at] + random.choice("0123456789") + said[at + 1 :]
        found = near if random.random() < 0.5 else sounds.code(random, held_out, (len(said), len(said)))
        if found != said and drawn_for(f"digits {found}", held_out):
            return found


def which_document(random: Random, *, held_out: bool, level: float, room: int) -> Scene:
    """Two or three short documents that name a colour each, and an image of one of the colours."""
    count = 2 if room < 250 or random.random() < 1 - level / 2 else 3
    phrases = Phrases(random, held_out=held_out)
    colours = random.sample(list(grids.COLOURS), count)
    names: list[str] = []
    while len(names) < count:
        if (name := phrases.noun()) not in names:
            names.append(name)
    wanted = random.randrange(count)
    documents: list[Step] = []
    for name, colour in zip(names, colours, strict=True):
        sentence = random.choice(COLOUR_SENTENCES).format(thing=phrases.thing(), colour=colour)
        documents.append(Text(f"Document: {name}.txt\n\n{sentence}"))
    shape = random.choice(grids.SHAPES)
    grid = ((f"{colours[wanted]} {shape}",),)
    picture: Step = grids.picture(grid, random)
    steps = [picture, *documents] if random.random() < 0.3 else [*documents, picture]

    def ask(random: Random, paraphrase: bool) -> tuple[Step, ...]:
        name, colour = f"{names[wanted]}.txt", colours[wanted]
        # The colour first: what is looked up is then text, and not a patch.
        return Text(NAMES_COLOUR.ask(random, paraphrase)), Answer("together", f"It is {colour}: {name}.", value=name)

    def which(random: Random, paraphrase: bool) -> tuple[Step, ...]:
        return Text(COLOUR.ask(random, paraphrase, shape=shape)), it_is(colours[wanted], "colour")

    return Scene(tuple(steps), ((0.8, "together", ask), (0.2, "colour", which)), questions=3, alone=True)


def which_one(random: Random, *, held_out: bool, level: float, room: int) -> Scene:
    """Two or three images of one shape each, or two dialled calls: what is in the first?"""
    if random.random() < 0.7:
        count = 2 if random.random() < 1 - level / 2 else 3
        while True:
            cells = [f"{random.choice(list(grids.COLOURS))} {random.choice(grids.SHAPES)}" for _ in range(count)]
            if drawn_for(f"images {cells}", held_out):
                break
        steps: tuple[Step, ...] = tuple(grids.picture(((cell,),), random) for cell in cells)
        values, wording, spelled = [f"a {cell}" for cell in cells], WHICH_IMAGE, False
    else:
        values = [sounds.code(random, held_out, (2, max(2, min(4, (room - 20) // 14)))) for _ in range(2)]
        steps = tuple(sounds.dial(code, random if random.random() < 0.5 else None) for code in values)
        wording, spelled = WHICH_CALL, True

    def ask(random: Random, paraphrase: bool) -> tuple[Step, ...]:
        at = random.randrange(len(values))
        return Text(wording.ask(random, paraphrase, which=ORDINALS[at])), it_is(values[at], "together", spelled=spelled)

    return Scene(steps, ((1.0, "together", ask),), questions=2 * len(values), alone=True)


def desk(random: Random, *, held_out: bool, level: float, room: int) -> Scene:
    """A document, an image and a recording in any order, and questions about any of them; as in the bundled demonstration."""
    document = reading.scene(
        random, held_out=held_out, level=level, room=max(60, min(room - 110, 90 + round(200 * level * random.random())))
    )
    rows, columns = random.choice(((2, 2), (3, 3), (3, 3), (2, 3)))
    grid = grids.layout(random, held_out, rows, columns)
    code = sounds.code(random, held_out, (3, 5))
    call = sounds.dialled_scene(code, random)
    picture: Step = grids.picture(grid, random)
    steps: list[Step] = [*document.steps, picture, *call.steps]
    if random.random() < 0.4:
        random.shuffle(steps)
    found = [*((w, kind, ask) for w, kind, ask in document.kinds if kind == "lookup"), *grids.kinds(grid)[:1], *call.kinds]
    return Scene(
        tuple(steps), tuple((1.0, "together", counted_as(ask, "together")) for _, _, ask in found), questions=6,
        system=SYSTEM if random.random() < 0.5 else "", alone=True,
    )  # fmt: skip
