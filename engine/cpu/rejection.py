"""Verifying drafted tokens in the V2 runner: accept a prefix of the drafts, then draw one token of the target's own.

Greedy requests accept what equals the target's best token. Others accept with probability p/q (Leviathan et al., 2023) or by blocks
(Sun et al., 2024), and draw what replaces a rejected token from the rest ``max(p - q, 0)``, so that drafts change the speed and not
the distribution. Drafts without logits count as certain (q = 1). A draft below zero is a placeholder and is never accepted.

:func:`rejection_sample` takes the place of a function of vLLM's that launches seven kernels. Requests are few; each row of logits
is read a small number of times. Source: vLLM 0.32 ``v1/worker/gpu/spec_decode/rejection_sampler{,_utils}.py``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch

from .philox import uniform
from .sampling import noised_argmax


@dataclass(frozen=True)
class _Request:
    """One request: `target` (rows, vocabulary), the draft that each row but the last verifies, `proposal` (drafts, vocabulary) or
    None, positions and seed of the draws, temperature."""

    target: torch.Tensor
    drafts: list[int]
    proposal: torch.Tensor | None
    places: list[int]
    seed: int
    heat: float

    @cached_property
    def best(self) -> list[int]:
        """Likeliest token of each row."""
        return [int(row.float().numpy().argmax()) for row in self.target]

    def target_logprobs(self, row: int) -> torch.Tensor:
        return self.target[row].float().log_softmax(dim=0)

    def proposal_logprobs(self, row: int) -> torch.Tensor:
        assert self.proposal is not None
        return (self.proposal[row].float() / self.heat).log_softmax(dim=0)

    def log_ratio(self, row: int) -> float:
        """``log p - log q`` of the draft at `row`."""
        draft = self.drafts[row]
        proposed = 0.0 if self.proposal is None else float(self.proposal_logprobs(row)[draft])
        return float(self.target_logprobs(row)[draft]) - proposed


def rejection_sample(
    target_logits: torch.Tensor,
    draft_logits: torch.Tensor | None,
    draft_sampled: torch.Tensor,
    cu_num_logits: torch.Tensor,
    pos: torch.Tensor,
    idx_mapping: torch.Tensor,
    expanded_idx_mapping: torch.Tensor,
    expanded_local_pos: torch.Tensor,
    temperature: torch.Tensor,
    seed: torch.Tensor,
    num_speculative_steps: int,
    synthetic_conditional_rates: torch.Tensor | None = None,
    use_fp64: bool = False,
    use_block_verification: bool = False,
    contexts: torch.Tensor | None = None,
    watermarking: torch.Tensor | None = None,
    watermarking_skip_mask: torch.Tensor | None = None,
    watermark_key: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Sampled tokens ``(requests, drafts + 1)`` and how many of each row count, with vLLM's signature.

    Raises
    ------
    NotImplementedError
        Watermarks.
    """
    if contexts is not None:
        raise NotImplementedError("watermarks have no implementation without a GPU")
    vocabulary = target_logits.shape[1] if draft_logits is None else min(target_logits.shape[1], draft_logits.shape[2])
    bounds, drafted, places = cu_num_logits.tolist(), draft_sampled.tolist(), pos.tolist()
    rates = None if synthetic_conditional_rates is None else synthetic_conditional_rates.tolist()
    sampled = torch.zeros(len(bounds) - 1, num_speculative_steps + 1, dtype=torch.int64)
    counts = torch.zeros(len(bounds) - 1, dtype=torch.int32)
    for index, state in enumerate(idx_mapping.tolist()):
        start, end = bounds[index], bounds[index + 1]
        request = _Request(
            target=target_logits[start:end, :vocabulary], drafts=drafted[start + 1 : end],
            proposal=None if draft_logits is None else draft_logits[state, :, :vocabulary],
            places=places[start:end], seed=int(seed[state]), heat=float(temperature[state]),
        )  # fmt: skip
        tokens = _verify(request, rates, blocks=use_block_verification, double=use_fp64)
        sampled[index, : len(tokens)] = torch.tensor(tokens)
        counts[index] = len(tokens)
    return sampled, counts


def _verify(request: _Request, rates: list[float] | None, *, blocks: bool, double: bool) -> list[int]:
    """The accepted drafts and the token after them."""
    drafts, greedy = request.drafts, request.heat == 0.0
    cumulative = _cumulative(request) if blocks and not greedy else None
    if cumulative is not None:
        accepted = _accept_block(request, cumulative)
    else:
        accepted = 0
        while accepted < len(drafts) and _accepts(request, accepted, rates):
            accepted += 1
    if greedy:
        return [*drafts[:accepted], request.best[accepted]]
    rest = _rest(request, accepted, cumulative)
    token, _ = noised_argmax(rest, request.heat, request.seed, request.places[accepted], scaled=True, double=double)
    return [*drafts[:accepted], token]


