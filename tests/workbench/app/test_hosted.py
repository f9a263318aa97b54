"""A widget's module in the page: what its value holds, what it may ask, what is kept."""

from __future__ import annotations

import hashlib

import pytest

pytest.importorskip("gradio")

from workbench.app.hosted import SUBJECTS, Blobs, Hosted


def hosted(
    answer=lambda subject, content: ({"id": content["id"], "ok": True, "result": subject}, [b"buffer"]),
) -> tuple[Hosted, Blobs]:
    blobs = Blobs()
    return Hosted("routing_map", answer=answer, blobs=blobs, prefix="/proxy/1"), blobs


def ask(widget: Hosted, data: dict) -> dict:
    """Call what the page calls as ``server.ask``."""
    return widget.component.ask(data)


def test_bytes_travel_as_addresses_and_everything_else_as_json() -> None:
    widget, blobs = hosted()
    value = widget.show("subject", {"meta": {"tokens": 3}, "share": b"\0\1"})
    name = hashlib.sha256(b"\0\1").hexdigest()
    assert value["traits"] == {"meta": {"tokens": 3}, "share": {"blob": f"/proxy/1/blobs/{name}"}}
    assert blobs.get(name) == b"\0\1"


def test_a_question_is_answered_by_the_subject_that_is_shown() -> None:
    widget, blobs = hosted()
    first, second = widget.show("one", {}), widget.show("two", {})
    reply = ask(widget, {"subject": first["subject"], "content": {"id": "a"}})
    assert reply["content"] == {"id": "a", "ok": True, "result": "one"}
    assert blobs.get(reply["buffers"][0].rsplit("/", 1)[1]) == b"buffer"
    assert ask(widget, {"subject": second["subject"], "content": {"id": "b"}})["content"]["result"] == "two"


@pytest.mark.parametrize("subject", ["guess", "", None, 3])
def test_a_page_can_only_ask_about_what_it_was_shown(subject: object) -> None:
    widget, _ = hosted()
    widget.show("secret", {})
    content = ask(widget, {"subject": subject, "content": {"id": 7}})["content"]
    assert (content["id"], content["ok"], content["error"]["code"]) == (7, False, "gone")


def test_what_changes_while_it_is_shown_keeps_its_key_and_answers_for_the_newest() -> None:
    widget, _ = hosted()
    first, second = widget.show("one", {"n": 1}, key="k"), widget.show("two", {"n": 2}, key="k")
    assert first["subject"] == second["subject"] == "k"
    assert ask(widget, {"subject": "k", "content": {"id": 1}})["content"]["result"] == "two"


def test_old_subjects_are_dropped() -> None:
    widget, _ = hosted()
    first = widget.show("first", {})
    for number in range(SUBJECTS):
        widget.show(number, {})
    assert ask(widget, {"subject": first["subject"], "content": {"id": 1}})["content"]["ok"] is False


def test_blobs_are_bounded_and_the_newest_stays_whatever_its_size() -> None:
    blobs = Blobs(limit_bytes=10)
    old, new, huge = blobs.put(b"a" * 6), blobs.put(b"b" * 6), b"c" * 100
    assert blobs.get(old) is None
    assert blobs.get(new) == b"b" * 6
    assert blobs.get(blobs.put(huge)) == huge


def test_gradio_wrote_no_stub_beside_our_source() -> None:
    from workbench import app

    assert not [path for folder in app.__path__ for path in __import__("pathlib").Path(folder).rglob("*.pyi")]
