"""An engine's token is where it has to be and nowhere else: no log, address, error, JSON, widget, command line or saved output."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

import engine
from engine import discovery
from engine.errors import InklingError
from engine.protocol import places
from engine.protocol.presence import KernelSettings, Presence
from workbench import Context
from workbench.cli import main

ROOT = Path(__file__).parents[2]

TOKEN = "0123456789abcdef-of-some-length"


@pytest.fixture
def token(eng) -> str:
    return eng._connection.token


def test_what_holds_a_token_does_not_show_it() -> None:
    presence = Presence(url="http://127.0.0.1:1", token=TOKEN, nonce="n", model="m", host="h", boot_id="b", pid=1)
    settings = KernelSettings(
        model="m", args=[], token=TOKEN, nonce="n", home="/h", run="/r", runtime="/t"
    )  # fmt: skip
    for held in (presence, settings, discovery.Found(presence=presence, local=True)):
        assert TOKEN not in f"{held!r} {held} {[held]}"
    with pytest.raises(ValueError, match="model") as caught:  # what pydantic says of a file that is none
        Presence.model_validate({"token": TOKEN})
    assert "model" in str(caught.value)


@pytest.mark.engine
def test_the_clients_log_and_errors(eng, token: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    context = Context(effort="none")
    context.ask("Hello.")
    said = [repr(eng), repr(eng.info), repr(eng._connection), repr(engine.list()), eng.url, str(eng.log)]
    said.append(repr(engine.attach(eng.url, token).generate(context, max_tokens=2)))
    said.append(json.dumps(eng.status()))
    for fail in (
        lambda: eng.generate(context, max_tokens=10**9), lambda: engine.attach(eng.url, f"{token}x"),
        lambda: engine.attach("http://127.0.0.1:9", token), lambda: eng.generate(context, tool_choice="nothing"),
    ):  # fmt: skip
        with pytest.raises(InklingError) as caught:
            fail()
        said.append(f"{caught.value!r} {caught.value} {caught.value.detail} {caught.value.__cause__!r}")
    assert token not in "\n".join([*said, caplog.text])
    assert len(caplog.text) > 100, "something was logged"


@pytest.mark.engine
@pytest.mark.parametrize("words", [["status", "--json"], ["list", "--json"], ["list"], ["status"], ["logs", "--lines", "10000"]])
def test_the_command_line(eng, token: str, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    if not any(found.url == eng.url for found in engine.list()):
        pytest.skip("this engine was not started here")
    assert main(["engine", *words]) == 0
    shown = capsys.readouterr()
    assert len(shown.out) > 20
    assert token not in shown.out + shown.err


@pytest.mark.engine
def test_the_kernels_files_and_command_lines(eng, token: str) -> None:
    """The settings it was started with and the presence file have it, both readable by their owner only; nothing else does."""
    presence = next((found.presence for found in engine.list() if found.url == eng.url), None)
    if presence is None:
        pytest.skip("this engine was not started here")
    httpx.get(f"{eng.url}/workbench/info", headers={"authorization": f"Bearer {token}"}, params={"x": "y"})
    httpx.get(f"{eng.url}/nowhere", headers={"authorization": f"Bearer {token}"})
    httpx.post(f"{eng.url}/v1/chat/completions", headers={"authorization": f"Bearer {token}"}, json={"messages": 5})
    home, runtime = places.engine_home(), places.runtime_folder()
    having = {
        path for folder in (home, runtime) for path in folder.rglob("*")
        if path.is_file() and path.stat().st_size < 64 << 20 and token.encode() in path.read_bytes()
    }  # fmt: skip
    assert {path.name for path in having} == {"settings.json", f"inkling-engine-{presence.nonce}.json"}
    assert {path.stat().st_mode & 0o077 for path in having} == {0}
    kernel = psutil.Process(presence.pid)
    for process in (kernel, *kernel.children(recursive=True)):
        assert token not in " ".join(process.cmdline())


@pytest.mark.engine
def test_widgets(eng, token: str) -> None:
    """What a widget holds is saved into the notebook, and what it sends is seen by the page."""
    from widgets import Chat, Composer, EngineStatus

    context = Context()
    made: list[Any] = [Chat(eng, context), Composer(context, eng), EngineStatus(eng)]
    try:
        for widget in made:
            state = {key: value for key, value in widget.get_state().items() if not isinstance(value, bytes)}
            assert token not in json.dumps(state, default=repr), type(widget).__name__
            assert token not in repr(widget._repr_mimebundle_()), type(widget).__name__
    finally:
        for widget in made:
            widget.close()


def test_saved_notebooks() -> None:
    """No output of a tutorial has a bearer token, a login address or a long hexadecimal secret that is no content hash."""
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        for cell in json.loads(path.read_text("utf-8"))["cells"]:
            for output in cell.get("outputs", ()):
                text = json.dumps({key: value for key, value in output.get("data", output).items() if not key.startswith("image/")})
                assert not re.search(r"[?&]token=|Bearer [A-Za-z0-9]|INKLING_\w*TOKEN=[^\s$]", text), path.name
                assert not re.search(r"(?<![0-9a-f:])[0-9a-f]{64}(?![0-9a-f])", text), path.name
