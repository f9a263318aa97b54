"""Where in vLLM's Inkling something is seen or changed, and how a layer is recognised there.

A wrapped function is called by every layer of the model and of a drafter alike; which one it is follows from the identity of what
it is called on: its module, or its page cache of convolution inputs. Identities hold while the engine runs.

Private names of vLLM 0.32: those of :data:`PLACES`, each looked up before anything is wrapped, and ``InklingConvState``.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

_NVIDIA = "vllm.models.inkling.nvidia"
PLACES = {
    "gate": ("moe", "InklingGate", "select_experts"),
    "choose": ("moe", None, "inkling_gate_select"),
    "scaling": ("attention", "InklingAttention", "forward"),
    "attention": ("attention", "InklingAttention", "_attention"),
    "prep": ("attention", None, "fused_qkvr_prep"),
    "sconv": ("short_conv", "InklingShortConv", "forward"),
    "convolve": ("short_conv", None, "fused_sconv"),
    "residual": ("model", None, "_sconv_add_norm"),
    "lamport": ("model", None, "get_lamport_rs_conv"),
}
"""Module, class (None: a module's global) and name of each place."""


def lookup(place: str) -> tuple[Any, str]:
    """What holds a place, and its name there.

    Raises
    ------
    ImportError, AttributeError
        This vLLM has no such place; the message names it.
    """
    module, owner, name = PLACES[place]
    holder: Any = importlib.import_module(f"{_NVIDIA}.{module}")
    if owner is not None:
        holder = getattr(holder, owner)
    getattr(holder, name)
    return holder, name


def layers_with(runner: Any, place: str) -> dict[int, Any]:
    """The model's own modules of a place's class, by layer."""
    kind, _ = lookup(place)
    return {layer: module for layer, module in modules(runner) if isinstance(module, kind)}


def modules(runner: Any) -> list[tuple[int, Any]]:
    """Modules inside the model's decoder layers, with their layer; a drafter is another model and has none here."""
    found = []
    for name, module in runner.model.named_modules():
        parts = name.split(".")
        if "layers" in parts[:-1] and parts[parts.index("layers") + 1].isdigit():
            found.append((int(parts[parts.index("layers") + 1]), module))
    return found


@dataclass(frozen=True, slots=True)
class LayerPlaces:
    """Layers of a runner's model by the identity of their modules.

    Attributes
    ----------
    gates, attention : dict of int to int
        Layer by the identity of its router, and of its attention.
    states : dict
        Layer and ``InklingConvState.stream_ranges`` by the identity of the layer's cache of convolution inputs.
    """

    gates: dict[int, int]
    attention: dict[int, int]
    states: dict[int, tuple[int, Any]]

    @classmethod
    def of(cls, runner: Any) -> LayerPlaces:
        """The layers of `runner`'s model."""
        gates, attention, states = {}, {}, {}
        for layer, module in modules(runner):
            match type(module).__name__:
                case "InklingGate":
                    gates[id(module)] = layer
                case "InklingAttention":
                    attention[id(module)] = layer
                case "InklingConvState":
                    states[id(module.kv_cache)] = layer, module.stream_ranges
        return cls(gates, attention, states)
