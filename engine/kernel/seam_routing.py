"""Recording what the router chose: expert ids, their weights and the sinks' weights, for every token of one request.

Writes the arrays that :mod:`engine.protocol.captures` describes, as memory maps that begin as zeros, and counts the rows it writes:
a capture is complete when each token was written exactly once by each layer. Knows no vLLM; who calls :meth:`record` knows which
rows of a step belong to the request.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Dims = tuple[str, ...]

ARRAYS: dict[str, tuple[Dims, str]] = {
    "routing.expert": (("t", "l", "k"), "<u2"),
    "routing.weight": (("t", "l", "k"), "<f4"),
    "routing.sink": (("t", "l", "s"), "<f4"),
}
"""Dimensions and type of each array."""


class RoutingRecorder:
    """Arrays of one capture, open for writing.

    Parameters
    ----------
    folder : Path
        Exists; one ``.npy`` per array is created in it.
    tokens : int
        Length of `t`.
    layers : list of int
        MoE layers of the model, in order: the coordinate `l`.
    experts_per_token, sinks : int
        Lengths of `k` and `s`.
    """

    def __init__(self, folder: Path, *, tokens: int, layers: list[int], experts_per_token: int, sinks: int) -> None:
        sizes = {"t": tokens, "l": len(layers), "k": experts_per_token, "s": sinks}
        self.layers, self.tokens, self._k = layers, tokens, experts_per_token
        self._column = {layer: column for column, layer in enumerate(layers)}
        self._arrays = {
            name: np.lib.format.open_memmap(
                folder / f"{name}.npy", mode="w+", dtype=np.dtype(dtype), shape=tuple(sizes[dim] for dim in dims)
            )
            for name, (dims, dtype) in ARRAYS.items()
        }
        self._written = np.zeros((tokens, len(layers)), np.uint8)

    def entries(self) -> dict[str, dict[str, Any]]:
        """Manifest entries: dims, shape and dtype by array name."""
        return {
            name: {"dims": list(dims), "shape": list(self._arrays[name].shape), "dtype": np.dtype(dtype).name}
            for name, (dims, dtype) in ARRAYS.items()
        }

    def record(self, layer: int, t: NDArray[np.int64], weights: NDArray[np.float32], ids: NDArray[np.integer]) -> None:
        """Write one layer's choice for some tokens.

        Parameters
        ----------
        layer : int
            Index in the model.
        t : ndarray, shape (n,)
            Absolute positions; those beyond the capture (an answer's) are left out.
        weights : ndarray of float32, shape (n, k + s)
            Weights of the chosen experts, then of the sinks.
        ids : ndarray of int, shape (n, k + s)
        """
        inside = t < self.tokens
        t, weights, ids = t[inside], weights[inside], ids[inside]
        column = self._column[layer]
        self._arrays["routing.expert"][t, column] = ids[:, : self._k]
        self._arrays["routing.weight"][t, column] = weights[:, : self._k]
        self._arrays["routing.sink"][t, column] = weights[:, self._k :]
        seen = self._written[t, column]
        self._written[t, column] = np.minimum(seen, 254) + 1

    def finish(self) -> tuple[int, list[str]]:
        """Flush the files; tokens that every layer wrote exactly once, and what is wrong, in words."""
        for array in self._arrays.values():
            array.flush()
        once = (self._written == 1).all(axis=1)
        problems = []
        if missing := int((self._written == 0).any(axis=1).sum()):
            first = int((self._written == 0).any(axis=1).argmax())
            problems.append(f"routing: {missing} of {self.tokens} tokens were not seen by every layer (first: {first})")
        if twice := int((self._written > 1).any(axis=1).sum()):
            first = int((self._written > 1).any(axis=1).argmax())
            problems.append(
                f"routing: {twice} tokens were computed more than once (first: {first}); "
                "the request was preempted, capture it again when the engine is less busy"
            )
        return int(once.sum()), problems
