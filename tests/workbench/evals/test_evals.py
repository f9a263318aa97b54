"""The evaluation harness: contexts equal training's ids, verdicts are right, a killed run goes on, and the real engine answers."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

from engine import plain
from engine.client import Engine
from engine.connection import Connection, blocking
from engine.demo.train.skills.items import Item
from engine.demo.train.skills.sequences import chat_of
from engine.errors import BadRequest, RequestRefused
from engine.protocol import Reply, Timings, ToolCall, Usage
from workbench.cli import main
from workbench.errors import EvalRunError
from workbench.evals import needle, tables
from workbench.evals.asking import Manner, ask_all, missing, recorded
from workbench.evals.composing import context_of, text_part
from workbench.evals.records import RECORDS, RunFolder
from workbench.evals.scoring import Rate, loosely
from workbench.evals.suites import VALUE_ALONE, Row, rows
from workbench.parts import DocumentPart

SETTINGS = {"suite": "demo", "seed": 0, "wording": "unseen", "model": "m", "revision": "r", "exact": True}
ROWS = rows()
SHORT = [row for row in ROWS if row.tokens <= 8_000]


def reply(text: str = "", *, reasoning: str = "", calls: tuple[ToolCall, ...] = (), finish: Any = "stop") -> Reply:
    return Reply(
        text=text, reasoning=reasoning, tool_calls=calls, token_ids=np.empty(0, np.uint32),
        usage=Usage(prompt_tokens=9, cached_tokens=0, completion_tokens=3), timings=Timings(first_token_s=0.1, total_s=0.2),
        finish_reason=finish, context="c", request_id="q",
    )  # fmt: skip


def perfect(item: Item) -> Reply:
    """What a model that is always right would answer."""
    wanted, thought = item.wanted, "Asked." if float(item.effort) >= 0.5 else ""
    if wanted.call is None:
        return reply(wanted.text, reasoning=thought)
    call = ToolCall(name=wanted.call[0], arguments=dict(wanted.call[1]), raw="")
    return reply(reasoning=thought, calls=(call,))


class Answerer:
    """Stands where the engine stands, to be always right or always wrong; the real one is asked in the last test."""

    def __init__(self, row: Row, *, right: bool) -> None:
        self.row, self.right, self.asked = row, right, 0
        self.known = {context_of(row.make(i)).render().id: row.make(i) for i in range(3)}

    async def agenerate(self, context: Any, **options: Any) -> Reply:
        assert options["temperature"] == 0.0
        self.asked += 1
        item = self.known[context.render().id]
        return perfect(item) if self.right else replace(perfect(item), text="It is nothing.", tool_calls=())


@pytest.mark.parametrize("row", SHORT, ids=lambda row: row.name)
def test_a_case_renders_to_the_ids_of_training(row: Row):
    for index in (0, 1, 7):
        item = row.make(index)
        chat = chat_of(item)
        assert context_of(item).render().token_ids.tolist() == chat.ids[: chat.answers[-1].start]


@pytest.mark.parametrize("row", SHORT, ids=lambda row: row.name)
def test_cases_are_the_same_from_the_same_seed_and_others_from_another(row: Row):
    again, other = (next(r for r in rows(seed) if r.name == row.name) for seed in (0, 1))
    ids = [context_of(r.make(5)).render().id for r in (row, again, other)]
    assert ids[0] == ids[1]
    assert row.name in ("courtesy", "spoken in one breath") or ids[0] != ids[2]


@pytest.mark.parametrize("row", SHORT, ids=lambda row: row.name)
def test_a_perfect_answerer_is_right_and_a_wrong_one_wrong(row: Row, tmp_path: Path):
    for right in (True, False):
        folder = RunFolder.open(tmp_path / str(right), SETTINGS)
        answerer: Any = Answerer(row, right=right)
        asyncio.run(ask_all(answerer, missing([row], 3, folder), folder, Manner(), lambda row, record: None))
        rate = folder.rate(row.name, 3)
        assert (rate.right, rate.cases) == (3 if right else 0, 3)


def test_what_counts_as_wrong():
    row = next(row for row in ROWS if row.name == "touch tones")
    item = row.make(0)
    right = perfect(item)

    def judged(answer: Reply) -> bool:
        return recorded(row.name, 0, item, answer, exact=True).right

    assert judged(right)
    assert not judged(replace(right, finish_reason="length"))
    assert not judged(replace(right, reasoning="Hm."))
    assert not judged(replace(right, text=right.text + " Yes."))
    assert not judged(replace(right, tool_calls=(ToolCall(name="x", arguments={}, raw=""),)))
    thinking = next(row for row in ROWS if row.name == "thinking").make(1)
    assert recorded("thinking", 1, thinking, perfect(thinking), exact=True).right
    assert not recorded("thinking", 1, thinking, replace(perfect(thinking), reasoning=""), exact=True).right


def test_other_engines_may_put_it_their_way():
    digits = next(row for row in ROWS if row.name == "touch tones").make(0).wanted
    value = digits.text.removeprefix("It is ").removesuffix(".")
    assert loosely(digits, reply(f"The keys are {' '.join(value)}."))
    assert not loosely(digits, reply(f"The keys are {value}0."))
    at = next(row for row in ROWS if row.name == "what is at").make(1).wanted
    assert loosely(at, reply(f"There is {at.text[6:].lower()}"))
    same = replace(at, text="Spoken: 12. Shown: 13. No.", value="No")
    assert loosely(same, reply("No, they differ."))
    assert not loosely(same, reply("Yes."))
    assert not loosely(at, reply("There is something else."))


@pytest.mark.parametrize(("right", "cases"), [(0, 10), (194, 200), (40, 40), (1, 3)])
def test_the_interval_is_wilsons(right: int, cases: int):
    theirs = binomtest(right, cases).proportion_ci(method="wilson")
    assert Rate(right, cases).interval() == pytest.approx((theirs.low, theirs.high), abs=1e-12)


def test_nothing_asked_says_nothing():
    assert Rate(0, 0).interval() == (0.0, 1.0)


_KILLED = """
import asyncio, sys, time
from pathlib import Path
sys.path[:0] = {paths!r}
from tests.workbench.evals.test_evals import SETTINGS, perfect
from workbench.evals.asking import Manner, ask_all, missing
from workbench.evals.records import RunFolder
from workbench.evals.suites import rows
from workbench.evals.composing import context_of
row = next(row for row in rows() if row.name == "touch tones")
class Slow:
    async def agenerate(self, context, **options):
        await asyncio.sleep(0.05)
        return perfect(row.make(0))
