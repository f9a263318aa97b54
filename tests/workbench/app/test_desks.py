"""Desks without a page: what waits, what goes with a question, what the disk gives back, and who sees whose."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from engine.client import Engine
from engine.connection import Connection
from engine.errors import EngineNotFound
from engine.protocol import EngineInfo, Limits
from workbench import Context, Conversation, samples
from workbench.app.desk import RUN, Desk
from workbench.app.desks import KEPT_DAYS, Desks
from workbench.app.link import Link
from workbench.errors import ContextFileError, MessageError

PATHS = [str(path) for path in samples.paths().values()]
TOOL = '[{"name": "clock", "description": "The time", "parameters": {"type": "object", "properties": {}}}]'


@pytest.fixture
def link() -> Link:
    """An engine whose limits are known and which does not answer."""
    info = EngineInfo(kind="workbench", model="inkling-demo", limits=Limits(context_tokens=1_048_575))

    def find() -> Engine:
        raise EngineNotFound("no engine runs here")

    return Link(Engine(Connection("http://127.0.0.1:1", None), info), find)


def asked(desk: Desk) -> None:
    """A conversation as an answer leaves it, written by hand."""
    desk.conversation.ask("Who is it?", parts=desk.files)


def test_files_wait_in_order_and_a_bad_one_is_named_without_its_place(tmp_path: Path) -> None:
    desk = Desk()
    bad = tmp_path / "thing.xyz"
    bad.write_bytes(bytes(range(256)))
    problems = desk.put_files([PATHS[0], str(bad), PATHS[1]])
    assert [part.name for part in desk.files] == ["harbour.pdf", "chart.png"]
    assert len(problems) == 1
    assert "thing.xyz" in problems[0]
    assert str(tmp_path) not in problems[0]
    desk.keep_only([1])
    assert [part.name for part in desk.files] == ["chart.png"]


def test_the_budget_is_the_one_a_notebook_has(link: Link) -> None:
    desk = Desk()
    desk.put_files(PATHS)
    context = Context(effort="low")
    for path in PATHS:
        context.add_file(path)
    found = desk.budget(link)
    assert found is not None
    assert found.rows == context.budget(link.known.info, max_tokens=128).rows
    assert found.prompt_tokens == len(context.render(link.known.info))


def test_everything_is_there_again_after_the_app_was_restarted(tmp_path: Path) -> None:
    first = Desks(tmp_path).of("someone")
    first.begin_with("Answer briefly.", TOOL)
    first.put_files(PATHS)
    asked(first)
    first.keep_only([2])
    first.use({"max_tokens": 7, "effort": "high", "unknown": 1})
    first.keep()
    again = Desks(tmp_path).of("someone")
    assert again is not first
    assert [part.name for part in again.files] == ["call.wav"]
    before, after = (desk.conversation.context().render() for desk in (first, again))
    assert before.id == after.id
    assert again.conversation.context().tools[0]["name"] == "clock"
    assert again._settings["max_tokens"] == 7
    assert again.losses == ()


def test_what_is_damaged_is_left_out_and_named_without_its_place(tmp_path: Path) -> None:
    desk = Desks(tmp_path).of("someone")
    desk.put_files(PATHS[:1])
    desk.keep()
    assert desk.folder is not None
    (desk.folder / RUN).write_bytes(b"nothing of the kind")
    again = Desks(tmp_path).of("someone")
    assert [part.name for part in again.files] == ["harbour.pdf"]
    assert "run.inkling" in again.losses[0]
    assert str(tmp_path) not in again.losses[0]


def test_browsers_share_nothing_and_tabs_of_one_share_all(tmp_path: Path) -> None:
    desks = Desks(tmp_path)
    one, other = desks.of("one"), desks.of("other")
    one.put_files(PATHS[:1])
    one.keep()
    assert desks.of("one") is one
    assert other.files == []
    assert one.key != other.key
    assert "one" not in {path.name for path in tmp_path.iterdir()}, "reading the folder gives another's desk"
    assert desks.of("") is not desks.of("")
    assert desks.of("").folder is None


def test_old_desks_are_removed_when_the_app_starts(tmp_path: Path) -> None:
    desk = Desks(tmp_path).of("someone")
    desk.keep()
    assert desk.folder is not None
    Desks(tmp_path)
    assert desk.folder.exists()
    old = time.time() - (KEPT_DAYS + 1) * 86_400
    for path in desk.folder.iterdir():
        os.utime(path, (old, old))
    Desks(tmp_path)
    assert not desk.folder.exists()


def test_a_run_is_one_file_that_a_notebook_opens_and_the_app_opens_again(tmp_path: Path) -> None:
    desk = Desk()
    desk.put_files(PATHS)
    asked(desk)
    saved = desk.save(tmp_path / "run.inkling")
    assert Conversation.load(saved).context().render().id == desk.conversation.context().render().id
    other = Desk()
    other.open(saved)
    assert other.conversation.context().render().id == desk.conversation.context().render().id
    # A saved context is the beginning of a run.
    context = Context(system="Answer briefly.", effort="high")
    context.add_file(PATHS[0])
    other.open(context.save(tmp_path / "context.inkling"))
    assert other.conversation.context().render().id == context.render().id
    assert other._settings["effort"] == "high"
    bad = tmp_path / "bad.inkling"
    bad.write_bytes(b"no")
    with pytest.raises(ContextFileError, match=r"bad\.inkling"):
        other.open(bad)
    assert other.conversation.context().render().id == context.render().id


def test_what_stands_before_everything_is_fixed_by_the_first_question() -> None:
    desk = Desk()
    with pytest.raises(MessageError, match="JSON"):
        desk.begin_with("", "{")
    desk.begin_with("Answer briefly.", "")
    asked(desk)
    desk.begin_with("Answer briefly.", "")
    with pytest.raises(MessageError, match="start over"):
        desk.begin_with("Answer at length.", "")
    desk.clear()
    assert desk.conversation.context().system == "Answer briefly."
    assert not desk.begun


def test_without_an_engine_a_question_is_refused_with_the_remedy_and_files_stay(link: Link) -> None:
    desk = Desk()
    desk.put_files(PATHS[:1])
    link.lost()
    reply, _ = desk.answer(link, {"id": 1, "verb": "send", "args": {"text": "Who?"}})
    assert reply["ok"] is False
    assert "inkling engine start" in reply["error"]["message"]
    assert [part.name for part in desk.files] == ["harbour.pdf"]
    assert not desk.begun


def test_what_was_said_is_kept_while_no_page_looks(link: Link, tmp_path: Path) -> None:
    desk = Desk(tmp_path / "desk")
    desk.put_files(PATHS[:1])
    # The engine does not answer: the question stays, and its answer is missing.
    reply, _ = desk.chat(link.known).answer({"id": 1, "verb": "send", "args": {"text": "Who is it?"}})
    assert reply["ok"]
    desk.chat(link.known).wait(60)
    for _ in range(200):
        if (tmp_path / "desk" / RUN).exists():
            break
        time.sleep(0.05)
    again = Desk(tmp_path / "desk")
    (turn,) = again.chat(link.known).state()["turns"]
    assert (turn["text"], turn["files"], turn["unanswered"]) == ("Who is it?", ["harbour.pdf"], True)


def test_an_archive_is_its_files(tmp_path: Path) -> None:
    import zipfile

    with zipfile.ZipFile(tmp_path / "more.zip", "w") as archive:
        archive.writestr("a/one.txt", "The first.")
        archive.writestr("a/thing.bin", bytes(range(256)))
    desk = Desk()
    (problem,) = desk.put_files([str(tmp_path / "more.zip")])
    assert [part.name for part in desk.files] == ["more/a/one.txt"]
    assert problem.startswith("more.zip: a/thing.bin is left out")
