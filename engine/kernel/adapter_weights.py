"""An adapter's matrices as vLLM loads them: one pair per module, all scaling multiplied in, every expert present.

Here one spelling's pairs become the other's: two projections that vLLM holds as one alternating matrix become a pair of twice the
rank, a stack of experts becomes single ones, shared experts become one block-diagonal pair. Nothing is approximated: the product
``B A`` of every module stays what it was. An engine may hold the routed experts' matrices in another layout, in which all experts
share gate's and up's A and down's B (``enable-moe-shared-loras``); it takes adapters of that layout only. Knows no files and no
vLLM.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import torch

from .adapter_names import SHARED, Place, Sizes, vllm_name

Pair = tuple[torch.Tensor, torch.Tensor]


@dataclass(slots=True)
class Matrices:
    """Pairs ``(A [r, inner], B [outer, r])`` by the names vLLM loads; `problems` are sentences, one for each that does not fit."""

    pairs: dict[str, Pair] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    @property
    def rank(self) -> int:
        """The largest rank of any module."""
        return max((a.shape[-2] for a, _ in self.pairs.values()), default=0)


def arrange(given: dict[Place, tuple[str, Pair]], sizes: Sizes, *, shared: bool = False) -> Matrices:
    """Matrices for vLLM.

    Parameters
    ----------
    given : dict
        For each place the name in the file and the pair, scaling multiplied in.
    shared : bool
        The engine holds the experts' matrices in the shared layout.
    """
    stacks: dict[int, dict[str, Pair]] = defaultdict(dict)
    made, experts = Matrices(), defaultdict[int, dict[tuple[int, str], Pair]](dict)
    dense: dict[int, dict[str, Pair]] = defaultdict(dict)
    sinks: dict[int, dict[str, Pair]] = defaultdict(dict)
    for place, (name, pair) in given.items():
        if place.layer is None:
            if _fits(made, name, pair, sizes.hidden, (sizes.padded_vocabulary, sizes.vocabulary)):
                made.pairs[vllm_name(None, "")] = pair
            continue
        kind, _, last = place.module.rpartition(".")
        if kind == "mlp" and last in ("gate_proj", "up_proj"):
            if _fits(made, name, pair, sizes.hidden, (sizes.dense_width,)):
                dense[place.layer][last] = pair
        elif place.expert is not None:
            inner, outer = sizes.of_expert(last)
            if _fits(made, name, pair, inner, (outer,)):
                experts[place.layer][place.expert, last] = pair
        elif place.stacked:
            if _fits_stacks(made, name, pair, SHARED[last], sizes):
                stacks[place.layer][last] = pair
        elif kind == "mlp.experts":
            experts[place.layer] |= _single_experts(made, name, pair, last, sizes)
        elif kind == "mlp.shared_experts":
            sinks[place.layer] |= _sinks(made, name, pair, last, sizes)
        else:
            inner, outer = sizes.below(place.layer)[place.module]
            if _fits(made, name, pair, inner, (outer,)):
                made.pairs[vllm_name(place.layer, place.module)] = pair
    for layer, halves in dense.items():
        made.pairs[vllm_name(layer, "mlp.w13_dn")] = _alternating(halves, sizes)
    for layer, wide in sinks.items():
        made.pairs |= {vllm_name(layer, f"mlp.sink_experts.{name}"): pair for name, pair in wide.items()}
    if shared and experts:
        made.problems.append(
            f"layer {next(iter(experts))} has matrices for single experts, this engine was started for shared ones"
        )
        return made
    for layer, named in stacks.items():
        if shared:
            made.pairs |= {vllm_name(layer, f"mlp.experts.{name}"): pair for name, pair in _all_stacks(named, sizes).items()}
        else:
            experts[layer] |= _unshared(named, sizes)
    for layer, pairs in experts.items():
        made.pairs |= {vllm_name(layer, f"mlp.experts.{e}.{name}"): pair for (e, name), pair in _all_experts(pairs, sizes).items()}
    return made


def _fits(made: Matrices, name: str, pair: Pair, inner: int, outer: tuple[int, ...]) -> bool:
    """Whether a pair has the sizes of its module; a sentence is noted when not."""
    a, b = pair
    if a.shape[1] == inner and b.shape[0] in outer:
        return True
    wanted = f"A [r, {inner}] and B [{' or '.join(map(str, outer))}, r]"
    made.problems.append(f"{name}: A is {list(a.shape)} and B is {list(b.shape)}, this model takes {wanted}")
    return False


def _alternating(halves: dict[str, Pair], sizes: Sizes) -> Pair:
    """Gate and up as one matrix whose rows alternate: ranks add up, each half has its own columns of B."""
    rank = sum(a.shape[0] for a, _ in halves.values())
    some = next(iter(halves.values()))[0]
    a = torch.cat([halves[name][0] for name in sorted(halves)])
    b = some.new_zeros(2 * sizes.dense_width, rank)
    column = 0
    for name in sorted(halves):
        half = halves[name][1]
        b[{"gate_proj": 0, "up_proj": 1}[name] :: 2, column : column + half.shape[1]] = half
        column += half.shape[1]
    return a, b


def _stack(made: Matrices, name: str, pair: Pair, count: int, inner: int, outer: int) -> tuple[torch.Tensor, torch.Tensor] | None:
    """PEFT's pair for a stack: A ``[e·r, inner]`` and B ``[outer, r·e]`` as ``[e, r, inner]`` and ``[e, outer, r]``."""
    a, b = pair
    if a.shape[0] % count or not _fits(made, name, pair, inner, (outer,)):
        if a.shape[0] % count:
            made.problems.append(f"{name}: {a.shape[0]} rows of A are not the same number for each of {count} experts")
        return None
    rank = a.shape[0] // count
    return a.view(count, rank, inner), b.view(outer, rank, count).permute(2, 0, 1)


