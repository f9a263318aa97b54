"""What an engine is and can do: the answer of ``/workbench/info``, and what a client works out about a plain vLLM server."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from .adapters import AdapterSupport
from .images import DEFAULT_IMAGE_RULE, ImageRule

API_VERSION = 3
"""Version of the ``/workbench`` routes; client and kernel must agree."""


class Limits(BaseModel):
    """Limits an engine enforces, in tokens unless the name says otherwise.

    ``context_tokens`` bounds prompt plus reserved answer; ``requests`` and ``captures`` are how many may run or wait at once, for
    all clients together, and ``requests_per_client`` for one: one more is refused, and says so. ``blobs_bytes``, ``contexts_bytes``
    and ``captures_bytes`` are what may lie on disk: what nobody used for longest gives way, and only then something is refused.
    """

    model_config = ConfigDict(frozen=True)

    context_tokens: int
    audio_clip_tokens: int = 12_000
    images_per_request: int | None = None
    audios_per_request: int | None = None
    blob_bytes: int = 1 << 30
    requests: int = 64
    requests_per_client: int = 48
    captures: int = 16
    body_bytes: int = 256 << 20
    blobs_bytes: int = 64 << 30
    contexts_bytes: int = 16 << 30
    captures_bytes: int = 128 << 30


class Seam(BaseModel):
    """Whether a seam can fire in the running mode, and why not.

    Attributes
    ----------
    modes : dict of str to str
        What holds in each mode an engine can run in: ``cpu``, ``gpu-eager``, ``gpu-graphs``.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    fires: bool
    reason: str | None = None
    modes: dict[str, str] = {}


class Architecture(BaseModel):
    """Sizes a capture or a figure needs to know; 0 where an engine does not tell.

    Attributes
    ----------
    heads : int
        Query heads of a layer, all ranks together; `kv_heads` of a global and `local_kv_heads` of a local layer.
    window, extent : int
        Keys a local layer sees; distance up to which a global layer has a relative bias. Tokens.
    profiles : int
        Distance profiles in a layer's bank (`r`).
    conv_taps : int
    log_floor : int
        Position from which queries and bias of global layers grow with it.
    draft_layers : int
        Draft heads that run; 0 on an engine that does not draft.
    """

    model_config = ConfigDict(frozen=True)

    layers: int
    global_layers: tuple[int, ...]
    moe_layers: tuple[int, ...]
    experts: int
    experts_per_token: int
    sinks: int
    hidden: int
    vocabulary: int
    heads: int = 0
    kv_heads: int = 0
    local_kv_heads: int = 0
    head_dim: int = 0
    window: int = 0
    extent: int = 0
    profiles: int = 0
    conv_taps: int = 0
    log_floor: int = 0
    draft_layers: int = 0

    def layers_called(self, word: str) -> tuple[int, ...]:
        """Layers that a selector's word stands for: ``all``, ``global`` or ``local``."""
        if word == "all":
            return tuple(range(self.layers))
        return tuple(layer for layer in range(self.layers) if (layer in self.global_layers) == (word == "global"))


class EngineInfo(BaseModel):
    """Identity, limits and abilities of one engine.

    Attributes
    ----------
    kind : {"workbench", "vllm"}
        ``vllm`` is a plain server: chat and counting work, internals do not.
    seams, interventions : tuple of Seam
        What can be captured, and what can be changed (:mod:`engine.protocol.interventions`), with the reason where not.
    nonce : str
        Changes with every start; a discovery file with another nonce is stale.
    random_weights : bool
        The checkpoint was never trained: answers are noise, and say so.
    memory : dict
        As vLLM counts it: ``weights_bytes`` and ``cache_bytes`` of each rank, ``cache_blocks``, ``cache_tokens`` (of one request at
        the longest context) and ``cache_requests`` (at that context, a fraction).
    supervised : bool
        It is started again when it dies, at the same address and with the same token; and when asked to.
    mode : {"cpu", "gpu-eager", "gpu-graphs", ""}
        How it computes; decides which seams fire.
    """

    model_config = ConfigDict(frozen=True)

    kind: Literal["workbench", "vllm"]
    api_version: int = API_VERSION
    nonce: str = ""
    recipe: str | None = None
    model: str
    revision: str | None = None
    random_weights: bool = False
    limits: Limits
    upscale: float | None = DEFAULT_IMAGE_RULE.upscale
    upscale_cap_px: int = DEFAULT_IMAGE_RULE.cap_px
    patch_px: int = DEFAULT_IMAGE_RULE.patch_px
    architecture: Architecture | None = None
    mode: str = ""
    seams: tuple[Seam, ...] = ()
    adapters: AdapterSupport = AdapterSupport()
    interventions: tuple[Seam, ...] = ()
    versions: dict[str, str] = {}
    engine_args: dict[str, Any] = {}
    memory: dict[str, Any] = {}
    started_by: str | None = None
    started_at: str | None = None
    supervised: bool = False

    @property
    def image_rule(self) -> ImageRule:
        """The resize and patch rule this engine runs."""
        return ImageRule(upscale=self.upscale, cap_px=self.upscale_cap_px, patch_px=self.patch_px)

    def seam(self, name: str) -> Seam:
        """The seam called `name`; one that an engine does not list cannot fire there."""
        return self._named(name, self.seams, "capture seams")

    def intervention(self, name: str) -> Seam:
        """Whether what is called `name` can be changed here; what an engine does not list cannot."""
        return self._named(name, self.interventions, "interventions")

    def _named(self, name: str, listed: tuple[Seam, ...], what: str) -> Seam:
        for seam in listed:
            if seam.name == name:
                return seam
        why = f"a plain vLLM server has no {what}" if self.kind == "vllm" else "this engine does not have it"
        return Seam(name=name, fires=False, reason=why)
