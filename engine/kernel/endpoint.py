"""Our routes in vLLM's form for endpoint plugins: used by our own launcher, and mountable in a server that someone else starts.

``vllm.endpoint_plugins`` wants an object with a name, the tasks it needs, and two hooks: one adds routes, one is given the
engine. A server started without our launcher has no token of ours; it must bring its own guard.
"""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..protocol.presence import KernelSettings
from .adapters import AdapterStore
from .blobs import BlobStore
from .contexts import Bounds, ContextStore
from .describe import describe, framing_of, unsupported_fields
from .jobs import CaptureJobs
from .media import media_counter
from .state import KernelState
from .token_bytes import TokenBytes
from .turns import Turns

if TYPE_CHECKING:
    from fastapi import FastAPI


class WorkbenchEndpoint:
    """The ``/workbench`` routes as a plugin.

    Parameters
    ----------
    settings : KernelSettings
        From our launcher, or from whoever mounts the routes elsewhere.
    """

    name = "inkling_workbench"
    required_tasks = ("generate",)

    def __init__(self, settings: KernelSettings) -> None:
        self._settings = settings

    def attach_router(self, app: FastAPI) -> None:
        """Add our routes to vLLM's application."""
        from .routes import attach

        attach(app)

    async def init_state(self, engine_client: Any, state: Any, args: Namespace) -> None:
        """Make what the routes share; called once the engine is up."""
        models = getattr(state, "openai_serving_models", None)
        state.workbench = await make_state(engine_client, self._settings, args=args, models=models)


async def make_state(llm: Any, settings: KernelSettings, *, args: Namespace, models: Any = None) -> KernelState:
    """The kernel's state around a running engine."""
    home = Path(settings.home)
    adapters = AdapterStore(llm, [Path(folder) for folder in settings.adapters], Path(settings.run) / "adapters", models=models)
    info = (await describe(llm, settings, args)).model_copy(update={"adapters": adapters.support()})
    limits = info.limits
    blobs = BlobStore(home / "blobs", limit_bytes=limits.blob_bytes, total_bytes=limits.blobs_bytes)
    tokenizer = llm.renderer.get_tokenizer()
    framing = framing_of(tokenizer)
    bounds = Bounds(
        limit_tokens=info.limits.context_tokens, vocabulary=len(tokenizer), framing=framing, image_rule=info.image_rule,
        media_tokens=media_counter(blobs, info.image_rule),
    )  # fmt: skip
    return KernelState(
        llm=llm, info=info, blobs=blobs, framing=framing,
        contexts=ContextStore(home / "contexts", bounds, total_bytes=limits.contexts_bytes),
        table=TokenBytes(tokenizer), unsupported=unsupported_fields(llm.vllm_config),
        jobs=CaptureJobs(home / "captures" / settings.nonce), adapters=adapters, log=str(Path(settings.run) / "kernel.log"),
        turns=Turns(llm.vllm_config.scheduler_config.max_num_seqs),
    )  # fmt: skip
