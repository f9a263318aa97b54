"""Inkling's framing tokens by name, and the thinking efforts: the vocabulary both sides of the wire agree on.

Names are the model makers' own (``tml_renderers``' ``special_tokens()``); ids are always looked up in a tokenizer, never written
down here. This module does not know any tokenizer: the caller hands in a function from spelling or name to id.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

EFFORTS: dict[str, float] = {
    "none": 0.0, "minimal": 0.1, "low": 0.2, "medium": 0.7, "high": 0.9, "xhigh": 0.99, "max": 0.99,
}  # fmt: skip
"""Thinking efforts by name. The chat format carries the number."""

DEFAULT_EFFORT = 0.9
MAX_EFFORT = 0.99


@dataclass(frozen=True, slots=True)
class FramingIds:
    """Token ids of the framing tokens this project writes or reads; the field names are the tokens' names."""

    message_user: int
    message_model: int
    message_system: int
    message_tool: int
    content_text: int
    content_image: int
    content_model_end_sampling: int
    content_thinking: int
    end_message: int
    content_audio_input: int
    content_tool_error: int
    content_xml: int
    content_invoke_tool_json: int
    content_invoke_tool_text: int
    audio_end: int
    audio_slot: int
    image_slot: int

    @classmethod
    def lookup(cls, find: Callable[[str], int | None]) -> FramingIds:
        """Resolve every id through `find`, which is given a spelling such as ``<|end_message|>``.

        Raises
        ------
        LookupError
            A spelling is not in the tokenizer: it is not an Inkling tokenizer.
        """
        found: dict[str, int] = {}
        for field in fields(cls):
            ids = [i for i in (find(s) for s in SPELLINGS[field.name]) if i is not None]
            if not ids:
                raise LookupError(f"the tokenizer has none of {SPELLINGS[field.name]}: not an Inkling tokenizer")
            found[field.name] = ids[0]
        return cls(**found)

    def slots(self) -> dict[str, int]:
        """Placeholder id per modality: one per image patch, one per 50 ms audio frame."""
        return {"image": self.image_slot, "audio": self.audio_slot}


SPELLINGS: dict[str, tuple[str, ...]] = {field.name: (f"<|{field.name}|>",) for field in fields(FramingIds)} | {
    # The two placeholder slots carry no name of their own in the published vocabulary, and one kind was named late.
    "audio_slot": ("<|unused_200053|>", "<|audio_slot|>"),
    "image_slot": ("<|unused_200054|>", "<|image_slot|>"),
    "content_xml": ("<|content_xml|>", "<|unused_200024|>"),
}
