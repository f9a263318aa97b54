"""Reading an adapter's folder: everything that can be wrong with one is found here, before an engine process sees it.

A folder in PEFT's format (``adapter_config.json`` and ``adapter_model.safetensors``) is checked whole and written anew as vLLM
loads it. The engine only ever opens that copy: what is loaded cannot change or vanish under it, and its folder's name is the
content's hash, which keeps the prefix caches of two adapters apart whatever they are called. Pickled weights are never opened.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ..errors import AdapterRefused
from .adapter_names import Place, Sizes, place_of
from .adapter_weights import Matrices, Pair, arrange

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
MAX_CONFIG_BYTES = 1 << 20
SHOWN = 3
"""Problems that a message spells out; the rest is counted."""

_KEY = re.compile(r"(?:base_model\.model\.)?(?P<module>.+)\.lora_(?P<side>[AB])(?:\.default)?\.weight")
_STACK = re.compile(r"\.experts\.w[123]\.lora_[AB]")
_COPIES = ("lm_head.base_layer.weight", "embed_tokens.base_layer.weight")
"""PEFT saves the model's own vocabulary matrices beside an adapter of the head. They are the model's, so they are passed over."""

_PARTS = (
    ("attention", ".attn."), ("experts", ".mlp.experts."), ("shared experts", ".mlp.sink_experts."), ("dense MLP", ".mlp.w"),
    ("head", "unembed"),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedAdapter:
    """An adapter that vLLM can load.

    Attributes
    ----------
    id : str
        ``sha256:`` of its config and weights.
    rank : int
        As it is loaded: the largest of any module.
    parts : tuple of str
        What it changes.
    """

    id: str
    rank: int
    modules: int
    parts: tuple[str, ...]
    size_bytes: int
    matrices: Matrices


def check_folder(
    folder: Path, sizes: Sizes, *, max_rank: int, sharded_kv: bool = False, shared_experts: bool = False
) -> CheckedAdapter:
    """Read an adapter.

    Parameters
    ----------
    max_rank : int
        The engine's limit, for any module as vLLM holds it.
    sharded_kv : bool
        The engine spreads a key or value head over several ranks, where vLLM cannot adapt these two.
    shared_experts : bool
        The engine holds the routed experts' matrices in the shared layout.

    Raises
    ------
    AdapterRefused
        With every kind of problem there is, the first few of each spelled out.
    """
    config, digest = _config(folder)
    helper = _judged(folder, config)
    tensors, size_bytes = _tensors(folder, digest)
    targets = tuple(config.get("target_parameters") or ())
    pairs, problems = _pairs(tensors, helper, sizes, targets)
    matrices = arrange(pairs, sizes, shared=shared_experts)
    problems += matrices.problems
    if sharded_kv and (names := [name for name in matrices.pairs if name.endswith((".wk_dv", ".wv_dv"))]):
        problems.append(f"{names[0]}: vLLM cannot adapt keys and values where there are more ranks than key/value heads")
    if problems:
        more = f"; and {len(problems) - SHOWN} more" if len(problems) > SHOWN else ""
        raise refusal(folder, "; ".join(problems[:SHOWN]) + more, problems=len(problems))
    if matrices.rank > max_rank:
        raise refusal(
            folder, f"its rank is {matrices.rank} as vLLM holds it, this engine takes {max_rank}: "
            "start it with a larger max_rank", rank=matrices.rank, max_rank=max_rank,
        )  # fmt: skip
    parts = tuple(part for part, mark in _PARTS if any(mark in name for name in matrices.pairs))
    return CheckedAdapter(
        id=f"sha256:{digest.hexdigest()}", rank=matrices.rank, modules=len(pairs), parts=parts, size_bytes=size_bytes,
        matrices=matrices,
    )  # fmt: skip


def write_for_vllm(adapter: CheckedAdapter, folder: Path) -> None:
    """Write `adapter` as vLLM loads it into `folder`, which is made."""
    from safetensors.torch import save_file

    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    tensors = {}
    for name, (a, b) in adapter.matrices.pairs.items():
        # Own memory for each: safetensors refuses tensors that share one, and gate and up of a stack share A.
        tensors |= {f"base_model.model.{name}.lora_{side}.weight": part.clone(memory_format=torch.contiguous_format)
                    for side, part in (("A", a), ("B", b))}  # fmt: skip
    save_file(tensors, folder / WEIGHTS)
    rank = adapter.rank
    # Scaling is in B already: alpha / r is one.
    plain = {"peft_type": "LORA", "r": rank, "lora_alpha": rank, "target_modules": ["all-linear"], "bias": "none"}
    (folder / CONFIG).write_text(json.dumps(plain), encoding="utf-8")


def refusal(folder: Path, problem: str, **detail: Any) -> AdapterRefused:
    """The error for an adapter that cannot be loaded."""
    return AdapterRefused(f"adapter {folder.name!r} cannot be loaded: {problem}", folder=str(folder), **detail)


def _config(folder: Path) -> tuple[dict[str, Any], Any]:
    """The config, and a digest that has taken it in."""
    path = folder / CONFIG
    if not path.is_file():
        raise refusal(folder, f"it has no {CONFIG}")
    if path.stat().st_size > MAX_CONFIG_BYTES:
        raise refusal(folder, f"its {CONFIG} is over {MAX_CONFIG_BYTES:,} bytes")
    raw = path.read_bytes()
    try:
        config = json.loads(raw)
    except ValueError as problem:
        raise refusal(folder, f"its {CONFIG} is not JSON: {problem}") from problem
    if not isinstance(config, dict):
        raise refusal(folder, f"its {CONFIG} is not a JSON object")
    if config.get("peft_type", "LORA") != "LORA":
        raise refusal(folder, f"it is of type {config['peft_type']}: LORA can be loaded")
    return config, hashlib.sha256(raw)


def _judged(folder: Path, config: dict[str, Any]) -> Any:
    """vLLM's own reading of the config, which knows the options of PEFT that vLLM does not serve."""
    from vllm.config.lora import LoRAConfig
    from vllm.lora.peft_helper import PEFTHelper

    try:
        helper = PEFTHelper.from_dict({"target_modules": []} | config)
        # Its rank is judged later, on what vLLM will hold.
        helper.validate_legal(LoRAConfig(max_lora_rank=512))
    except (ValueError, TypeError, AttributeError) as problem:
        raise refusal(folder, f"its {CONFIG}: {problem}") from problem
    return helper