def _accepts(request: _Request, row: int, rates: list[float] | None) -> bool:
    """Whether the draft at `row` stands, those before it standing."""
    if request.drafts[row] < 0:
        return False
    if rates is not None:
        return uniform(request.seed, request.places[row]) < rates[row]
    if request.heat == 0.0:
        return request.best[row] == request.drafts[row]
    return request.log_ratio(row) > math.log(uniform(request.seed, request.places[row]))


def _rest(request: _Request, row: int, cumulative: list[float] | None) -> torch.Tensor:
    """Logits from which the token after the accepted drafts is drawn."""
    target = request.target[row].float()
    if row == len(request.drafts) or request.drafts[row] < 0:
        return target
    if request.proposal is None:
        return target.index_fill(0, torch.tensor([request.drafts[row]]), -torch.inf)
    p = request.target_logprobs(row)
    if cumulative is not None and row > 0:
        p = p + cumulative[row - 1]
    ratio = (request.proposal_logprobs(row) - p).exp()
    # log(p - q) = log p + log(1 - q/p): exact where the two are close.
    return torch.where(ratio < 1, p + torch.log1p(-ratio), -torch.inf)


def _cumulative(request: _Request) -> list[float]:
    """Logarithm of the joint ratio after each draft, never above 0; a placeholder keeps the last."""
    found, value = [], 0.0
    for row, draft in enumerate(request.drafts):
        if draft >= 0:
            value = min(value + request.log_ratio(row), 0.0)
        found.append(value)
    return found


def _accept_block(request: _Request, cumulative: list[float]) -> int:
    """Length of the longest prefix that block verification accepts."""
    accepted = 0
    for row, draft in enumerate(request.drafts):
        if draft < 0:
            break
        joint = math.exp(cumulative[row])
        threshold = joint
        if row + 1 < len(request.drafts) and request.drafts[row + 1] >= 0:
            mass = _residual_mass(request, row + 1, joint)
            total = mass + 1.0 - joint
            threshold = mass / total if total > 0 else 1.0
        if uniform(request.seed, request.places[row]) <= threshold:
            accepted = row + 1
    return accepted


def _residual_mass(request: _Request, row: int, joint: float) -> float:
    """``Σ max(joint · p - q, 0)`` at `row`."""
    p = request.target_logprobs(row).exp()
    if request.proposal is None:
        return joint * (1.0 - float(p[request.drafts[row]]))
    return float((joint * p - request.proposal_logprobs(row).exp()).clamp(min=0).sum())


def flatten_sampled(
    flat_sampled: torch.Tensor,
    sampled: torch.Tensor,
    sampled_stride: int,
    num_sampled: torch.Tensor,
    cu_num_logits: torch.Tensor,
    **launch: object,
) -> None:
    """Sampled tokens in the order of the rows of logits."""
    counts, starts = num_sampled.tolist(), cu_num_logits.tolist()
    for row, count in enumerate(counts):
        flat_sampled[starts[row] : starts[row] + count] = sampled[row, :count].to(flat_sampled.dtype)


def gather_draft_sampled(
    draft_sampled: torch.Tensor,
    pos_out: torch.Tensor,
    input_ids: torch.Tensor,
    positions: torch.Tensor,
    logits_indices: torch.Tensor,
    expanded_idx_mapping: torch.Tensor,
    expanded_local_pos: torch.Tensor,
    prefill_len: torch.Tensor,
    num_logits: int,
    BLOCK_SIZE: int,
) -> None:
    """Input token and position of each row of logits; -1 for drafts within the prompt, which nothing can have proposed."""
    at, back = logits_indices[:num_logits].long(), expanded_local_pos[:num_logits]
    place = positions[at]
    unproposed = (back > 0) & (place - back < prefill_len[expanded_idx_mapping[:num_logits].long()])
    draft_sampled[:num_logits] = input_ids[at].masked_fill(unproposed, -1)
    pos_out[:num_logits] = place


KERNELS = {"_flatten_sampled_kernel": flatten_sampled, "_gather_draft_sampled_kernel": gather_draft_sampled}
"""Kernels of ``vllm.v1.worker.gpu.spec_decode.rejection_sampler`` by name."""
