"""Recording the short convolutions: what goes in, what they add, what each tap brings, per token and on request per channel.

A convolution of Inkling returns its input plus a term, ``term[t] = Σ kernel[j] · input[t - 3 + j]`` per channel. The term is
computed again here, in float32, from the inputs: this step's, and before them the layer's paged cache. Channels are spread over
ranks: sums over channels are added up over all of them, channels themselves gathered.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.linalg import vecdot

from ..protocol.plans import SITES, Site
from .array_files import ArrayFile
from .edits import Edits
from .layer_places import modules
from .recording import BLOCK_VALUES, CACHED_VALUES, TokenRecorder, row_blocks
from .watching import Watch


class SconvSeam:
    """Short convolutions of one request.

    Parameters
    ----------
    rank, ranks : int
        Of tensor parallelism.
    edits : Edits
        What is changed for this request: terms are those that ran. Kernels are written as the checkpoint has them.
    """

    def __init__(
        self, watch: Watch, recorder: TokenRecorder, plan: Any, shape: Any, *, rank: int, ranks: int, edits: Edits
    ) -> None:  # fmt: skip
        self._watch, self.recorder, self._rank, self._ranks, self._edits = watch, recorder, rank, ranks, edits
        self._sites = {site: index for index, site in enumerate(s for s in SITES if s in plan.sites)}
        self._keep, self._taps = plan.keep, shape.conv_taps
        watch.begin.append(recorder.begin)
        watch.end.append(recorder.end)
        watch.sconv(self._at_sconv)

    def _at_sconv(self, layer: int, site: Site, module: Any, x: Any, cache: Any, blocks: Any) -> None:
        recorder, rows = self.recorder, self._watch.rows
        if rows is None or site not in self._sites or not recorder.records(layer):
            return
        weight = module.weight.squeeze(1).float().T.contiguous()
        place = module.owner.stream_ranges[module.stream_idx]
        first, last = int(recorder.rows[0]), int(recorder.rows[-1]) + 1
        found, channels = [], []
        bound = CACHED_VALUES if x.device.type == "cpu" else BLOCK_VALUES
        for start, stop in row_blocks(last - first, x.shape[1], bound):
            past = history(x, first + start, rows, self._taps, cache, blocks[rows.index], place)
            own = x[first + start : first + stop].float()
            inputs = torch.cat([past, own])
            changed = self._edits.tap_factors(layer, site, rows.t + first + start - rows.start, stop - start, self._taps)
            factors = tap_factors(changed, stop - start, self._taps, x.device)
            term = convolved(inputs, weight, factors)
            sums = [vecdot(own, own), vecdot(term, term), vecdot(own, term)]
            if self._keep != "norms":
                sums += along_term(inputs, weight, term, factors)
            found.append(torch.stack(sums, dim=-1))
            if self._keep == "channels":
                channels.append(torch.stack([own, term]))
        values = torch.cat(found)[self._picked(first, last)]
        both = torch.cat(channels, dim=1)[:, self._picked(first, last)] if channels else None
        if self._ranks > 1:
            from vllm.distributed import tensor_model_parallel_all_gather, tensor_model_parallel_all_reduce

            values = tensor_model_parallel_all_reduce(values.contiguous())
            both = None if both is None else tensor_model_parallel_all_gather(both.contiguous(), dim=-1)
        recorder.put(layer, self._sites[site], **summaries(values), **_named(both))

    def _picked(self, first: int, last: int) -> Any:
        """The recorder's rows among rows `first` to `last`."""
        rows = self.recorder.rows
        return slice(None) if last - first == len(rows) else torch.from_numpy(rows - first)

    def finish(self, kernels: ArrayFile | None) -> tuple[dict[str, tuple[int, int]], list[str]]:
        """Write this rank's part of the kernels; then as :meth:`TokenRecorder.finish`."""
        if kernels is not None:
            self._write_kernels(kernels)
            kernels.close()
        return self.recorder.finish()

    def _write_kernels(self, kernels: ArrayFile) -> None:
        found = {
            (layer, SITES[module.stream_idx]): module
            for layer, module in modules(self._watch.runner)
            if hasattr(module, "stream_idx")
        }
        for column, layer in enumerate(self.recorder.layers):
            for site, index in self._sites.items():
                weight = found[layer, site].weight.squeeze(1).float().cpu().numpy()
                kernels.write((column, index, self._rank * len(weight)), weight)


