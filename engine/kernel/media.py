"""Media of a context: from blobs to what vLLM's multimodal processor is given, and how many placeholders it will write.

Images travel as PNG, recordings as WAV (float32, 16 kHz, mono): the composer converts once, so that what runs is what was counted.
Counting reads headers only. This module knows the shape of vLLM's prompt dictionary and nothing else of vLLM.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import BadRequest
from ..protocol import ImageRule, Media
from .blobs import BlobStore
from .contexts import StoredContext

AUDIO_RATE_HZ = 16_000
AUDIO_HOP_SAMPLES = 800
"""50 ms at 16 kHz: one token."""


def media_counter(blobs: BlobStore, rule: ImageRule) -> Callable[[str, str], int]:
    """A function from kind and blob to placeholder tokens, by `rule` and by the dMel rate."""

    def count(kind: str, blob: str) -> int:
        path = blobs.use(blob)
        if kind == "image":
            return rule.grid(*_image_size_px(path, blob)).tokens
        return -(-_audio_samples(path, blob) // AUDIO_HOP_SAMPLES)

    return count


def collapse(context: StoredContext) -> list[int]:
    """The ids with each run of placeholders taken out: vLLM expands the bare markers itself.

    Examples
    --------
    >>> from engine.protocol import Media
    >>> ids = np.array([1, 200005, 200054, 200054, 2], dtype=np.uint32)
    >>> media = (Media(kind="image", blob="sha256:0", start=2, tokens=2),)
    >>> collapse(StoredContext(id="", token_ids=ids, media=media, image_rule=ImageRule()))
    [1, 200005, 2]
    """
    keep = np.ones(len(context.token_ids), dtype=bool)
    for item in context.media:
        keep[item.start : item.start + item.tokens] = False
    return context.token_ids[keep].tolist()


def vllm_prompt(context: StoredContext, blobs: BlobStore, *, cache_salt: str | None = None) -> dict[str, Any]:
    """The prompt for vLLM's renderer: collapsed ids, decoded media, and the names its caches know the media by.

    Cost: decodes every blob; call it off the event loop.
    """
    prompt: dict[str, Any] = {"prompt_token_ids": collapse(context)}
    if cache_salt:
        prompt["cache_salt"] = cache_salt
    data: dict[str, list[Any]] = {}
    names: dict[str, list[str]] = {}
    for item in context.media:
        content = blobs.read(item.blob)
        decoded = _image(content, item.blob) if item.kind == "image" else _audio(content, item.blob)
        data.setdefault(item.kind, []).append(decoded)
        names.setdefault(item.kind, []).append(cache_name(item, context.image_rule))
    if data:
        prompt |= {"multi_modal_data": data, "multi_modal_uuids": names}
    return prompt


def cache_name(item: Media, rule: ImageRule) -> str:
    """What vLLM's caches know a media item by: the same image under another resize rule is another input."""
    return item.blob.removeprefix("sha256:") + (f"-{rule.id}" if item.kind == "image" else "")


def _image_size_px(path: Path, blob: str) -> tuple[int, int]:
    from PIL import Image

    try:
        with warnings.catch_warnings(), Image.open(path, formats=["PNG"]) as image:
            warnings.simplefilter("error")  # Pillow only warns about sizes it thinks an attack
            return image.size
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError, Image.DecompressionBombWarning) as problem:
        raise BadRequest(f"blob {blob[:19]}… is not a readable PNG: {problem}", blob=blob) from problem


def _audio_samples(path: Path, blob: str) -> int:
    import soundfile

    try:
        info = soundfile.info(str(path))
    except soundfile.LibsndfileError as problem:
        raise BadRequest(f"blob {blob[:19]}… is not a readable WAV: {problem}", blob=blob) from problem
    if (info.format, info.samplerate, info.channels) != ("WAV", AUDIO_RATE_HZ, 1) or not info.frames:
        given = f"{info.format}, {info.samplerate} Hz, {info.channels} channels, {info.frames} samples"
        raise BadRequest(f"blob {blob[:19]}… is {given}; wanted: WAV, 16000 Hz, mono, at least one sample", blob=blob)
    return info.frames


def _image(content: bytes, blob: str) -> Any:
    from PIL import Image

    try:
        image = Image.open(io.BytesIO(content), formats=["PNG"])
        image.load()
    except (OSError, ValueError, SyntaxError) as problem:
        raise BadRequest(f"blob {blob[:19]}… is not a readable PNG: {problem}", blob=blob) from problem
    return image.convert("RGB")


def _audio(content: bytes, blob: str) -> NDArray[np.float32]:
    import soundfile

    try:
        samples, _ = soundfile.read(io.BytesIO(content), dtype="float32")
    except soundfile.LibsndfileError as problem:
        raise BadRequest(f"blob {blob[:19]}… is not a readable WAV: {problem}", blob=blob) from problem
    return np.asarray(samples, dtype=np.float32)
