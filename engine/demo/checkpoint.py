"""Write a checkpoint folder that vLLM and transformers load, all or nothing.

The folder is made under another name beside its place and renamed when it is complete, under a lock: two processes that start at
once make one checkpoint, and a process that is killed leaves none. Knows no cache policy (:mod:`engine.demo`) and no training.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import EngineError
from .shape import END_SAMPLING, Shape

if TYPE_CHECKING:
    import torch

MARKER = "workbench.json"


def write_checkpoint(
    folder: Path, shape: Shape, tensors: Callable[[], dict[str, torch.Tensor]], *, revision: str, random_weights: bool
) -> Path:
    """Make `folder` a checkpoint of `shape`, unless it is one already.

    Parameters
    ----------
    folder : Path
        Where it shall be; its parent is created.
    tensors : callable
        Gives the tensors by their original names; called only when there is something to write.
    revision : str
        Identity of the weights, for provenance.
    random_weights : bool
        The weights were never trained. Recorded, so that every answer can say so.

    Raises
    ------
    EngineError
        The folder cannot be written; nothing is left behind.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _locked(folder.with_name(f".{folder.name}.lock")):
            if not folder.exists():
                _write(folder, shape, tensors, {"random_weights": random_weights, "revision": revision})
    except OSError as problem:
        raise EngineError(
            f"the demo checkpoint cannot be written to {folder}: {problem.strerror or problem}. It needs 150 MB; "
            "free some space or set INKLING_CACHE to another folder.",
            path=str(folder),
        ) from problem
    return folder


def _write(folder: Path, shape: Shape, tensors: Callable[[], dict[str, torch.Tensor]], marker: dict[str, object]) -> None:
    from safetensors.torch import save_file

    from .tokenizer import build_tokenizer, tokenizer_config

    partial = folder.with_name(f".{folder.name}.partial")
    # Whoever left it is dead: the lock is ours.
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    try:
        save_file(tensors(), partial / "model.safetensors", metadata={"format": "pt"})
        build_tokenizer().save(str(partial / "tokenizer.json"), pretty=False)
        for name, content in {
            "config.json": shape.config(),
            "preprocessor_config.json": shape.processor_config(),
            "tokenizer_config.json": tokenizer_config(shape.context),
            "generation_config.json": {"eos_token_id": END_SAMPLING, "do_sample": True, "temperature": 1.0},
            MARKER: marker,
        }.items():
            (partial / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
        os.replace(partial, folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
