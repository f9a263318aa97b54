"""The composer's answers: counts, costs before edits, uploads in pieces and by HTTP, previews."""

from __future__ import annotations

import base64
import io

import httpx
import numpy as np
import pytest

from workbench import Context, samples
from workbench.composing_sessions import ComposingSession
from workbench.errors import MessageError


@pytest.fixture
def session():
    context = Context(system="Answer briefly.")
    for path in samples.paths().values():
        context.add_file(path)
    context.ask(samples.QUESTION)
    return ComposingSession(context)


def ask(session, verb, **args):
    reply, buffers = session.answer({"id": 1, "verb": verb, "args": args})
    assert reply["ok"], reply
    return reply["result"], buffers


def refused(session, verb, **args) -> str:
    before = session.context.items
    reply, _ = session.answer({"id": 1, "verb": verb, "args": args})
    assert not reply["ok"]
    assert session.context.items == before
    return reply["error"]["message"]


def test_the_state_counts_what_is_rendered(session):
    state = ask(session, "state")[0]["state"]
    rendered = session.context.render()
    assert state["totals"]["prompt_tokens"] == len(rendered)
    assert state["sections"][0]["label"] == "system"
    assert all(sum(n for _, n in section["runs"]) == section["stop"] - section["start"] for section in state["sections"])
    assert [entry["kind"] for entry in state["entries"]] == ["document", "image", "audio", "text"]
    assert [entry["start"] for entry in state["entries"]] == sorted(entry["start"] for entry in state["entries"])
    assert state["tree"]["tokens"] == sum(child["tokens"] for child in state["tree"]["children"])


def test_an_edit_is_priced_without_being_made_and_made_as_priced(session):
    for edit in (
        {"action": "disable", "index": 1}, {"action": "move", "index": 0, "to": 2}, {"action": "remove", "index": 3},
        {"action": "undo"}, {"action": "effort", "value": "low"}, {"action": "system", "value": ""},
        {"action": "pin", "index": 2}, {"action": "unpin", "index": 0},
    ):  # fmt: skip
        before = session.context.items, len(session.context.render())
        priced, _ = ask(session, "cost", **edit)
        assert (session.context.items, len(session.context.render())) == before
        made = ask(session, "edit", **edit)[0]["state"]
        assert made["totals"]["prompt_tokens"] == priced["tokens"], edit
    text = "The gate closes at nine."
    priced, _ = ask(session, "cost", action="text", value=text)
    assert ask(session, "text", text=text)[0]["state"]["totals"]["prompt_tokens"] == priced["tokens"]
    assert ask(session, "state")[0]["state"]["entries"][-1]["name"] == "text"


def test_a_pinned_entry_is_not_moved_and_the_reason_comes(session):
    ask(session, "edit", action="pin", index=0)
    assert "pinned" in refused(session, "edit", action="remove", index=0)
    assert "pinned" in refused(session, "cost", action="move", index=0, to=2)
    assert "no edit 'drop'" in refused(session, "edit", action="drop")
    assert "needs the index" in refused(session, "edit", action="pin")
    assert "EffortError" not in refused(session, "edit", action="effort", value="huge")
    assert "nothing to redo" in refused(session, "edit", action="redo")


def pieces(data: bytes, size: int):
    return [(at, base64.b64encode(data[at : at + size]).decode()) for at in range(0, len(data), size)]


def test_a_file_in_pieces_becomes_the_part_it_is(session):
    data = samples.paths()["document"].read_bytes()
    told = []
    session.listen(lambda state: told.append(len(state["entries"])))
    for offset, piece in pieces(data, 1_000):
        result, _ = ask(session, "upload", key="a", name="again.pdf", size=len(data), offset=offset, data=piece)
    assert result["state"]["entries"][-1]["name"] == "again.pdf"
    assert session.context.parts[-1].pages == session.context.parts[0].pages
    assert told == [5]


def test_pieces_out_of_order_and_bad_files_are_refused_by_name(session):
    first, second = pieces(b"x" * 20, 10)
    ask(session, "upload", key="b", name="x.txt", size=20, offset=0, data=first[1])
    assert "out of its order" in refused(session, "upload", key="b", name="x.txt", size=20, offset=15, data=second[1])
    assert "out of its order" in refused(session, "upload", key="b", name="x.txt", size=20, offset=10, data=second[1])
    assert "base64" in refused(session, "upload", key="c", name="x.txt", size=20, offset=0, data="%%")
    assert "0 bytes" in refused(session, "upload", key="d", name="x.txt", size=0, offset=0, data="")
    movie = base64.b64encode(b"not a film").decode()
    assert "clip.mp4: no reader" in refused(session, "upload", key="e", name="clip.mp4", size=10, offset=0, data=movie)
    ask(session, "upload", key="f", name="x.txt", size=20, offset=0, data=first[1])
    assert ask(session, "drop", key="f")[0] == {"dropped": True}


def test_the_door_takes_files_with_its_secret_and_closes(session):
    door, _ = ask(session, "door")
    url = f"http://127.0.0.1:{door['port']}"
    wave = samples.paths()["audio"].read_bytes()
    assert httpx.put(f"{url}/guess?name=a.wav", content=wave).status_code == 404
    assert httpx.put(f"{url}/{door['secret']}?name=a.wav", content=b"").status_code == 413
    answer = httpx.put(f"{url}/{door['secret']}?name=a.mp4", content=wave)
    assert answer.status_code == 422
    assert "a.mp4" in answer.json()["message"]
    assert httpx.put(f"{url}/{door['secret']}?name=second%20call.wav", content=wave).json() == {"received": len(wave)}
    assert session.context.parts[-1].name == "second call.wav"
    assert ask(session, "door")[0] == door
    session.close()
    with pytest.raises(httpx.ConnectError):
        httpx.put(f"{url}/{door['secret']}?name=a.wav", content=wave)


def test_previews_show_pages_patches_and_samples(session):
    from PIL import Image

    result, buffers = ask(session, "preview", index=0, page=1)
    assert (result["pages"], result["label"], buffers) == (3, "page 2", [])
    assert result["text"] == session.context.parts[0].pages[1].text
    result, (picture,) = ask(session, "preview", index=1)
    grid = session.context.render().spans
    image = next(span for span in grid if span.modality == "image")
    assert result["rows"] * result["cols"] == result["tokens"] == len(image)
    assert Image.open(io.BytesIO(picture)).size == (120, 120)
    result, (samples_,) = ask(session, "preview", index=2)
    low, high = np.frombuffer(samples_, "<f4").reshape(2, -1)
    assert (low <= high).all()
    assert result["tokens"] == session.context.parts[2].tokens
    assert "has no page 3" in refused(session, "preview", index=0, page=3)
    assert "no entry 9" in refused(session, "preview", index=9)


def test_too_long_is_said_before_anything_is_sent():
    context = Context()
    context.add_text("harbour " * 40_000)
    session = ComposingSession(context, max_tokens=1_040_000)
    assert session.state()["totals"]["left_tokens"] < 0
    assert "too long by" in session.cost("effort", value="low")["words"]
    with pytest.raises(MessageError, match="reserve at least 1"):
        ComposingSession(context, max_tokens=0)


def test_a_switched_off_entry_costs_nothing_and_keeps_its_place(session):
    state = ask(session, "edit", action="disable", index=1)[0]["state"]
    assert state["entries"][1]["tokens"] is None
    assert [entry["start"] is None for entry in state["entries"]] == [False, True, False, False]
    assert state["totals"]["prompt_tokens"] == len(session.context.render())
