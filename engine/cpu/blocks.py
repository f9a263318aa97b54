"""The V2 runner's block tables and staged writes in torch.

These take the place of whole methods, not of single kernels: vLLM's kernels are given raw addresses of several tables, which torch
cannot follow. Source: vLLM 0.32 ``v1/worker/gpu/{block_table,buffer_utils}.py``.
"""

from __future__ import annotations

from typing import Any

import torch

PAD_SLOT = -1


def apply_write(self: Any) -> None:
    """Copy the staged pieces of a ``StagedWriteTensor`` into it, in the order in which they were staged."""
    if not self._staged_write_indices:
        return
    target, stride = self.gpu.view(-1).numpy(), self.gpu.stride(0)
    begin = 0
    staged = zip(self._staged_write_indices, self._staged_write_starts, self._staged_write_cu_lens, strict=True)
    for index, start, end in staged:
        at = index * stride + start
        target[at : at + end - begin] = self._staged_write_contents[begin:end]
        begin = end
    self.clear_staged_writes()


def apply_writes(self: Any, tensors: Any, output_ptrs: torch.Tensor, output_strides: torch.Tensor) -> None:
    """:func:`apply_write` for several tensors (``FusedStagedWriter.apply``)."""
    for tensor in tensors:
        apply_write(tensor)


def gather_block_tables(
    self: Any,
    idx_mapping: torch.Tensor,
    num_reqs_padded: int,
    out: tuple[torch.Tensor, ...] | None = None,
    out_ptrs: torch.Tensor | None = None,
) -> tuple[torch.Tensor, ...]:
    """Rows of every group's block table in batch order; padding rows are zero (``BlockTables.gather_block_tables``).

    Only the columns in use by one of the requests are copied, as wide as the widest: a table is a million tokens wide.
    """
    tables = tuple(self.input_block_tables) if out is None else out
    rows, requests = idx_mapping.long(), len(idx_mapping)
    for group, (source, target) in enumerate(zip(self.block_tables, tables, strict=True)):
        used = int(self.num_blocks.gpu[group][rows].max()) if requests else 0
        target[:requests, :used] = source.gpu[rows, :used]
        target[requests:num_reqs_padded] = 0
    return tuple(table[:num_reqs_padded] for table in tables)


def compute_slot_mappings(
    self: Any,
    idx_mapping: torch.Tensor,
    query_start_loc: torch.Tensor,
    positions: torch.Tensor,
    num_tokens_padded: int,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Flat slot of every token in every group, negative where there is none (``BlockTables.compute_slot_mappings``).

    A position below zero has no slot: vLLM asks for some when it drafts more tokens than a prompt is long (docs/upstream.md).

    Raises
    ------
    NotImplementedError
        Context parallelism, which splits positions over ranks.
    """
    if self.cp_size != 1:
        raise NotImplementedError("context parallelism is not available without a GPU")
    slots = self.slot_mappings if out is None else out
    bounds = query_start_loc[: len(idx_mapping) + 1].long()
    tokens = int(bounds[-1]) if len(idx_mapping) else 0
    request = torch.repeat_interleave(idx_mapping.long(), bounds.diff())
    place = positions[:tokens].long()
    real, place = (request >= 0) & (place >= 0), place.clamp(min=0)
    slots[:, tokens:] = PAD_SLOT
    for group, (table, page) in enumerate(zip(self.block_tables, self.block_sizes, strict=True)):
        if not self._slot_mapping_enabled[group]:
            slots[group, :tokens] = PAD_SLOT
            continue
        block = table.gpu[request.clamp(min=0), place // page].long()
        slots[group, :tokens] = torch.where(real, block * page + place % page, PAD_SLOT)
    return slots[:, :num_tokens_padded]