def _tensors(folder: Path, digest: Any) -> tuple[dict[str, torch.Tensor], int]:
    from safetensors import SafetensorError, safe_open

    path = folder / WEIGHTS
    if not path.is_file():
        other = next((name for name in ("adapter_model.bin", "adapter_model.pt") if (folder / name).is_file()), None)
        raise refusal(folder, f"it has no {WEIGHTS}" + (f"; {other} is not opened: save it as safetensors" if other else ""))
    try:
        with safe_open(path, "pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as problem:
        raise refusal(folder, f"its {WEIGHTS} is not a safetensors file: {problem}") from problem
    with path.open("rb") as file:
        while block := file.read(1 << 22):
            digest.update(block)
    if not tensors:
        raise refusal(folder, f"its {WEIGHTS} holds no tensors")
    return tensors, path.stat().st_size


def _pairs(
    tensors: dict[str, torch.Tensor], helper: Any, sizes: Sizes, targets: tuple[str, ...]
) -> tuple[dict[Place, tuple[str, Pair]], list[str]]:
    """Pairs by place, scaling multiplied in, and what is wrong with the others."""
    sides: dict[str, dict[str, torch.Tensor]] = {}
    problems = []
    for key, tensor in tensors.items():
        found = _KEY.fullmatch(key)
        if key.endswith(_COPIES):
            if tensor.shape[:1] not in ((sizes.vocabulary,), (sizes.padded_vocabulary,)):
                problems.append(f"{key}: {len(tensor):,} rows, an extended vocabulary; this model has {sizes.padded_vocabulary:,}")
        elif found is None:
            problems.append(f"{key}: not the name of an adapter's matrix (….lora_A.weight, ….lora_B.weight)")
        elif tensor.dim() != (3 if _STACK.search(key) else 2) or not _finite(tensor):
            kind = str(tensor.dtype).removeprefix("torch.")
            problems.append(f"{key}: wanted a matrix of finite floating-point numbers, it is {kind} {list(tensor.shape)}")
        else:
            sides.setdefault(found["module"], {})[found["side"]] = tensor
    pairs: dict[Place, tuple[str, Pair]] = {}
    for module, both in sides.items():
        place = place_of(module, sizes, targets)
        if isinstance(place, str):
            problems.append(f"{module}: {place}")
        elif place in pairs:
            problems.append(f"{module}: the same as {pairs[place][0]}")
        elif len(both) != 2:
            problems.append(f"{module}: it has only lora_{next(iter(both))}")
        elif problem := _rank_problem(module, place, both, helper, sizes):
            problems.append(problem)
        else:
            _, scaling = helper.get_rank_and_scaling(module)
            a, b = both["A"], both["B"]
            pairs[place] = module, (a, b if scaling == 1 else (b.float() * scaling).to(b.dtype))
    return pairs, problems


def _finite(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() and bool(tensor.isfinite().all())


def _rank_problem(module: str, place: Place, both: dict[str, torch.Tensor], helper: Any, sizes: Sizes) -> str | None:
    rank, _ = helper.get_rank_and_scaling(module)
    joined = place.module.startswith(("mlp.experts.", "mlp.shared_experts.")) and place.expert is None and not place.stacked
    if joined:
        rank *= sizes.experts if place.module.startswith("mlp.experts.") else sizes.sinks
    given = both["A"].shape[-2], both["B"].shape[-1]
    if given == (rank, rank):
        return None
    return f"{module}: A has {given[0]} rows and B {given[1]} columns, its config says rank {rank}"
