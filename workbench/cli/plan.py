"""``inkling plan``: whether a recipe fits its hardware, how long a context, how fast at most. Nothing is loaded."""

from __future__ import annotations

import argparse
import re

from engine.errors import BadRequest

from .output import Console

SUMMARY = "does a recipe fit its GPUs, with how long a context, and how fast at most"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("--recipe", default="demo", help="name of a recipe, or a .toml file (default: demo)")
    parser.add_argument("--context", help="tokens of prompt and answer, as 131072, 128K or 1M (default: the recipe's limit)")
    parser.add_argument("--requests", type=int, default=1, help="so many such contexts at once (default: 1)")
    parser.add_argument("--gpu", help="another accelerator than the recipe's, for instance H200")
    parser.add_argument("--gpus", type=int, help="another number of them; the tensor-parallel size follows")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="change one of the recipe's vLLM options")


def run(args: argparse.Namespace, console: Console) -> int:
    """Show the plan: 0 when it fits, 1 when it does not."""
    from engine import recipes
    from engine.planner import plan

    from .engine import option

    recipe = recipes.load(args.recipe).with_args(dict(option(text) for text in args.set))
    found = plan(
        recipe,
        context_tokens=tokens(args.context) if args.context else None,
        requests=args.requests,
        gpu_name=args.gpu,
        gpu_count=args.gpus,
    )
    console.show(str(found))
    console.result(found.to_json())
    return 0 if found.fits else 1


def tokens(text: str) -> int:
    """A number of tokens; K and M are 1024 and 1024².

    Examples
    --------
    >>> tokens("1M"), tokens("128k"), tokens("131,072")
    (1048576, 131072, 131072)
    """
    found = re.fullmatch(r"(\d[\d,_]*)\s*([kKmM]?)", text.strip())
    if not found:
        raise BadRequest(f"--context {text!r}: wanted a number of tokens, as 131072, 128K or 1M", context=text)
    return int(found[1].replace(",", "").replace("_", "")) * {"": 1, "k": 1024, "m": 1024**2}[found[2].lower()]
