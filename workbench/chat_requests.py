"""A context as an OpenAI chat request: for plain vLLM servers, and for comparing our rendering with theirs.

A plain server writes the framing itself and reads control spellings in text as framing; texts that hold one are refused here. A
reply's exact ids cannot travel this way, only what they say. This module sends nothing.
"""

from __future__ import annotations

import base64
import json
import re
from functools import cache
from typing import Any

from . import reply_ids, tokens
from .errors import MessageError
from .media import compressed_png
from .messages import Message, Role, messages_of
from .parts import AudioPart, Part, ReplyPart, ToolResultPart, WrittenReplyPart
from .rendering import Source


def chat_request(context: Source, *, refuse_control: bool = True) -> dict[str, Any]:
    """``messages``, ``chat_template_kwargs`` and, if any, ``tools``: the body of ``/v1/chat/completions``, sampling options apart.

    Parameters
    ----------
    refuse_control : bool
        Refuse texts with control spellings, which such a server would read as framing.

    Raises
    ------
    MessageError
        A text with a control spelling, or a reply whose tool call is no JSON.
    """
    messages: list[dict[str, Any]] = [{"role": "system", "content": context.system}] if context.system else []
    for role, part in context.entries:
        messages.append(_message(role, part))
    # The field reasoning_effort takes names only; the number goes where the renderer reads it.
    request: dict[str, Any] = {"messages": messages, "chat_template_kwargs": {"reasoning_effort": context.effort}}
    if context.tools:
        request["tools"] = [
            {"type": tool["type"], "function": {key: tool[key] for key in ("name", "description", "parameters")}}
            for tool in context.tools
        ]
    if refuse_control:
        _check(request)
    return request


def _message(role: Role, part: Part) -> dict[str, Any]:
    match part:
        case ReplyPart():
            return _sampled(part)
        case WrittenReplyPart():
            calls = [_call(name, arguments) for name, arguments in part.tool_calls]
            return _assistant(part.reasoning, [part.text] if part.text else [], calls)
        case ToolResultPart():
            return {"role": "tool", "name": part.tool, "content": part.text, "tool_call_id": ""}
        case _:
            content = [_content(message) for message in messages_of(part, role)]
            plain = role == "system" and len(content) == 1
            return {"role": role, "content": content[0]["text"] if plain else content}


def _content(message: Message) -> dict[str, Any]:
    if message.media is None:
        return {"type": "text", "text": message.text}
    blob = message.media.blob if isinstance(message.media, AudioPart) else compressed_png(message.media.blob)
    data = base64.b64encode(blob).decode()
    if isinstance(message.media, AudioPart):
        return {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}


def _assistant(reasoning: str, texts: list[str], calls: list[dict[str, Any]]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": [{"type": "text", "text": text} for text in texts]}
    if reasoning:
        message["reasoning"] = reasoning
    if calls:
        message["tool_calls"] = calls
    return message


def _call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}
    return {"id": f"call_{name}", "type": "function", "function": function}


def _sampled(part: ReplyPart) -> dict[str, Any]:
    found: dict[str, list[str]] = {"text": [], "thinking": [], "call": []}
    for run in reply_ids.runs(part.token_ids, tokens.framing_ids()):
        if run.kind != "framing":
            found[run.kind].append(tokens.decode(run.ids))
    calls: list[dict[str, Any]] = []
    for text in found["call"]:
        try:
            call = json.loads(text)
            calls.append(_call(call["name"], call["args"]))
        except (ValueError, KeyError, TypeError) as problem:
            raise MessageError(
                f"a reply holds a tool call that is no JSON ({text!r}): a plain server cannot be given it"
            ) from problem
    return _assistant("".join(found["thinking"]), found["text"], calls)


@cache
def _control() -> re.Pattern[str]:
    known = tokens.tokenizer()
    return re.compile("|".join(re.escape(f"<|{name}|>") for name in known.special_tokens()))


def control_spelling(text: str) -> str | None:
    """The first control spelling in `text`, or None.

    Examples
    --------
    >>> control_spelling("bye <|end_message|>"), control_spelling("a <| b |> c")
    ('<|end_message|>', None)
    """
    found = _control().search(text)
    return found.group() if found else None


def _check(value: Any) -> None:
    if isinstance(value, dict):
        for key, item in value.items():
            if key not in ("url", "data"):
                _check(item)
    elif isinstance(value, list):
        for item in value:
            _check(item)
    elif isinstance(value, str) and (spelling := control_spelling(value)):
        raise MessageError(
            f"a text holds {spelling}, which a plain vLLM server reads as framing and not as text: use the workbench's own engine, "
            "or take it out",
            spelling=spelling,
        )
