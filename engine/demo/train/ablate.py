"""What each part of the model is worth: held-out scores with one part off.

A part is off when it adds nothing: a short convolution without taps passes its input on, a bank of zeros is no relative bias,
shared experts without an output sink the weight they take and give nothing back, a tower of zeros embeds nothing.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import nn

from engine.demo.train.layers import Layer, RoutedMLP
from engine.demo.train.model import DemoModel


def _of_layers(choose: Callable[[Layer], nn.Parameter | None]) -> Callable[[DemoModel], Iterator[nn.Parameter]]:
    def parameters(model: DemoModel) -> Iterator[nn.Parameter]:
        for layer in model.layers:
            assert isinstance(layer, Layer)
            if (found := choose(layer)) is not None:
                yield found

    return parameters


PARTS: dict[str, Callable[[DemoModel], Iterator[nn.Parameter]]] = {
    "short convolution of keys": _of_layers(lambda layer: layer.attn.k_sconv.weight),
    "short convolution of values": _of_layers(lambda layer: layer.attn.v_sconv.weight),
    "short convolution after attention": _of_layers(lambda layer: layer.attn_sconv.weight),
    "short convolution after the MLP": _of_layers(lambda layer: layer.mlp_sconv.weight),
    "relative bias": _of_layers(lambda layer: layer.attn.bank),
    "expert sinks": _of_layers(lambda layer: layer.mlp.shared_down if isinstance(layer.mlp, RoutedMLP) else None),
    "image tower": lambda model: iter([model.image.norm.weight]),
    "audio tower": lambda model: iter([model.audio.norm.weight]),
}
"""Parameters that are zero when a part is off."""


@contextmanager
def without(model: DemoModel, part: str) -> Iterator[DemoModel]:
    """The model with one of :data:`PARTS` off, while the context lasts."""
    parameters = list(PARTS[part](model))
    kept = copy.deepcopy([p.detach() for p in parameters])
    try:
        with torch.no_grad():
            for parameter in parameters:
                parameter.zero_()
        yield model
    finally:
        with torch.no_grad():
            for parameter, values in zip(parameters, kept, strict=True):
                parameter.copy_(values)
