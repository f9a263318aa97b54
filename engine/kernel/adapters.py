"""Adapters while an engine runs: which there are, loading one, letting it go, and giving a request its own.

An adapter comes from a folder that was named when the engine started; no client's path is opened elsewhere. It is checked and
copied first (:mod:`.adapter_files`), then every worker loads the copy. Copies live as long as the kernel: a request that is
running when its adapter is unloaded finishes with it. Loaded adapters are also models of ``/v1``, under their names.

Lifetimes: one store per kernel. Numbers that vLLM knows adapters by are never used twice.
"""

from __future__ import annotations

import asyncio
import datetime
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import AdapterRefused, AdapterUnknown, FeatureUnsupported, RequestFailed
from ..protocol.adapters import NAME, OFF, AdapterInfo, AdapterList, AdapterSupport
from .adapter_files import CONFIG, CheckedAdapter, check_folder, refusal, write_for_vllm
from .adapter_names import Sizes


@dataclass(frozen=True, slots=True)
class Loaded:
    """A loaded adapter: what is known of it, and what vLLM is given with a request."""

    info: AdapterInfo
    request: Any


class AdapterStore:
    """The adapters of one engine.

    Parameters
    ----------
    llm : AsyncLLM
    folders : list of Path
        From which adapters may be loaded.
    copies : Path
        Where copies are kept; made when needed.
    models : OpenAIServingModels or None
        vLLM's list of what ``/v1`` serves.
    """

    def __init__(self, llm: Any, folders: list[Path], copies: Path, *, models: Any = None) -> None:
        self._llm, self._copies, self._models = llm, copies, models
        self._config = llm.vllm_config.lora_config
        self._folders = tuple(folder.resolve() for folder in folders)
        self._loaded: dict[str, Loaded] = {}
        self._changing = asyncio.Lock()
        self._numbers = 0

    def support(self) -> AdapterSupport:
        """Limits, and the names that are loaded now."""
        config = self._config
        if config is None:
            return AdapterSupport()
        return AdapterSupport(
            enabled=True, reason=None, max_rank=config.max_lora_rank, max_loaded=config.max_cpu_loras,
            max_per_step=config.max_loras, folders=tuple(map(str, self._folders)), loaded=tuple(self._loaded),
        )  # fmt: skip

    def list(self) -> AdapterList:
        """What is loaded, and the names in the folders that are not."""
        loaded = tuple(item.info for item in self._loaded.values())
        busy = {item.folder for item in loaded}
        found = (path.parent for folder in self._folders for path in sorted(folder.glob(f"*/{CONFIG}")))
        return AdapterList(loaded=loaded, available=tuple(path.name for path in found if str(path.resolve()) not in busy))

    def chosen(self, name: str | None, id: str | None = None) -> Loaded | None:
        """The adapter a request names; None is the model alone. With `id` it must be that one still.

        Raises
        ------
        FeatureUnsupported, AdapterUnknown
        RequestFailed
            The engine's own copy is gone: the step that opened it would end the engine.
        """
        if name is None:
            return None
        found = self._find(name)
        if id is not None and found.info.id != id:
            raise AdapterUnknown(
                f"the adapter that gave this reply was called {name!r} ({id[:19]}…); {found.info.id[:19]}… has that name now: load "
                "the first one under a name of its own and name it", adapter=name, id=id,
            )  # fmt: skip
        if not (Path(found.request.lora_path) / CONFIG).is_file():
            raise RequestFailed(f"the engine's copy of adapter {name!r} was removed from its disk: unload it and load it again")
        return found

    async def load(self, which: str, name: str | None = None) -> AdapterInfo:
        """Load an adapter.

        Parameters
        ----------
        which : str
            Its folder's name in one of the adapter folders, or its path on the engine's machine, inside one of them.
        name : str, optional
            What to call it; default: its folder's name.

        Raises
        ------
        FeatureUnsupported
            The engine runs without adapters.
        AdapterUnknown
            No such folder.
        AdapterRefused
            A bad adapter, a name that is taken, too many. Nothing has changed.
        """
        self._require_enabled()
        folder = self._folder(which)
        name = name or folder.name
        async with self._changing:
            self._check_name(name)
            config, parallel = self._llm.model_config, self._llm.vllm_config.parallel_config
            text = config.hf_config.get_text_config()
            sharded = parallel.tensor_parallel_size > min(text.num_key_value_heads, text.swa_num_key_value_heads)
            checked = await asyncio.to_thread(
                check_folder,
                folder,
                Sizes.of(text),
                max_rank=self._config.max_lora_rank,
                sharded_kv=sharded,
                shared_experts=self._config.enable_moe_shared_loras,
            )
            copy = self._copies / checked.id.removeprefix("sha256:")
            await asyncio.to_thread(_write_once, checked, copy)
            request = await self._give_to_workers(name, folder, copy)
            info = AdapterInfo(
                name=name, id=checked.id, rank=checked.rank, modules=checked.modules, parts=checked.parts,
                size_bytes=checked.size_bytes, folder=str(folder),
                loaded_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            )  # fmt: skip
            self._loaded[name] = Loaded(info, request)
            if self._models is not None:
                self._models.lora_requests[name] = request
        return info

    async def unload(self, name: str) -> AdapterInfo:
        """Let an adapter go; requests that run with it finish with it.

        Raises
        ------
        FeatureUnsupported, AdapterUnknown
        """
        async with self._changing:
            found = self._find(name)
            del self._loaded[name]
            if self._models is not None:
                self._models.lora_requests.pop(name, None)
            await self._llm.remove_lora(found.request.lora_int_id)
        return found.info

    def close(self) -> None:
        """Remove the copies; when the kernel ends."""
        shutil.rmtree(self._copies, ignore_errors=True)

    async def _give_to_workers(self, name: str, folder: Path, copy: Path) -> Any:
        from vllm.lora.request import LoRARequest

        self._numbers += 1
        base = self._models.base_model_paths[0].name if self._models is not None else None
        request = LoRARequest(name, self._numbers, str(copy), base_model_name=base)
        try:
            await self._llm.add_lora(request)
        except Exception as problem:
            if self._llm.errored:
                raise
            # What a worker has taken in of it must not stay half there.
            await self._llm.remove_lora(self._numbers)
            raise refusal(folder, f"vLLM refuses it: {problem}") from problem
        return request

    def _check_name(self, name: str) -> None:
        if not re.fullmatch(NAME, name):
            raise AdapterRefused(f"an adapter cannot be called {name!r}: letters, digits, '.', '_' and '-', at most 80", name=name)
        if name in self._loaded:
            raise AdapterRefused(f"an adapter called {name!r} is loaded: unload it first, or choose another name", name=name)
        if self._models is not None and self._models.is_base_model(name):
            raise AdapterRefused(f"{name!r} is the model's own name: choose another", name=name)
        if len(self._loaded) >= self._config.max_cpu_loras:
            raise AdapterRefused(
                f"{len(self._loaded)} adapters are loaded, as many as this engine holds: unload one of {', '.join(self._loaded)}",
                loaded=list(self._loaded),
            )

    def _folder(self, which: str) -> Path:
        """The folder that `which` names, links followed, if it lies in one of ours."""
        path = Path(which)
        tried = [path] if path.is_absolute() else [folder / which for folder in self._folders]
        for one in tried:
            real = one.resolve()
            if any(real.is_relative_to(folder) and real != folder for folder in self._folders) and real.is_dir():
                if outside := next((file for file in real.iterdir() if not self._inside(file.resolve())), None):
                    raise refusal(real, f"{outside.name} is a link out of the adapter folders")
                return real
        # Also for a path that exists elsewhere: what lies there is nobody's business.
        places = ", ".join(map(str, self._folders)) or "no folder at all"
        raise AdapterUnknown(
            f"no adapter {which!r}: adapters are loaded from {places}. There is {', '.join(self.list().available) or 'none'}",
            adapter=which, folders=list(map(str, self._folders)),
        )  # fmt: skip

    def _inside(self, path: Path) -> bool:
        return any(path.is_relative_to(folder) for folder in self._folders)

    def _find(self, name: str) -> Loaded:
        self._require_enabled()
        if name not in self._loaded:
            loaded = ", ".join(self._loaded) or "none"
            raise AdapterUnknown(f"no adapter called {name!r} is loaded: load it first. Loaded: {loaded}", adapter=name)
        return self._loaded[name]

    def _require_enabled(self) -> None:
        if self._config is None:
            raise FeatureUnsupported(OFF)


def _write_once(checked: CheckedAdapter, copy: Path) -> None:
    if copy.is_dir():
        return
    partial = copy.with_name(f".{copy.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    write_for_vllm(checked, partial)
    partial.replace(copy)
