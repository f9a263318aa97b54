"""Real prose and code that every installation has: package descriptions and Python's own library.

Nothing is repeated and nothing is made up, so a tokenizer meets words as it would in use. Which files there are depends on the
installation; a bench's record says how many characters it took.
"""

from __future__ import annotations

import random
import sysconfig
from importlib.metadata import Distribution, distributions
from pathlib import Path


def prose() -> list[str]:
    """Descriptions of the installed packages (READMEs, mostly Markdown), longest first, no two alike."""
    found = {text for dist in distributions() if (text := _description(dist))}
    return sorted((text for text in found if len(text) > 500), key=lambda text: (-len(text), text))


def _description(dist: Distribution) -> str:
    # Header lines, an empty line, then the description: the core metadata format.
    return (dist.read_text("METADATA") or "").partition("\n\n")[2]


def code() -> list[str]:
    """Modules of Python's library, without its tests."""
    root = Path(sysconfig.get_paths()["stdlib"])
    found: list[str] = []
    for path in sorted(root.glob("*.py")) + sorted(root.glob("*/*.py")):
        if not {"test", "tests", "site-packages"} & set(path.parts):
            text = path.read_text("utf-8", errors="replace")
            if len(text) > 500:
                found.append(text)
    return found


def texts(characters: int, *, seed: int = 0) -> list[str]:
    """Prose and code in turns, together `characters` long (or all there is), in an order that `seed` decides."""
    draw = random.Random(seed)
    piles = [prose(), code()]
    for pile in piles:
        draw.shuffle(pile)
    taken: list[str] = []
    left, turn = characters, 0
    while left > 0 and any(piles):
        pile = piles[turn % 2] or piles[(turn + 1) % 2]
        text = pile.pop()[:left]
        taken.append(text)
        left -= len(text)
        turn += 1
    return taken