def _single_experts(made: Matrices, name: str, pair: Pair, last: str, sizes: Sizes) -> dict[tuple[int, str], Pair]:
    width = sizes.expert_width
    inner, outer = (width, sizes.hidden) if last == "down_proj" else (sizes.hidden, 2 * width)
    stacks = _stack(made, name, pair, sizes.experts, inner, outer)
    if stacks is None:
        return {}
    a, b = stacks
    if last == "down_proj":
        return {(e, last): (a[e], b[e]) for e in range(sizes.experts)}
    # transformers holds the rows of all gates before those of all ups.
    return {(e, "gate_proj"): (a[e], b[e, :width]) for e in range(sizes.experts)} | {
        (e, "up_proj"): (a[e], b[e, width:]) for e in range(sizes.experts)
    }


def _sinks(made: Matrices, name: str, pair: Pair, last: str, sizes: Sizes) -> dict[str, Pair]:
    """Shared experts side by side: each has its own rows (gate, up) or columns (down), and its own part of the rank."""
    width = sizes.expert_width
    inner, outer = (width, sizes.hidden) if last == "down_proj" else (sizes.hidden, width)
    stacks = _stack(made, name, pair, sizes.sinks, inner, outer)
    if stacks is None:
        return {}
    a, b = stacks
    if last == "down_proj":
        return {"w2": (torch.block_diag(*a), torch.cat(list(b), dim=1))}
    return {{"gate_proj": "w1", "up_proj": "w3"}[last]: (a.flatten(0, 1), torch.block_diag(*b))}


def _all_experts(pairs: dict[tuple[int, str], Pair], sizes: Sizes) -> dict[tuple[int, str], Pair]:
    """Every expert with all three projections, of one rank: vLLM takes no less. What an adapter leaves alone gets zeros."""
    some, whole = next(iter(pairs.values()))[0], {}
    for name in ("gate_proj", "up_proj", "down_proj"):
        rank = max((pair[0].shape[0] for (_, last), pair in pairs.items() if last == name), default=1)
        inner, outer = sizes.of_expert(name)
        for expert in range(sizes.experts):
            a, b = pairs.get((expert, name), (some.new_zeros(rank, inner), some.new_zeros(outer, rank)))
            if a.shape[0] < rank:
                a = torch.cat([a, a.new_zeros(rank - a.shape[0], inner)])
                b = torch.cat([b, b.new_zeros(outer, rank - b.shape[1])], dim=1)
            whole[expert, name] = a, b
    return whole


def _fits_stacks(made: Matrices, name: str, pair: Pair, projection: str, sizes: Sizes) -> bool:
    """Whether stacks ``A [e, r, inner]`` and ``B [e, outer, r]`` fit, the shared one with one expert; notes a sentence when not."""
    (inner, outer), (a, b), count = sizes.of_expert(projection), pair, sizes.experts
    shared, single = (b, a) if projection == "down_proj" else (a, b)
    if len(shared) == 1 and len(single) == count and a.shape[2] == inner and b.shape[1] == outer:
        return True
    wanted = f"A [{1 if shared is a else count}, r, {inner}] and B [{1 if shared is b else count}, {outer}, r]"
    made.problems.append(f"{name}: A is {list(a.shape)} and B is {list(b.shape)}, this model takes {wanted}")
    return False


def _unshared(stacks: dict[str, Pair], sizes: Sizes) -> dict[tuple[int, str], Pair]:
    """Stacks as pairs of single experts: what they share is in each."""
    return {
        (expert, SHARED[name]): (a[min(expert, len(a) - 1)], b[min(expert, len(b) - 1)])
        for name, (a, b) in stacks.items()
        for expert in range(sizes.experts)
    }


def _all_stacks(stacks: dict[str, Pair], sizes: Sizes) -> dict[str, Pair]:
    """All three projections: vLLM takes no less. What an adapter leaves alone gets zeros."""
    some, whole = next(iter(stacks.values()))[0], {}
    for name, projection in SHARED.items():
        inner, outer = sizes.of_expert(projection)
        ones = (sizes.experts, 1) if projection == "down_proj" else (1, sizes.experts)
        whole[name] = stacks.get(name, (some.new_zeros(ones[0], 1, inner), some.new_zeros(ones[1], outer, 1)))
    return whole
