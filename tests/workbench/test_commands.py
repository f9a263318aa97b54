"""``inkling count`` and ``inkling ask`` from a shell."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from engine.protocol import EngineInfo
from tests.workbench.samples_of import pdf
from workbench import Context, samples
from workbench.cli import main

S = {kind: str(path) for kind, path in samples.paths().items()}
PARTS = ["--doc", S["document"], "--image", S["image"], "--audio", S["audio"]]


def test_count_equals_the_context(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["count", *PARTS, "--effort", "low", "--no-engine", "--json", "Which code?"]) == 0
    found = json.loads(capsys.readouterr().out)
    context = Context(effort="low")
    context.add_document(S["document"])
    context.add_image(S["image"])
    context.add_audio(S["audio"])
    context.ask("Which code?")
    assert found["prompt_tokens"] == len(context.render())
    assert found["context"] == context.render().id


def test_parts_stand_in_the_order_given(capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--text", "one", "--audio", S["audio"], "--text", "two", "--image", S["image"], "--doc", S["document"]]
    assert main(["count", *given, "--no-engine", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["label"] for row in rows] == ["text", "call.wav", "text", "chart.png", "harbour.pdf"]


def test_count_shows_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["count", *PARTS, "--no-engine"]) == 0
    shown = capsys.readouterr()
    assert "harbour.pdf" in shown.out
    assert "120 × 120 px, 6 × 7 patches" in shown.out


@pytest.mark.parametrize("command", ["count", "ask"])
@pytest.mark.parametrize(
    ("flags", "code"),
    [
        (["--doc", "missing.pdf"], "source-missing"),
        (["--doc", "broken.pdf"], "source-unreadable"),
        (["--doc", "locked.pdf"], "source-encrypted"),
        (["--image", "empty.png"], "source-unreadable"),
        (["--audio", "notes.txt"], "source-unreadable"),
        (["--effort", "ultra"], "effort"),
        (["--effort", "1.0"], "effort"),
        (["--text", ""], "message"),
        (["--load", "missing.inkling"], "context-file"),
    ],
)
def test_bad_input_is_status_2_before_anything_else(
    command: str, flags: list[str], code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.4 broken")
    (tmp_path / "empty.png").touch()
    (tmp_path / "notes.txt").write_text("no sound")
    pdf(tmp_path / "locked.pdf", ["x"], password="p")
    assert main([command, *flags, "--json", "?"]) == 2
    said = capsys.readouterr()
    assert json.loads(said.out)["error"]["code"] == code
    assert said.err.startswith("inkling: ")


def test_token_budget(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["count", *PARTS, "--no-engine", "--token-budget", "300"]) == 2
    assert "heaviest: harbour.pdf" in capsys.readouterr().err


def test_saved_contexts_go_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = str(tmp_path / "c.inkling")
    assert main(["count", "--system", "Brief.", "--text", "one", "--save", kept, "--no-engine", "--json"]) == 0
    assert main(["count", "--load", kept, "--no-engine", "--json", "two"]) == 0
    rows = json.loads(capsys.readouterr().out.splitlines()[-1])["rows"]
    assert [row["label"] for row in rows] == ["system", "text", "question"]


def test_ask_without_an_engine_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ask", "--url", "http://127.0.0.1:9", "--token", "x", "--json", "?"]) == 1
    assert json.loads(capsys.readouterr().out)["error"]["code"].startswith("engine")


@pytest.mark.engine
def test_the_budget_equals_the_engines_usage(eng, tmp_path: Path) -> None:
    from tests.workbench.mixed_contexts import builders

    assert isinstance(eng.info, EngineInfo)
    for name in ("text", "everything", "three images two clips", "scanned pdf", "samples"):
        context = builders()[name](tmp_path)
        budget = context.budget(eng, max_tokens=1)
        reply = eng.generate(context, max_tokens=1, temperature=0)
        assert reply.usage.prompt_tokens == budget.prompt_tokens, name
        assert reply.context == context.render(eng).id


@pytest.mark.engine
def test_ask_streams_and_reports(eng, capsys: pytest.CaptureFixture[str]) -> None:
    # The shared engine is the only one in this run's runtime folder, unless a developer named another.
    where = ["--url", eng.url, "--token", os.environ["INKLING_ENGINE_TOKEN"]] if "INKLING_ENGINE_URL" in os.environ else []
    assert main(["ask", *PARTS, *where, "--max-tokens", "4", "--temperature", "0", "--json", "Which code?"]) == 0
    said = capsys.readouterr()
    found = json.loads(said.out)
    assert main(["count", *PARTS, *where, "--json", "Which code?"]) == 0
    assert found["usage"]["prompt_tokens"] == json.loads(capsys.readouterr().out)["prompt_tokens"]
    assert found["usage"]["completion_tokens"] <= 4
    assert "prompt tokens" in said.err


@pytest.mark.engine
def test_a_second_turn_finds_its_prefix_in_the_cache(eng) -> None:
    context = Context(effort="none")
    context.add_document(S["document"])
    context.ask("Which code?")
    reply = eng.generate(context, max_tokens=8, temperature=0)
    context.add_reply(reply)
    context.ask("And the other?")
    again = eng.generate(context, max_tokens=1, temperature=0)
    # All whole cache blocks of the first prompt; a block is at most 128 tokens here.
    assert again.usage.cached_tokens >= reply.usage.prompt_tokens - 128
