"""The V2 runner's block tables and staged writes, in NumPy over the tensors' own memory.

Every step makes them anew, and for the few numbers of a decode step NumPy's calls are several times cheaper than torch's.

These take the place of whole methods, not of single kernels: vLLM's kernels are given raw addresses of several tables, which torch
cannot follow. Source: vLLM 0.32 ``v1/worker/gpu/{block_table,buffer_utils}.py``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
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
    rows, requests = idx_mapping.numpy(), len(idx_mapping)
    counts = self.num_blocks.gpu.numpy()[:, rows].max(axis=1, initial=0).tolist()
    for used, source, target in zip(counts, self.block_tables, tables, strict=True):
        filled = target.numpy()
        filled[:requests, :used] = source.gpu.numpy()[rows, :used]
        filled[requests:num_reqs_padded] = 0
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
    slots = (self.slot_mappings if out is None else out)[:, :num_tokens_padded]
    filled, rows = slots.numpy(), idx_mapping.numpy()
    bounds = query_start_loc.numpy()[: len(rows) + 1]
    tokens = int(bounds[-1]) if len(rows) else 0
    request = np.repeat(rows, np.diff(bounds))
    place = positions.numpy()[:tokens]
    none = (request < 0) | (place < 0)
    request, place = request.clip(min=0), place.clip(min=0)
    filled[:, tokens:] = PAD_SLOT
    for group, (table, page) in enumerate(zip(self.block_tables, self.block_sizes, strict=True)):
        if not self._slot_mapping_enabled[group]:
            filled[group, :tokens] = PAD_SLOT
            continue
        block, within = np.divmod(place, page)
        filled[group, :tokens] = table.gpu.numpy()[request, block].astype(np.int64) * page + within
        filled[group, :tokens][none] = PAD_SLOT
    return slots
