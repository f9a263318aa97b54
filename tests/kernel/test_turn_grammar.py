"""The grammar of a turn, as xgrammar compiles it: which token sequences it lets through and which it does not."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from tml_renderers import tokenizers

import engine.demo
from engine.errors import BadRequest
from engine.kernel.describe import framing_of
from engine.kernel.forced import output_problem
from engine.kernel.launcher import environment
from engine.kernel.prompt_head import PromptHead, read_head
from engine.kernel.token_bytes import TokenBytes
from engine.kernel.turn_grammar import THINKING_TOKENS, DeclaredTool, TurnGrammar, check_tag, thinking_room
from engine.protocol.outputs import MAX_CALLS
from engine.protocol.presence import KernelSettings
from workbench import Context

TML = tokenizers.O200kBaseChatTokenizer()
S, E = TML.encode_special, TML.encode_ordinary
MODEL, END, STOP = S("message_model"), S("end_message"), S("content_model_end_sampling")
TEXT, THINKING, CALL = S("content_text"), S("content_thinking"), S("content_invoke_tool_json")

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}
WEATHER, ADD = DeclaredTool(name="get_weather", parameters=CITY), DeclaredTool(name="add")
POINT = {"type": "object", "properties": {"x": {"type": "integer"}, "on": {"type": "boolean"}}, "required": ["x", "on"]}

CACHE_ENV = "VLLM_XGRAMMAR_CACHE_MB"

Walk = Callable[[dict[str, Any] | None, Sequence[int]], bool]


@pytest.fixture(scope="module")
def hf(places):
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(
        tokenizer_file=str(engine.demo.unpack() / "tokenizer.json"), eos_token="<|content_model_end_sampling|>"
    )


@pytest.fixture(scope="module")
def grammar(hf) -> TurnGrammar:
    return TurnGrammar(framing_of(hf), TokenBytes(hf).special_ids())


@pytest.fixture(scope="module")
def vocabulary(hf) -> Any:
    import xgrammar

    return xgrammar.TokenizerInfo.from_huggingface(hf, vocab_size=len(hf))


def compiler_of(vocabulary: Any, cache_mb: int = int(environment(KernelSettings.model_construct(model="demo"))[CACHE_ENV])) -> Any:
    """A compiler as vLLM makes it, by default with the cache that the kernel gives it."""
    import xgrammar

    return xgrammar.GrammarCompiler(vocabulary, cache_enabled=True, cache_limit_bytes=cache_mb << 20)


@pytest.fixture(scope="module")
def whole(hf, vocabulary) -> Walk:
    """Whether a grammar lets a model write these ids and end there: every one is in the mask of what may be sampled, as in vLLM."""
    import xgrammar

    compiler = compiler_of(vocabulary)

    def walk(tag: dict[str, Any] | None, ids: Sequence[int]) -> bool:
        assert tag is not None
        matcher = xgrammar.GrammarMatcher(compiler.compile_structural_tag(check_tag(tag)), override_stop_tokens=[STOP])
        mask = xgrammar.allocate_token_bitmask(1, len(hf))

        def written(token: int) -> bool:
            matcher.fill_next_token_bitmask(mask)
            allowed = mask[0].numpy().view(np.uint32)[token // 32] >> (token % 32) & 1
            return bool(allowed) and matcher.accept_token(token)

        return all(written(token) for token in ids) and matcher.is_terminated()

    return walk


def said(text: str) -> list[int]:
    return [TEXT, *E(text), END]


def thought(text: str) -> list[int]:
    return [THINKING, *E(text), END, MODEL]


def called(name: str, arguments: str) -> list[int]:
    return [*E(name), CALL, *E(f'{{"name":"{name}","args":{arguments}}}'), END]


def test_a_required_call_is_one_of_the_declared_with_its_arguments(grammar: TurnGrammar, whole: Walk) -> None:
    tag = grammar.turn(tools=(WEATHER, ADD), choice="required")
    weather, add = called("get_weather", '{"city":"Oslo"}'), called("add", '{"a": 1}')
    assert whole(tag, [*weather, STOP])
    assert whole(tag, [*thought("which? this"), *add, STOP])
    assert whole(tag, [*weather, MODEL, *add, STOP]), "several calls in one turn"
    for ids in (
        [*said("no"), STOP], [STOP], [*thought("a"), *thought("b"), *add, STOP], [*thought("hm"), STOP],
        [*called("other", "{}"), STOP],
        [*called("get_weather", '{"town":"Oslo"}'), STOP], [*called("get_weather", "{}"), STOP], weather,
        [*weather, *said("x"), STOP],
    ):  # fmt: skip
        assert not whole(tag, ids), TML.decode(list(ids))


def test_a_named_tool_is_called_once_and_no_other(grammar: TurnGrammar, whole: Walk) -> None:
    """Elsewhere a named tool gave another one, five times of five."""
    tag, weather = grammar.turn(tools=(WEATHER, ADD), choice="get_weather"), called("get_weather", '{"city":"Rome"}')
    assert whole(tag, [*weather, STOP])
    assert not whole(tag, [*called("add", '{"a":2}'), STOP])
    assert not whole(tag, [*weather, MODEL, *weather, STOP])


def test_one_call_at_most_and_never_more_than_the_cap(grammar: TurnGrammar, whole: Walk) -> None:
    add = called("add", "{}")
    many = [*add, *[token for _ in range(MAX_CALLS - 1) for token in (MODEL, *add)]]
    assert whole(grammar.turn(tools=(ADD,), choice="required"), [*many, STOP])
    assert not whole(grammar.turn(tools=(ADD,), choice="required"), [*many, MODEL, *add, STOP]), "a model that calls for ever"
    single = grammar.turn(tools=(ADD,), parallel=False)
    assert whole(single, [*add, STOP])
    assert whole(single, [*said("none needed"), STOP])
    assert not whole(single, [*add, MODEL, *add, STOP])


def test_thinking_has_an_end(grammar: TurnGrammar, whole: Walk) -> None:
    """A model that does not want what it is held to would think for ever."""
    add = called("add", "{}")
    some, none = (grammar.turn(tools=(ADD,), choice="required", thinking_tokens=most) for most in (3, 0))
    assert whole(some, [THINKING, *[E("a")[0]] * 3, END, MODEL, *add, STOP])
    assert not whole(some, [THINKING, *[E("a")[0]] * 4, END, MODEL, *add, STOP])
    assert whole(none, [*add, STOP])
    assert not whole(none, [THINKING, END, MODEL, *add, STOP])


def test_half_of_an_answer_may_be_thinking_and_none_at_effort_none() -> None:
    assert [thinking_room(effort, 200) for effort in (0.99, 0.2, None, 0.0)] == [100, 100, 100, 0]
    assert thinking_room(0.9, 1) == 0
    assert thinking_room(0.9, None) == thinking_room(0.9, 10**6) == THINKING_TOKENS
    assert thinking_room(0.9, 200, budget=7) == 7


def beginnings(hf, compiler: Any, tag: dict[str, Any] | None) -> tuple[set[int], set[int]]:
    """Control tokens a turn may begin with: by the mask that vLLM samples under, and by the matcher that judges afterwards."""
    import xgrammar

    assert tag is not None
    matcher = xgrammar.GrammarMatcher(compiler.compile_structural_tag(check_tag(tag)), override_stop_tokens=[STOP])
    mask = xgrammar.allocate_token_bitmask(1, len(hf))
    matcher.fill_next_token_bitmask(mask)
    bits = np.unpackbits(mask[0].numpy().view(np.uint8), bitorder="little")
    kinds = {TEXT, THINKING, CALL}
    return {kind for kind in kinds if bits[kind]}, {kind for kind in kinds if matcher.fork().accept_token(kind)}


def test_one_grammar_is_not_masked_by_another(hf, vocabulary, grammar: TurnGrammar) -> None:
    """One engine compiles them all: free text, calls and formats, with thinking and without, one after the other."""
    compiler = compiler_of(vocabulary)
    options: list[dict[str, Any]] = [{"choice": "required"}, {"choice": "none"}, {"parallel": False}, {"output": {"json": POINT}}]
    for thinking_tokens in (None, 0, 40, None):
        for more in options:
            masked, taken = beginnings(hf, compiler, grammar.turn(tools=(ADD,), thinking_tokens=thinking_tokens, **more))
            assert masked == taken, (thinking_tokens, more)


def test_xgrammars_cache_still_takes_one_message_for_another(hf, vocabulary, grammar: TurnGrammar) -> None:
    """Mended upstream when this fails: then the kernel can leave xgrammar its cache (docs/upstream.md)."""
    compiler = compiler_of(vocabulary, cache_mb=512)
    assert beginnings(hf, compiler, grammar.turn(tools=(ADD,), choice="required")) == ({THINKING}, {THINKING})
    assert beginnings(hf, compiler, grammar.turn(tools=(ADD,), choice="none", thinking_tokens=0)) == ({THINKING}, {TEXT})


def test_none_leaves_text_only(grammar: TurnGrammar, whole: Walk) -> None:
    tag = grammar.turn(tools=(ADD,), choice="none")
    assert whole(tag, [*thought("hm"), *said('{"name":"add"}'), STOP])
    assert not whole(tag, [*called("add", "{}"), STOP])


@pytest.mark.parametrize(
    ("output", "good", "bad"),
    [
        ({"json": POINT}, ['{"x":1,"on":true}', '{ "x": -20,\n  "on": false }'], ['{"x":1}', '{"x":"1","on":true}', "x", ""]),
        ({"json": True}, ["{}", '{"a": [1, "\\u00e9"]}'], ["[]", "1", '{"a":}']),
        ({"regex": r"[A-C]\d{2}"}, ["A07", "C99"], ["D07", "A7", "A077"]),
        ({"choice": ["yes", "no", "<|end_message|>"]}, ["yes", "no", "<|end_message|>"], ["maybe", "ye", "yesno"]),
    ],
)
def test_a_text_is_what_was_asked_for(grammar: TurnGrammar, whole: Walk, output, good, bad) -> None:
    tag = grammar.turn(output=output)
    for text in good:
        assert whole(tag, [*said(text), STOP]), text
        assert whole(tag, [*thought(f"maybe {text}?"), *said(text), STOP]), "thinking first"
        assert output_problem(output, text, ended=True) is None
    for text in bad:
        assert not whole(tag, [*said(text), STOP]), text
        assert output_problem(output, text, ended=False)
    assert not whole(tag, E(good[0])), "without its marker it is no text"
    assert not whole(tag, [TEXT, *E(good[0]), MODEL, TEXT, *E("and more"), END, STOP]), "another message cannot be opened"


def test_text_cannot_hold_a_control_token(grammar: TurnGrammar, whole: Walk) -> None:
    tag = grammar.turn(tools=(ADD,), choice="none")
    assert whole(tag, [TEXT, *E("see <|message_system|>"), END, STOP]), "spelled out it is text"
    for token in (S("message_system"), S("content_image"), S("unused_200054"), CALL):
        assert not whole(tag, [TEXT, *E("a"), token, *E("b"), END, STOP])


def test_with_tools_an_output_may_be_a_call(grammar: TurnGrammar, whole: Walk) -> None:
    tag = grammar.turn(tools=(ADD,), output={"json": True})
    assert whole(tag, [*called("add", "{}"), STOP])
    assert whole(tag, [*said("{}"), STOP])
    assert not whole(tag, [*said("hello"), STOP])


def test_without_a_wish_there_is_no_grammar(grammar: TurnGrammar) -> None:
    assert grammar.turn() is None
    assert grammar.turn(tools=(ADD,)) is None
    assert grammar.turn(choice="none", parallel=False) is None


@pytest.mark.parametrize(
    ("wish", "says"),
    [
        ({"choice": "required"}, "declares no tools"),
        ({"choice": "sub", "tools": (ADD, WEATHER)}, "declared are add, get_weather"),
        ({"choice": "add", "tools": (ADD,), "output": {"json": True}}, "one of them"),
        ({"output": {"json": {"type": "nonsense"}}}, "not a JSON schema"),
        ({"output": {"json": {"type": "integer", "multipleOf": 3}}}, "cannot enforce"),
        ({"output": {"json": {"$ref": "http://example.org/schema"}}}, r"under \$defs"),
        ({"output": {"regex": "(["}}, "cannot be enforced"),
        ({"choice": "t", "tools": (DeclaredTool(name="t", parameters={"allOf": [{}, {}]}),)}, "tool 't'"),
    ],
)
def test_what_cannot_be_held_is_refused_with_the_reason(grammar: TurnGrammar, wish: dict[str, Any], says: str) -> None:
    with pytest.raises(BadRequest, match=says):
        grammar.turn(**wish)


def test_a_reference_to_nothing_is_refused(grammar: TurnGrammar) -> None:
    tag = grammar.turn(output={"json": {"$ref": "#/$defs/missing"}})
    assert tag is not None
    with pytest.raises(BadRequest, match="cannot be enforced"):
        check_tag(tag)


def test_an_answer_that_is_not_the_output_says_why() -> None:
    assert "no JSON" in str(output_problem({"json": POINT}, '{"x":1,', ended=False))
    assert "$.x" in str(output_problem({"json": POINT}, '{"x":"one","on":true}', ended=True))
    assert "required" in str(output_problem({"json": POINT}, '{"x":1}', ended=True))


def test_tools_and_effort_are_read_back_from_what_was_rendered(hf) -> None:
    tools = [{"name": "get_weather", "description": "Weather now.", "parameters": CITY}, {"name": "ping"}]
    context = Context(system="Be brief.", tools=tools, effort="none")
    context.ask("Rain in Oslo?")
    ids, framing, table = np.asarray(context.render().token_ids), framing_of(hf), TokenBytes(hf)
    found = read_head(ids, framing, table)
    assert [(tool.name, tool.parameters) for tool in found.tools] == [("get_weather", CITY), ("ping", {})]
    assert found.effort == 0.0
    plain = Context(system=json.dumps(tools))
    plain.ask("Thinking effort level: 0.0")
    assert read_head(np.asarray(plain.render().token_ids), framing, table) == PromptHead(effort=0.9)
    assert read_head(ids[:20], framing, table) == read_head(ids[:0], framing, table) == PromptHead()