def history(x: Any, first: int, rows: Any, taps: int, cache: Any, blocks: Any, width: tuple[int, int]) -> torch.Tensor:
    """The `taps` - 1 inputs before row `first` of a request, shape (taps - 1, c), float32; zero before position 0.

    Parameters
    ----------
    x : Tensor, shape (t, c)
        The step's inputs; what lies before the request's first row in it comes from the cache.
    cache : Tensor, shape (blocks, h, N, D)
        Pages of past inputs; the stream `width` is (offset, width) of D, heads outermost in `x`.
    blocks : Tensor, shape (pages,)
        The request's.
    """
    back = taps - 1
    inside = min(back, first - rows.start)
    position = rows.t + first - rows.start
    wanted = torch.arange(position - back, position - inside, device=x.device)
    past = wanted.clamp(min=0)
    page, (offset, size) = cache.shape[2], width
    stored = cache[blocks[past // page].long(), :, past % page, offset : offset + size].flatten(1).float()
    # Not a product: what a page holds there may be anything, NaN included.
    stored = torch.where((wanted >= 0)[:, None], stored, 0.0)
    return torch.cat([stored, x[first - inside : first].float()])


def tap_factors(
    changed: dict[tuple[float, ...], list[int]], rows: int, taps: int, device: torch.device
) -> torch.Tensor | None:  # fmt: skip
    """Factors of each row's taps, first the one that looks back furthest, (t, taps); None where nothing is changed.

    `changed` has them by how far a tap reaches back, and the rows they hold for (:meth:`.edits.Edits.tap_factors`).
    """
    if not changed:
        return None
    found = torch.ones(rows, taps, device=device)
    for factors, members in changed.items():
        found[torch.tensor(members, dtype=torch.long, device=device)] = torch.tensor(factors[::-1], device=device)
    return found


def convolved(inputs: torch.Tensor, weight: torch.Tensor, factors: torch.Tensor | None = None) -> torch.Tensor:
    """The term (t, c) that a convolution adds, for inputs (taps - 1 + t, c) and weight (taps, c)."""
    taps = len(weight)
    rows = len(inputs) - taps + 1

    def tap(number: int) -> torch.Tensor:
        part = inputs[number : number + rows]
        return part if factors is None else part * factors[:, number, None]

    term = tap(0) * weight[0]
    for number in range(1, taps):
        term.addcmul_(tap(number), weight[number])
    return term


def along_term(inputs: torch.Tensor, weight: torch.Tensor, term: torch.Tensor, factors: torch.Tensor | None) -> list[torch.Tensor]:
    """What each tap brings, times the term, summed over channels: each (t,)."""
    rows = len(term)
    found = [vecdot(inputs[tap : tap + rows], term * weight[tap]) for tap in range(len(weight))]
    return found if factors is None else [value * factors[:, tap] for tap, value in enumerate(found)]


def summaries(sums: torch.Tensor) -> dict[str, torch.Tensor]:
    """Norms, cosine and taps from the sums over all channels: (t, [x·x, term·term, x·term, tap·term …])."""
    own, term = sums[:, 0].clamp(min=0).sqrt(), sums[:, 1].clamp(min=0).sqrt()
    both = own * term
    found = {"input": own, "term": term, "cosine": torch.where(both > 0, sums[:, 2] / both, 0.0)}
    if sums.shape[1] > 3:
        found["by_tap"] = torch.where(term[:, None] > 0, sums[:, 3:] / term[:, None], 0.0)
    return found


def _named(channels: Any) -> dict[str, torch.Tensor]:
    return {} if channels is None else {"channel_input": channels[0], "channel_term": channels[1]}
