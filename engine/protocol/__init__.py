"""What crosses between workbench, client and kernel: one vocabulary for all three.

Imports nothing from them. Index letters everywhere: ``t`` token, ``l`` layer, ``h`` head, ``e`` expert, ``k`` rank in top-k,
``s`` sink, ``c`` channel, ``b`` bucket.
"""

from .adapters import AdapterInfo, AdapterSupport
from .captures import CAPTURE_LAYOUT, ArrayEntry, CaptureCost, CaptureJob, CaptureManifest
from .framing import DEFAULT_EFFORT, EFFORTS, MAX_EFFORT, FramingIds
from .images import DEFAULT_IMAGE_RULE, ImageRule, PatchGrid
from .info import API_VERSION, Architecture, EngineInfo, Limits, Seam
from .interventions import (
    INTERVENTION_SEAMS,
    BanExperts,
    DropLogScaling,
    ForceExperts,
    Intervention,
    MaskModality,
    MaskSpan,
    ReweightExperts,
    ScaleBias,
    ScaleSconv,
    ScaleSinks,
    StretchBias,
)  # fmt: skip
from .plans import ADDITIONS, SEAMS, SITES, AttentionPlan, CapturePlan, DraftsPlan, ResidualPlan, RoutingPlan, SconvPlan
from .rendered import Media, Rendered, context_id
from .replies import (
    Done,
    Event,
    FinishReason,
    PrefillProgress,
    Reasoning,
    Reply,
    Sampling,
    Text,
    Timings,
    TokenLogprob,
    ToolCall,
    Usage,
)
from .reuse import PartReuse, Reuse
from .selectors import TokenRange
from .span_json import span_from_json, span_to_json
from .spans import (
    AUDIO_TOKENS_PER_S,
    AudioPlace,
    ImagePlace,
    Locator,
    Modality,
    Span,
    TextPlace,
    check_partition,
    span_at,
    tokens_by_modality,
)  # fmt: skip

__all__ = [
    "ADDITIONS", "API_VERSION", "AUDIO_TOKENS_PER_S", "AdapterInfo", "AdapterSupport", "Architecture", "ArrayEntry",
    "AttentionPlan", "AudioPlace", "BanExperts", "CAPTURE_LAYOUT", "CaptureCost", "CaptureJob", "CaptureManifest",
    "CapturePlan", "DEFAULT_EFFORT", "DEFAULT_IMAGE_RULE", "Done", "DraftsPlan", "DropLogScaling", "EFFORTS", "EngineInfo", "Event",
    "FinishReason", "ForceExperts", "FramingIds", "INTERVENTION_SEAMS", "ImagePlace", "ImageRule", "Intervention", "Limits",
    "Locator", "MAX_EFFORT", "MaskModality", "MaskSpan", "Media", "Modality", "PartReuse", "PatchGrid", "PrefillProgress",
    "Reasoning", "Rendered", "Reply", "ResidualPlan", "Reuse", "ReweightExperts", "RoutingPlan", "SEAMS", "SITES", "Sampling",
    "ScaleBias", "ScaleSconv", "ScaleSinks", "SconvPlan", "Seam", "Span", "StretchBias", "Text", "TextPlace", "Timings",
    "TokenLogprob", "TokenRange", "ToolCall", "Usage", "check_partition", "context_id", "span_at", "span_from_json",
    "span_to_json", "tokens_by_modality",
]  # fmt: skip
