"""The codecs round-trip, and what is malformed is refused by name."""

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from engine.errors import BadRequest, ContextTooLong, InklingError, RequestFailed, from_json
from engine.protocol import (
    CapturePlan,
    Done,
    ImageRule,
    Media,
    PrefillProgress,
    Reasoning,
    Rendered,
    Reply,
    Span,
    Text,
    Timings,
    TokenLogprob,
    ToolCall,
    Usage,
)
from engine.protocol.wire import CaptureBody, event_from_json, event_to_json, pack_context, unpack_context

IDS = arrays(np.uint32, st.integers(1, 200), elements=st.integers(0, 201_023))


def rendered(ids: np.ndarray, *, media: bool = False) -> Rendered:
    span = Span(start=0, stop=len(ids), part=None, label="all", modality="text", message=0)
    items = (Media(kind="image", blob="sha256:" + "0" * 64, start=0, tokens=1),) if media else ()
    return Rendered(token_ids=ids, spans=(span,), media=items, image_rule=ImageRule(upscale=None))


@given(IDS, st.booleans())
def test_context_frame_round_trips(ids: np.ndarray, media: bool) -> None:
    source = rendered(ids, media=media)
    header, back = unpack_context(pack_context(source))
    np.testing.assert_array_equal(back, ids)
    assert (header.id, header.media_items(), header.image_rule) == (source.id, source.media, source.image_rule)


@given(IDS, st.data())
def test_a_base_shortens_the_ids_only(ids: np.ndarray, data: st.DataObject) -> None:
    keep = data.draw(st.integers(0, len(ids)))
    base = "sha256:" + "1" * 64
    header, back = unpack_context(pack_context(rendered(ids), base=base, base_tokens=keep))
    np.testing.assert_array_equal(back, ids[keep:])
    assert (header.base, header.base_tokens, header.id) == (base, keep, rendered(ids).id)


@given(st.binary(max_size=64))
def test_anything_else_is_refused(junk: bytes) -> None:
    with pytest.raises(BadRequest):
        unpack_context(junk)


def test_a_cut_frame_is_refused() -> None:
    frame = pack_context(rendered(np.arange(5)))
    for cut in (9, len(frame) - 1):
        with pytest.raises(BadRequest):
            unpack_context(frame[:cut])


def test_the_id_depends_on_ids_media_and_rule() -> None:
    plain = rendered(np.arange(5))
    other_rule = Rendered(token_ids=plain.token_ids, spans=plain.spans, image_rule=ImageRule())
    assert len({plain.id, rendered(np.arange(1, 6)).id, rendered(np.arange(5), media=True).id, other_rule.id}) == 4


REPLY = Reply(
    text="né", reasoning="hm", tool_calls=(ToolCall(name="f", arguments={"x": 1}, raw="{}"),),
    token_ids=np.asarray([1, 2], np.uint32),
    usage=Usage(prompt_tokens=3, cached_tokens=1, completion_tokens=2, drafted=(5, 4), accepted=(3, 1)),
    timings=Timings(first_token_s=0.1, total_s=0.2), finish_reason="stop", context="sha256:x", request_id="r",
    logprobs=(TokenLogprob(token_id=1, logprob=-0.5, alternatives={1: -0.5, 7: -2.0}),), notices=("n",), provenance={"m": "d"},
)  # fmt: skip


@pytest.mark.parametrize(
    "event",
    [PrefillProgress(done_tokens=1, total_tokens=2), Text(text="a", token_ids=(1, 2)), Reasoning(text="b"), REPLY.tool_calls[0],
     Done(reply=REPLY)],
)  # fmt: skip
def test_events_round_trip(event: object) -> None:
    name, data = event_to_json(event)  # type: ignore[arg-type]
    back = event_from_json(name, json.loads(json.dumps(data)))
    if isinstance(event, Done):
        assert isinstance(back, Done)
        one, two = ({f.name: getattr(r, f.name) for f in dataclasses.fields(r)} for r in (event.reply, back.reply))
        np.testing.assert_array_equal(one.pop("token_ids"), two.pop("token_ids"))
        assert one == two
    else:
        assert back == event


def test_plans() -> None:
    assert CaptureBody(context="c", plan={"routing": True}).capture_plan() == CapturePlan(routing=True)
    for bad in ({}, {"routing": False}, {"colour": True}, {"attention": {"where": 1}}):
        with pytest.raises(BadRequest):
            CaptureBody(context="c", plan=bad).capture_plan()


def test_errors_keep_their_class_over_http() -> None:
    error = from_json(ContextTooLong("too long", limit_tokens=5).to_json())
    assert isinstance(error, ContextTooLong)
    assert error.detail == {"limit_tokens": 5}
    assert isinstance(from_json({"code": "never heard of"}), RequestFailed)


def test_error_codes_are_unique() -> None:
    def tree(cls: type[InklingError]) -> list[type[InklingError]]:
        return [cls] + [c for child in cls.__subclasses__() for c in tree(child)]

    import workbench.errors  # noqa: F401  (adds its branch to the tree)

    codes = [cls.code for cls in tree(InklingError)]
    assert len(codes) == len(set(codes))
