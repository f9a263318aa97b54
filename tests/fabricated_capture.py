"""A capture made up from real shapes: the real tokenizer's ids, real spans, and routing whose every number is known.

Stands in for an engine where only the reading side is under test. The routing has structure a reader can recognise: each modality
prefers its own experts, and sinks take more of the framing tokens.
"""

from __future__ import annotations

import numpy as np

from engine.protocol import (
    ArrayEntry,
    AudioPlace,
    CaptureManifest,
    ImagePlace,
    ImageRule,
    Media,
    Rendered,
    Span,
    TextPlace,
)  # fmt: skip
from workbench.captures import Capture

ROUTE_SCALE = 2.0
PAGES = (
    "Harbour report. The ferry leaves the north quay at seven, and again at noon. Dues are paid at the yellow office. ",
    "Berths four to nine are closed for dredging until the spring. Visiting boats moor along the outer wall instead. ",
)


def rendered(*, repeat: int = 1, audio_s: float = 3.0, image_px: tuple[int, int] = (380, 260)) -> Rendered:
    """A context of two document pages, one image, one recording and a question, each framed as the chat format does."""
    from tml_renderers import tokenizers

    tokenizer = tokenizers.O200kBaseChatTokenizer()
    special = {name: tokenizer.encode_special(name) for name in ("message_user", "content_text", "end_message", "message_model")}
    ids: list[int] = []
    spans: list[Span] = []
    media: list[Media] = []
    grid = ImageRule(upscale=None).grid(*image_px)

    def put(tokens, label, modality, *, part=None, message=0, locator=None):
        start = len(ids)
        ids.extend(tokens)
        spans.append(Span(start=start, stop=len(ids), part=part, label=label, modality=modality, message=message, locator=locator))

    def frame(message, kind):
        put([special["message_user"], kind], "role", "framing", message=message)

    frame(0, special["content_text"])
    for page, text in enumerate(PAGES, start=1):
        text = text * repeat
        put(
            tokenizer.encode_ordinary(text), f"harbour.pdf, page {page}", "text", part="sha256:doc", message=0,
            locator=TextPlace(start=0, stop=len(text), page=page),
        )  # fmt: skip
    put([special["end_message"]], "end", "framing", message=0)
    frame(1, 200005)
    media.append(Media(kind="image", blob="sha256:" + "1" * 64, start=len(ids), tokens=grid.tokens))
    put([200054] * grid.tokens, "chart.png", "image", part="sha256:image", message=1, locator=ImagePlace(grid=grid))
    put([special["end_message"]], "end", "framing", message=1)
    frame(2, 200020)
    frames = round(audio_s * 20)
    media.append(Media(kind="audio", blob="sha256:" + "2" * 64, start=len(ids), tokens=frames))
    put([200053] * frames, "call.wav", "audio", part="sha256:audio", message=2, locator=AudioPlace(start_s=0, stop_s=audio_s))
    put([200043, special["end_message"]], "end", "framing", message=2)
    frame(3, special["content_text"])
    question = "Which code is spoken in the call?"
    put(
        tokenizer.encode_ordinary(question), "question", "text", part="question", message=3,
        locator=TextPlace(start=0, stop=len(question)),
    )  # fmt: skip
    put([special["end_message"], special["message_model"]], "end", "framing", message=3)
    return Rendered(
        token_ids=np.asarray(ids, np.uint32), spans=tuple(spans), media=tuple(media), image_rule=ImageRule(upscale=None)
    )


def routing_arrays(context: Rendered, *, layers: int, experts: int, top_k: int, sinks: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Expert ids, weights and sink weights whose sum is ``ROUTE_SCALE`` for every token and layer."""
    rng = np.random.default_rng(seed)
    tokens = len(context)
    kind = np.empty(tokens, np.int64)
    for span in context.spans:
        kind[span.start : span.stop] = ("text", "image", "audio", "framing").index(span.modality)
    preference = rng.normal(0, 1.6, (4, layers, experts)).astype(np.float32)
    expert = np.empty((tokens, layers, top_k), np.uint16)
    weight = np.empty((tokens, layers, top_k), np.float32)
    sink = np.empty((tokens, layers, sinks), np.float32)
    for at in range(0, tokens, 65_536):
        rows = slice(at, min(at + 65_536, tokens))
        logits = preference[kind[rows]] + rng.normal(0, 1, (len(kind[rows]), layers, experts)).astype(np.float32)
        chosen = np.argsort(-logits, axis=-1)[..., :top_k]
        score = 1 / (1 + np.exp(-np.take_along_axis(logits, chosen, -1)))
        drawn = rng.uniform(0.2, 0.7, (len(kind[rows]), layers, sinks)) * np.where(kind[rows] == 3, 2.0, 1.0)[:, None, None]
        scale = ROUTE_SCALE / (score.sum(-1, keepdims=True) + drawn.sum(-1, keepdims=True))
        expert[rows], weight[rows], sink[rows] = chosen, score * scale, drawn * scale
    return {"routing.expert": expert, "routing.weight": weight, "routing.sink": sink}


def capture(
    context: Rendered | None = None,
    *,
    layers: int = 5,
    experts: int = 16,
    top_k: int = 2,
    sinks: int = 2,
    missing: slice | None = None,
) -> Capture:
    """A capture over `context`; `missing` leaves those tokens unwritten, as an engine that died does."""
    context = rendered() if context is None else context
    arrays = routing_arrays(context, layers=layers, experts=experts, top_k=top_k, sinks=sinks)
    covered = len(context)
    if missing is not None:
        for array in arrays.values():
            array[missing] = 0
        covered -= len(range(*missing.indices(len(context))))
    entries = {
        name: ArrayEntry(dims=("t", "l", name[-1] if name.endswith("sink") else "k"), shape=array.shape, dtype=str(array.dtype))
        for name, array in arrays.items()
    }
    entries["routing.sink"] = entries["routing.sink"].model_copy(update={"dims": ("t", "l", "s")})
    manifest = CaptureManifest(
        id="c-1", context=context.id, plan={"routing": True}, tokens=len(context), arrays=entries,
        layers={"routing": list(range(1, layers + 1))}, covered_tokens=covered, complete=missing is None,
        provenance={
            "model": "fabricated", "revision": "none", "random_weights": True, "seed": 0,
            "architecture": {"experts": experts, "layers": layers + 1}, "versions": {"numpy": np.__version__},
        },
    )  # fmt: skip
    return Capture.from_folder_reader(manifest, lambda name, start, stop: arrays[name][start:stop], context)
