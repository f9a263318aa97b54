"""Where in vLLM's Inkling a layer is recognised, and which of its functions are wrapped to change what a layer computes.

A wrapped function is called by every layer of the model and of a drafter alike; which one it is follows from the identity of what
it is called on: its module, or its page cache of convolution inputs. Identities hold while the engine runs.

Private names of vLLM 0.32, each looked up before anything is wrapped.
"""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass
from typing import Any

_INKLING = "vllm.models.inkling.nvidia"


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
        """The layers of `runner`'s model; a drafter is another model and has none here."""
        gates, attention, states = {}, {}, {}
        for name, module in runner.model.named_modules():
            found = re.search(r"\blayers\.(\d+)\.", name)
            if found is None:
                continue
            layer = int(found[1])
            match type(module).__name__:
                case "InklingGate":
                    gates[id(module)] = layer
                case "InklingAttention":
                    attention[id(module)] = layer
                case "InklingConvState":
                    states[id(module.kv_cache)] = layer, module.stream_ranges
        return cls(gates, attention, states)

    @staticmethod
    def functions() -> dict[str, tuple[Any, str]]:
        """Holder and attribute of what is wrapped, by family."""
        named = {
            "gate": ("moe", "InklingGate", "select_experts"), "choose": ("moe", None, "inkling_gate_select"),
            "prep": ("attention", None, "fused_qkvr_prep"), "attention": ("attention", "InklingAttention", "_attention"),
            "sconv": ("short_conv", None, "fused_sconv"), "lamport": ("model", None, "get_lamport_rs_conv"),
        }  # fmt: skip
        found = {}
        for family, (module, owner, attribute) in named.items():
            holder = importlib.import_module(f"{_INKLING}.{module}")
            holder = holder if owner is None else getattr(holder, owner)
            getattr(holder, attribute)
            found[family] = holder, attribute
        return found
