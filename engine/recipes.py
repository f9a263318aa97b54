"""Recipes: how to run which checkpoint on which hardware, as data.

A recipe is a TOML file: a title, a model, where it comes from and what is verified where, the hardware it is for (``[hardware]``),
vLLM's own options (``[args]``, by their command-line names) and environment variables (``[env]``). Ours lie beside this module in
``recipes/``; a path names anyone's own. What every kernel needs is not a recipe's business and is added by the kernel itself. This
module checks form only: the installed vLLM's parser is the judge of the options.
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from .errors import BadRequest

FOLDER = Path(__file__).parent / "recipes"

RESERVED = frozenset({"host", "port", "api-key", "uds", "middleware", "model", "worker-extension-cls", "root-path"})
"""vLLM options that are the kernel's own: it binds, guards and extends."""

LIMITS = ("blob_bytes", "requests", "requests_per_client", "captures", "blobs_bytes", "contexts_bytes", "captures_bytes")
"""What a recipe may say of the kernel's own limits; the others follow from the model and from vLLM."""

DRAFTING = "speculative-config"
"""vLLM's option for drafting."""

Option = str | int | float | bool | dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """The accelerators of a recipe.

    Attributes
    ----------
    gpu : str
        A name the planner knows (``engine/planner/hardware.toml``).
    count : int
        How many of them one engine takes.
    capability : tuple of int
        CUDA compute capabilities, major times ten plus minor, whose kernels are known to run Inkling.
    """

    gpu: str
    count: int
    capability: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How to run a checkpoint.

    Attributes
    ----------
    name : str
        File name without its ending; one kernel per recipe and machine.
    model : str
        A folder, a name that vLLM resolves, or ``demo``.
    args : dict
        vLLM's options by command-line name, without dashes in front. A table becomes JSON, true a bare flag, false ``--no-…``.
    env : dict of str to str
    limits : dict of str to int
        Limits of the kernel's own (:class:`engine.protocol.Limits`) that differ from the usual.
    memory_bytes : int
        Host memory that a start needs free.
    source : str
        Where its settings come from.
    verified : tuple of str
        What has been verified, and where; a recipe for hardware says so when nothing has been verified on it.
    hardware : Hardware or None
        The accelerators it is for; None for the machine's CPU.
    published : dict of str to float
        Figures others have published for it, for the planner to set beside its own.
    """

    name: str
    title: str
    model: str
    source: str = ""
    verified: tuple[str, ...] = ()
    hardware: Hardware | None = None
    published: dict[str, float] = field(default_factory=dict)
    args: dict[str, Option] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    limits: dict[str, int] = field(default_factory=dict)
    memory_bytes: int = 0
    start_timeout_s: float = 600.0

    def argv(self) -> list[str]:
        """The options as vLLM's command line takes them."""
        words: list[str] = []
        for key, value in self.args.items():
            match value:
                case True:
                    words.append(f"--{key}")
                case False:
                    words.append(f"--no-{key}")
                case dict():
                    words += [f"--{key}", json.dumps(value)]
                case _:
                    words += [f"--{key}", str(value)]
        return words

    def with_args(self, changes: dict[str, Option]) -> Recipe:
        """The same recipe with some options changed; underscores in names become dashes."""
        return _checked(replace(self, args=self.args | {key.replace("_", "-"): value for key, value in changes.items()}))

    def with_drafts(self, drafts: int | None) -> Recipe:
        """The same recipe with that many tokens drafted per step by the checkpoint's own blocks; 0 for none, None as it is.

        Raises
        ------
        BadRequest
            A negative number.
        """
        if drafts is None:
            return self
        if drafts < 0:
            raise BadRequest(f"drafts={drafts}: the number of tokens to draft per step, 0 for none", drafts=drafts)
        kept = {name: value for name, value in self.args.items() if name.partition(".")[0] != DRAFTING}
        setting: dict[str, Option] = {DRAFTING: {"method": "mtp", "num_speculative_tokens": drafts}} if drafts else {}
        return replace(self, args=kept | setting)


def names() -> list[str]:
    """The recipes that come along."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def load(name: str | Path) -> Recipe:
    """A recipe by name, or from a file.

    Raises
    ------
    BadRequest
        No such recipe, or the file is not one; the message lists the names there are.

    Examples
    --------
    >>> load("demo").args["block-size"]
    16
    """
    path = Path(name) if str(name).endswith(".toml") else FOLDER / f"{name}.toml"
    if not path.is_file() or (path.parent == FOLDER and path.stem not in names()):
        raise BadRequest(f"no recipe {str(name)!r}: there is {', '.join(names())}, or the path of a .toml file", recipe=str(name))
    try:
        values = tomllib.loads(path.read_text("utf-8"))
        if (hardware := values.pop("hardware", None)) is not None:
            values["hardware"] = Hardware(**hardware | {"capability": tuple(hardware.get("capability", ()))})
        values["verified"] = tuple(values.get("verified", ()))
        recipe = Recipe(name=path.stem, **values)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, TypeError) as problem:
        raise BadRequest(f"{path.name} is not a recipe: {problem}", recipe=str(name)) from problem
    return _checked(recipe)


def _checked(recipe: Recipe) -> Recipe:
    if taken := RESERVED & recipe.args.keys():
        raise BadRequest(
            f"recipe {recipe.name!r} sets {', '.join(sorted(taken))}: that is the kernel's own business", recipe=recipe.name
        )
    if recipe.env.get("VLLM_USE_V2_MODEL_RUNNER", "1") != "1":
        raise BadRequest(
            f"recipe {recipe.name!r} turns the V2 model runner off: drafts, captures and progress need it", recipe=recipe.name
        )
    for name, value in recipe.limits.items():
        if name not in LIMITS or isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise BadRequest(
                f"recipe {recipe.name!r} sets the limit {name} = {value!r}: there are {', '.join(LIMITS)}, each a number from 1",
                recipe=recipe.name,
            )
    if not all(isinstance(value, str) for value in recipe.env.values()):
        raise BadRequest(
            f"recipe {recipe.name!r}: every value under [env] is a string, as the environment holds it", recipe=recipe.name
        )
    return recipe
