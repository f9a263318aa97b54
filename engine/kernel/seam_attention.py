"""Recording attention rows: for chosen query tokens, what each head looked at and why.

A step's queries are recorded when their layer's attention has run: keys up to them are in the paged cache by then, those of a
cached prefix among them, and the row is computed again from queries, relative logits and keys (:mod:`.attention_rows`). Every rank
has some of the heads and writes those; a row counts when each rank wrote its part exactly once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..cpu.attention import gather
from ..protocol.costs import Entries, bucket_tokens
from .array_files import ArrayFile
from .attention_rows import Wanted, attention_rows
from .batch_rows import Rows
from .edits import Edits
from .layer_places import layers_with
from .recording import Selection
from .watching import Watch


class AttentionSeam:
    """Attention rows of one request.

    Parameters
    ----------
    arrays : dict
        The seam's entries.
    edges : list of int
        First token of each span, from 0.
    heads : list of int
        Wanted heads, all ranks together.
    edits : Edits
        What is changed for this request: rows are those that ran.
    """

    def __init__(
        self, watch: Watch, folder: Path, arrays: Entries, plan: Any, *, tokens: int, layers: list[int], heads: list[int],
        edges: list[int], rank: int, edits: Edits,
    ) -> None:  # fmt: skip
        self._watch, self._folder, self._arrays, self._plan, self._edits = watch, folder, arrays, plan, edits
        self.selection, self.layers, self._rank = Selection(plan.queries), layers, rank
        self._column = {layer: column for column, layer in enumerate(layers)}
        self._modules, self._heads = layers_with(watch.runner, "attention"), heads
        width = bucket_tokens(tokens, plan.buckets)
        self._spans = np.asarray(edges or [0])
        self._buckets = np.arange(0, tokens, width)
        pools = np.union1d(self._spans, self._buckets)
        self._wanted = Wanted(keep=plan.keep, tokens=tokens, top=min(plan.top, tokens), edges=pools)
        self._counts = np.zeros((len(self.selection), len(layers)), np.uint8)
        self._files: dict[str, ArrayFile] = {}
        if rank == 0:
            self._open(create=True)
        self._at, self._queries = 0, np.empty(0, np.int64)
        watch.begin.append(self._begin)
        watch.attention(self._at_attention)

    def _open(self, *, create: bool = False) -> None:
        if not self._files:
            self._files = {
                name: ArrayFile(self._folder / f"{name}.npy", shape, dtype, create=create)
                for name, (_, shape, dtype) in self._arrays.items()
            }

    def _begin(self, rows: Rows) -> None:
        self._at, self._queries = self.selection.locate(rows.t, rows.t + rows.stop - rows.start)

    def _at_attention(self, layer: int, module: Any, q: Any, relative: Any, log_scaling: Any, blocks: Any) -> None:
        rows = self._watch.rows
        if rows is None or not len(self._queries) or layer not in self._column:
            return
        self._open()
        column, first = self._column[layer], self._rank * module.num_heads
        mine = [head - first for head in self._heads if first <= head < first + module.num_heads]
        self._counts[self._at : self._at + len(self._queries), column] += 1
        if not mine:
            return
        index = torch.from_numpy(self._queries - rows.t + rows.start).to(q.device)
        cache, table = module._split_kv_cache()[0], blocks[rows.index]
        bias = self._edits.biases.get(layer)
        if log_scaling is None or (bias is not None and bias.flat):
            tau = torch.ones(len(index), device=q.device)
        else:
            tau = log_scaling[index].reshape(-1).float()
        relative = relative[index]
        found = attention_rows(
            q[index], relative, tau, torch.from_numpy(self._queries).to(q.device),
            lambda start, stop: gather(cache, table, start, stop), self._wanted, heads=mine,
            groups=module.num_heads // module.num_kv_heads, scale=module.scaling,
            window=module.rel_extent if module.is_local else 0,
            hidden=[self._edits.hidden_spans(layer, head + first) for head in mine],
        )  # fmt: skip
        if self._plan.keep == "pooled":
            found = self._pools(found)
        if self._plan.profiles:
            found["profile"] = (relative[:, mine].float() / tau[:, None, None]).cpu().numpy()
        self._write(column, self._heads.index(mine[0] + first), found, tau.cpu().numpy())

    def _pools(self, found: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Values per span and per bucket, from those of their common refinement."""
        fine = {name: found.pop(name) for name in ("weight", "content", "bias")}
        for prefix, starts in (("", self._spans), ("bucket_", self._buckets)):
            at = np.searchsorted(self._wanted.edges, starts)  # pyright: ignore[reportCallIssue, reportArgumentType]
            found |= {f"{prefix}{name}": np.add.reduceat(value, at, axis=-1) for name, value in fine.items()}
        return found

    def _write(self, column: int, head: int, found: dict[str, np.ndarray], tau: np.ndarray) -> None:
        for name, values in found.items():
            file = self._files[f"attention.{name}"]
            width = file.shape[-1] if len(file.shape) == 4 else 0
            if width and values.shape[-1] < width:
                values = np.pad(values, ((0, 0), (0, 0), (0, width - values.shape[-1])), constant_values=np.nan)
            for row in range(len(values)):
                file.write((self._at + row, column, head), values[row])
        if self._rank == 0:
            for row in range(len(tau)):
                self._files["attention.scaling"].write((self._at + row, column), tau[row : row + 1])

    def finish(self) -> tuple[dict[str, tuple[int, int]], list[str]]:
        """Write the banks and close; rows (query and layer) written once and asked for, and what is wrong."""
        if self._rank == 0:
            file = self._files["attention.bank"]
            for column, layer in enumerate(self.layers):
                bank = self._modules[layer].rel_logits_proj.proj.float().cpu().numpy()
                file.write((column,), np.pad(bank, ((0, 0), (0, file.shape[2] - bank.shape[1])), constant_values=np.nan))
        for file in self._files.values():
            file.close()
        asked, once = self._counts.size, int((self._counts == 1).sum())
        problems = []
        if once < asked:
            missing, twice = int((self._counts == 0).sum()), int((self._counts > 1).sum())
            problems.append(
                f"attention: of {asked} rows {missing} were not seen and {twice} seen more than once (rank {self._rank})"
            )
        return {"attention": (once, asked)}, problems
