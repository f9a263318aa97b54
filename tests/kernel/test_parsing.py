"""The reply parser against the model makers' own, token by token, and on what theirs refuses."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tml_renderers import chat, tokenizers, v0

import engine.demo
from engine.kernel.describe import framing_of
from engine.kernel.parsing import NOT_FRAMED, STRAY_CONTROL, ReplyParser
from engine.kernel.token_bytes import TextStream, TokenBytes
from engine.protocol import Reasoning, Text, ToolCall

TML = tokenizers.O200kBaseChatTokenizer()
S, E = TML.encode_special, TML.encode_ordinary
MODEL, END, STOP = S("message_model"), S("end_message"), S("content_model_end_sampling")
CALL = S("content_invoke_tool_json")


@pytest.fixture(scope="module")
def hf(places):
    """The checkpoint's tokenizer, as vLLM loads it."""
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(tokenizer_file=str(engine.demo.unpack() / "tokenizer.json"))


@pytest.fixture(scope="module")
def table(hf) -> TokenBytes:
    return TokenBytes(hf)


@pytest.fixture(scope="module")
def parse(hf, table):
    """From ids to a closed parser, fed `step` ids at a time, and its events."""

    def run(ids, step=1):
        parser = ReplyParser(framing_of(hf), table)
        events = [event for at in range(0, len(ids), step) for event in parser.feed(ids[at : at + step])]
        return parser, events + parser.close()

    return run


def oracle(ids):
    """What tml-renderers reads in a complete sample: text, thinking, calls as (name, arguments)."""
    _, parser = v0.Renderer(TML).render_for_completion([chat.Message(chat.Text("hi"), chat.Author(chat.AuthorKind.User))])
    text, thinking, calls = "", "", []
    for message in parser.parse_tokens(list(ids)):
        match message.content:
            case chat.Text() as content:
                text += content.text
            case chat.Thinking() as content:
                thinking += content.text
            case chat.InvokeTool() as content:
                calls.append((content.name, {arg.name: json.loads(arg.value) for arg in content.args}))
    return text, thinking, calls


def test_every_tokens_bytes_are_the_official_tokenizers(table: TokenBytes) -> None:
    ordinary = range(S("endoftext"))
    assert [table[i] for i in ordinary] == [TML.decode_bytes([i]) for i in ordinary]
    assert all(table.is_special(i) for i in range(S("endoftext"), S("content_invoke_tool_text") + 1))


@given(st.text(max_size=40))
@settings(max_examples=200, deadline=None)
def test_streamed_text_is_the_text_and_every_piece_is_whole(table: TokenBytes, text: str) -> None:
    stream, ids = TextStream(table), E(text)
    pieces = [stream.add(i) for i in ids] + [stream.close()]
    assert "".join(piece for piece, _ in pieces) == text
    assert [i for _, taken in pieces for i in taken] == ids


arguments = st.dictionaries(
    st.text("abc", min_size=1, max_size=3), st.integers(-(2**63), 2**63 - 1) | st.text(max_size=8), max_size=3
)
blocks = st.lists(
    st.one_of(
        st.tuples(st.just("content_text"), st.text(min_size=1, max_size=20)),
        st.tuples(st.just("content_thinking"), st.text(min_size=1, max_size=20)),
        st.tuples(st.just("call"), arguments),
    ),
    min_size=1, max_size=4,
)  # fmt: skip