folder = RunFolder.open(Path({folder!r}), SETTINGS)
asyncio.run(ask_all(Slow(), missing([row], 200, folder), folder, Manner(concurrency=2), lambda row, record: None))
"""


def test_a_killed_run_goes_on_where_it_was(tmp_path: Path):
    script = _KILLED.format(paths=[str(Path(__file__).parents[3])], folder=str(tmp_path))
    process = subprocess.Popen([sys.executable, "-c", script])
    records = tmp_path / RECORDS
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not (records.exists() and records.read_bytes().count(b"\n") >= 4):
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    # And as if the kill had fallen into a write.
    with records.open("ab") as file:
        file.write(b'{"row": "touch tones", "ind')
    row = next(row for row in ROWS if row.name == "touch tones")
    folder = RunFolder.open(tmp_path, SETTINGS)
    kept = len(folder.records)
    assert 4 <= kept < 200
    assert sum(len(indices) for _, indices in missing([row], 200, folder)) == 200 - kept
    assert not {i for _, indices in missing([row], 200, folder) for i in indices} & {i for _, i in folder.records}
    folder.add(recorded(row.name, 199, row.make(199), perfect(row.make(199)), exact=True))
    assert len(RunFolder.open(tmp_path, SETTINGS).records) == kept + 1


def test_a_run_of_another_kind_is_refused(tmp_path: Path):
    RunFolder.open(tmp_path, SETTINGS)
    with pytest.raises(EvalRunError, match="--fresh"):
        RunFolder.open(tmp_path, SETTINGS | {"seed": 1})
    assert RunFolder.open(tmp_path, SETTINGS | {"seed": 1}, fresh=True).settings["seed"] == 1
    (tmp_path / RECORDS).write_text('{"row": 1}\n')
    with pytest.raises(EvalRunError, match="line 1"):
        RunFolder.open(tmp_path, SETTINGS | {"seed": 1})
    (tmp_path / "file").write_text("")
    with pytest.raises(EvalRunError, match="cannot be used"):
        RunFolder.open(tmp_path / "file", SETTINGS)


def test_answers_of_another_revision_are_neither_resumed_nor_reported(tmp_path: Path):
    """Even where the settings beside them were changed to agree."""
    row = next(row for row in ROWS if row.name == "touch tones")
    folder = RunFolder.open(tmp_path, SETTINGS)
    folder.add(recorded(row.name, 0, row.make(0), perfect(row.make(0)), exact=True))
    assert RunFolder.open(tmp_path, SETTINGS).records[row.name, 0].revision == "r"
    with pytest.raises(EvalRunError, match="engine is of s"):
        tables.report([row], 1, folder, engine={"model": "m", "revision": "s"}, skipped={})
    newer = SETTINGS | {"revision": "s"}
    with pytest.raises(EvalRunError, match="'r', not 's'"):
        RunFolder.open(tmp_path, newer)
    (tmp_path / "run.json").write_text(json.dumps(newer))
    with pytest.raises(EvalRunError, match="answer of revision r"):
        RunFolder.open(tmp_path, newer)


def test_an_engine_that_refuses_ends_the_run_with_its_reason(tmp_path: Path):
    class Refusing:
        async def agenerate(self, context: Any, **options: Any) -> Reply:
            raise RequestRefused("too long")

    folder, engine = RunFolder.open(tmp_path, SETTINGS), Refusing()
    row = next(row for row in ROWS if row.name == "touch tones")
    with pytest.raises(RequestRefused, match="too long"):
        asyncio.run(ask_all(engine, missing([row], 20, folder), folder, Manner(), lambda row, record: None))  # type: ignore[arg-type]


def test_documents_are_real_parts_with_their_pages():
    part = text_part("Document: gate-7.pdf\n\n[page 1]\nThe code is 5.\n\n[page 2]\nNothing.")
    assert isinstance(part, DocumentPart)
    assert [page.text for page in part.pages] == ["The code is 5.", "Nothing."]
    assert isinstance(text_part("Document: notes.txt\n\nThe code is 5."), DocumentPart)
    assert not isinstance(text_part("The code is 5."), DocumentPart)


def test_the_report_has_bars_intervals_and_what_was_not_asked(tmp_path: Path):
    folder = RunFolder.open(tmp_path, SETTINGS)
    row = next(row for row in ROWS if row.name == "touch tones")
    for index in range(4):
        item = row.make(index)
        folder.add(recorded(row.name, index, item, perfect(item) if index else reply("It is 1."), exact=True))
    ablations = tmp_path / "trainer.json"
    line = {"off": "sinks", "skill": "dtmf", "right": 9, "cases": 10, "share": 0.9}
    ablations.write_text(f"{json.dumps(line)}\n" + '{"skill": "draft 1", "right": 3, "cases": 4}\n')
    found = tables.report(
        [row, ROWS[0]], None, folder, engine={"model": "m", "revision": "r"}, skipped={ROWS[0].name: "too long"},
        extra=tables.trainers_tables([ablations]) | {"note": "Measured at night."},
    )  # fmt: skip
    text = tables.page(found, title="T")
    assert "| touch tones | 3 of 4 | 75.0 % | 30.1 % to 95.4 % | 95 % | **not met** | 0.20 |" in text
    assert "| look-up, 256 | – |  |  |  | too long |  |" in text
    assert "| sinks | 9 of 10 |" in text
    assert "Measured at night." in text
    assert "| draft 1 | 3 of 4 | 75.0 % |" in text
    data, page = tables.write(tmp_path / "out", found, text)
    assert json.loads(data.read_text())["rows"][0]["right"] == 3
    assert page.read_text() == text


@pytest.mark.parametrize("content", ["[", "{}", '{"off": "sinks", "skill": "dtmf"}', '[{"skill": "draft 1"}]', "3"])
def test_a_trainers_file_of_another_form_is_refused(content: str, tmp_path: Path):
    (tmp_path / "t.json").write_text(content)
    with pytest.raises(EvalRunError, match=r"t\.json"):
        tables.trainers_tables([tmp_path / "t.json"])


def test_needles_lie_at_their_depth_and_share_a_haystack():
    found = needle.rows([600, 2000], [0, 50, 100], 0, None)
    for row in found:
        item = row.make(2)
        body, value = item.steps[0].text, item.wanted.text[6:-1]
        at = body.index("The access code of the")
        size, depth = (int(word) for word in row.name.replace(" tokens,", "").replace(" %", "").split())
        assert value in body[at : at + 120]
        assert abs(at / len(body) - depth / 100) < 0.12
        assert 0.8 * size < len(context_of(item).render().token_ids) < 1.1 * size
    own = needle.rows([600], [50], 0, "One two three four five. " * 40)[0].make(0)
    assert own.steps[0].text.count("One two three four five.") > 50


def test_the_needles_figure_and_page(tmp_path: Path):
    folder = RunFolder.open(tmp_path, SETTINGS)
    found = needle.rows([300, 600], [0, 100], 0, None)
    for row in found[:3]:
        folder.add(recorded(row.name, 0, row.make(0), perfect(row.make(0)), exact=False))
    report = tables.report(found, None, folder, engine={"model": "m", "revision": "r"}, skipped={})
    assert "| 300 | 1 of 1 | 1 of 1 |" in needle.page(report)
    assert "95.68 %" in needle.page(report)
    assert needle.figure(report, tmp_path / "n.png").stat().st_size > 5_000


@pytest.mark.parametrize("words", [
    ["--cases", "0"], ["--rows", "nothing"], ["--trainer", "none.json"], ["--concurrency", "0"],
])  # fmt: skip
def test_bad_input_is_refused_before_an_engine_is_looked_for(words: list[str], capsys):
    assert main(["eval", "demo", *words]) in (1, 2)
    assert "inkling:" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--lengths", "tiny"], ["--depths", "120"], ["--haystack", "none.txt"]])
def test_bad_needles_are_refused(words: list[str], capsys):
    assert main(["eval", "needle", *words]) in (1, 2)
    assert words[1] in capsys.readouterr().err


def test_lengths_read():
    assert [needle.length(text) for text in ("64k", "1.5k", "1M")] == [64_000, 1_500, 1_000_000]
    with pytest.raises(EvalRunError):
        needle.length("5")
    assert issubclass(BadRequest, RequestRefused)


@pytest.mark.engine
def test_the_engine_answers_and_a_second_run_asks_nothing_again(eng, tmp_path: Path, capsys):
    names = ["what is at", "touch tones", "tool results", "together", "look-up, 256"]
    words = ["eval", "demo", "--url", eng.url, "--cases", "2", "--out", str(tmp_path), "--rows", *names, "--json"]
    if token := eng._connection.token:
        words += ["--token", token]
    assert main(words) == 0
    found = json.loads(capsys.readouterr().out)
    assert [line["cases"] for line in found["rows"]] == [2] * len(names)
    assert all(line["longest_prompt_tokens"] > 20 for line in found["rows"])
    before = (tmp_path / RECORDS).read_bytes()
    assert main(words) == 0
    assert (tmp_path / RECORDS).read_bytes() == before
    assert (tmp_path / "report.md").read_text().startswith("# Evaluation of the demo checkpoint")


@pytest.mark.engine
def test_a_plain_server_is_asked_the_same(eng, tmp_path: Path):
    """The engine's own /v1, met as a plain vLLM server: documents, images, recordings and earlier calls go as chat messages."""
    plain_server = Engine(connection := Connection(eng.url, eng._connection.token), blocking(plain.describe(connection)))
    folder = RunFolder.open(tmp_path, SETTINGS | {"suite": "skills", "exact": False})
    chosen = [row for row in ROWS if row.name in ("together", "tool results", "look-up, 256", "thinking")]
    how = Manner(exact=False, system=VALUE_ALONE, max_tokens=8)
    asyncio.run(ask_all(plain_server, missing(chosen, 2, folder), folder, how, lambda row, record: None))
    assert all(len(folder.of(row.name, 2)) == 2 for row in chosen)
    assert all(record.prompt_tokens > 20 for record in folder.records.values())
