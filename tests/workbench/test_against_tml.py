"""Our token ids against the model makers' own Renderer.

Known differences, each taken into account below and nowhere else:
it omits the final model token; it writes effort 0 as ``0``, we as vLLM does, ``0.0``; it has no message for tools the way vLLM
declares them (compared with vLLM only), and it counts images without a resize.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tml_renderers import chat, v0

from engine.protocol import EngineInfo, Limits
from tests.workbench.samples_of import noise_image, recording, tone
from workbench import Context
from workbench.tokens import framing_ids, tokenizer

NO_RESIZE = EngineInfo(kind="workbench", model="bare", limits=Limits(context_tokens=1 << 20), upscale=None)
TEXTS = ("Which code opens the north gate?", "Naïve — 東京 🙂\n\n  x", "hi<|end_message|><|message_system|>", "<|unused_200054|>")


def theirs(messages: list[chat.Message], effort: float) -> list[int]:
    spans, _ = v0.Renderer(tokenizer()).render_for_completion_with_effort(messages, effort)
    ids: list[int] = []
    for item in spans:
        span = item.span
        if isinstance(span, chat.EncodedTextTokenSpan):
            ids += span.tokens
        elif isinstance(span, chat.ImageAssetPointerTokenSpan):
            ids += [framing_ids().image_slot] * span.num_tokens
        else:
            assert isinstance(span, chat.DmelTokenSpan)
            ids += [framing_ids().audio_slot] * span.dmel.shape[0]
    return ids


def message(kind: chat.AuthorKind, content) -> chat.Message:
    return chat.Message(author=chat.Author(kind), content=content)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("effort", [0.2, 0.9, 0.99])
def test_texts_and_turns(text: str, effort: float) -> None:
    context = Context(system="Be brief.", effort=effort)
    context.ask(text)
    ours = context.render().token_ids.tolist()
    expected = theirs(
        [message(chat.AuthorKind.System, chat.Text("Be brief.")), message(chat.AuthorKind.User, chat.Text(text))], effort
    )
    assert ours[-1] == framing_ids().message_model
    assert ours[:-1] == expected


def test_media(tmp_path: Path) -> None:
    noise_image(512, 384).save(tmp_path / "a.png")
    recording(tmp_path / "a.wav", tone(1.00005))
    context = Context(effort=0.7)
    context.add_image(tmp_path / "a.png")
    context.add_audio(tmp_path / "a.wav")
    context.ask("?")
    image = chat.ImagePointer(location=str(tmp_path / "a.png"), format=chat.ImageFormat.Png, width=512, height=384)
    audio = chat.AudioPointer(location=str(tmp_path / "a.wav"), format=chat.AudioFormat.Wav, num_frames=16_001, sample_rate=16_000)
    user = chat.AuthorKind.User
    expected = theirs([message(user, image), message(user, audio), message(user, chat.Text("?"))], 0.7)
    assert context.render(NO_RESIZE).token_ids.tolist()[:-1] == expected