def sample(parts) -> list[int]:
    """Ids a model would sample behind ``message_model`` for these messages."""
    messages = []
    for kind, payload in parts:
        if kind == "call":
            raw = json.dumps({"args": payload, "name": "f"}, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
            messages.append([*E("f"), CALL, *E(raw), END])
        else:
            messages.append([S(kind), *E(payload), END])
    return [i for number, ids in enumerate(messages) for i in ([MODEL] if number else []) + ids] + [STOP]


@given(blocks, st.integers(1, 7))
@settings(max_examples=150, deadline=None)
def test_complete_replies_read_as_the_official_parser_reads_them(parse, parts, step: int) -> None:
    ids = sample(parts)
    parser, events = parse(ids, step)
    calls = [(call.name, call.arguments) for call in parser.tool_calls]
    assert (parser.text, parser.reasoning, calls) == oracle(ids)
    assert not parser.notices
    assert "".join(event.text for event in events if isinstance(event, Text)) == parser.text
    assert "".join(event.text for event in events if isinstance(event, Reasoning)) == parser.reasoning


def test_integers_beyond_64_bits_stay_exact(parse) -> None:
    """The official parser reads these as floats (which is why the comparison above stays within 64 bits)."""
    large = -(2**63) - 1
    parser, _ = parse(sample([("call", {"a": large})]))
    assert parser.tool_calls[0].arguments == {"a": large}
    assert oracle(sample([("call", {"a": large})]))[2] == [("f", {"a": float(large)})]


def test_control_spellings_in_text_stay_text(parse) -> None:
    spelled = "see <|end_message|> and <|message_system|> in code"
    parser, _ = parse([S("content_text"), *E(spelled), END, STOP])
    assert parser.text == spelled
    assert not parser.notices


@pytest.mark.parametrize(
    ("payload", "problem"),
    [
        ('{"name":"f","args":{"u":"http://x&quot;}}', "not JSON"),
        ('{"name":"f","args":{"u":NaN}}', "not JSON: NaN"),
        ('{"name":"f","args":{"u":1,"u":2}}', "twice"),
        ('{"name":"f","args":[1]}', "object 'args'"),
        ('{"args":{}}', "'name'"),
        ("[]", "object"),
    ],
)
def test_an_unreadable_call_keeps_its_text_and_is_no_call(parse, payload: str, problem: str) -> None:
    parser, events = parse([*E("f"), CALL, *E(payload), END, STOP])
    (call,) = parser.tool_calls
    assert events == [call]
    assert call.arguments is None
    assert call.raw == payload
    assert problem in (call.problem or "")
    assert parser.text == ""


def test_a_call_that_was_cut_is_never_a_call_and_text_after_a_call_is_kept(parse) -> None:
    whole = [*E("f"), CALL, *E('{"args":{"x":1},"name":"f"}'), END]
    parser, events = parse([*whole, MODEL, S("content_text"), *E("done"), END, MODEL, *whole[:-3]])
    assert [type(event) for event in events if isinstance(event, ToolCall)] == [ToolCall, ToolCall]
    assert parser.text == "done"
    first, second = parser.tool_calls
    assert first.arguments == {"x": 1}
    assert second.arguments is None
    assert "ended before" in (second.problem or "")


def test_a_tools_name_is_not_shown_as_text(parse) -> None:
    parser, events = parse([*E("get_weather"), CALL, *E('{"args":{},"name":"get_weather"}'), END, STOP])
    assert [type(event) for event in events] == [ToolCall]
    assert parser.text == ""


def test_unframed_output_is_shown_at_once_and_noted(parse) -> None:
    ids = E(" no framing here, only words")
    parser, events = parse(ids)
    assert len(events) > 1
    assert parser.text == " no framing here, only words"
    assert parser.notices == [NOT_FRAMED]


def test_stray_control_tokens_in_text_are_shown_and_noted(parse) -> None:
    parser, _ = parse([S("content_text"), *E("a"), S("unused_200054"), *E("b"), END, STOP])
    assert parser.text == "a<|unused_200054|>b"
    assert parser.notices == [STRAY_CONTROL]


def test_an_answer_cut_in_the_middle_of_a_character_shows_that(parse) -> None:
    ids = next(ids for character in "𓂀🜁𐎀" if len(ids := E(character)) > 1)
    parser, _ = parse([S("content_text"), *E("x"), *ids[:-1]])
    assert parser.text.startswith("x")
    assert parser.text.endswith("�")
