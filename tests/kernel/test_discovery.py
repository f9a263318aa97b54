"""Presence files against small real servers: what is found, what is believed, what is cleaned away."""

import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

import engine
from engine import discovery
from engine.errors import EngineAmbiguous, EngineAuthError, EngineNotFound, EngineUnreachable, EngineVersionError
from engine.protocol import EngineInfo, Limits
from engine.protocol.presence import PREFIX, Presence, boot_id

TOKEN = "token-of-the-small-server"


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        known = self.headers["authorization"] == f"Bearer {TOKEN}"
        body = json.dumps(self.server.info if known else {"error": {"code": "engine-auth", "message": "no"}}).encode()  # type: ignore[attr-defined]
        self.send_response(200 if known else 401)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_args: object) -> None:
        pass


@pytest.fixture
def serve() -> Iterator:
    """Start a server that answers as an engine with this nonce does; its presence."""
    servers = []

    def start(nonce: str, *, recipe: str = "demo", said: str | None = None, **values) -> Presence:
        server = HTTPServer(("127.0.0.1", 0), _Handler)
        info = EngineInfo(kind="workbench", nonce=said or nonce, model="m", limits=Limits(context_tokens=9), **values)
        server.info = info.model_dump(mode="json")  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return presence(nonce, f"http://127.0.0.1:{server.server_port}", recipe=recipe)

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def presence(nonce: str, url: str, **values) -> Presence:
    here = {"host": os.uname().nodename, "boot_id": boot_id(), "token": TOKEN, "model": "m", "pid": 1}
    return Presence(url=url, nonce=nonce, **here | values)


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
    monkeypatch.delenv(discovery.URL_ENV, raising=False)
    return tmp_path


def test_the_only_engine_is_found_and_its_file_is_private(runtime: Path, serve) -> None:
    path = serve("one").write(runtime)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.name == f"{PREFIX}one.json"
    assert engine.attach().info.nonce == "one"
    (found,) = engine.list()
    assert (found.recipe, found.local) == ("demo", True)
    assert TOKEN not in repr(found)


def test_two_engines_must_be_told_apart(runtime: Path, serve) -> None:
    one, two = serve("one"), serve("two", recipe="other")
    one.write(runtime)
    two.write(runtime)
    with pytest.raises(EngineAmbiguous) as caught:
        engine.attach()
    assert one.url in caught.value.message
    assert two.url in caught.value.message
    assert engine.attach(recipe="other").info.nonce == "two"
    assert engine.attach(one.url).info.nonce == "one"


def test_nothing_running_says_how_to_start(runtime: Path) -> None:
    with pytest.raises(EngineNotFound, match=r"engine\.start"):
        engine.attach()


def closed_port() -> str:
    server = HTTPServer(("127.0.0.1", 0), _Handler)
    server.server_close()
    return f"http://127.0.0.1:{server.server_port}"


def test_a_refused_address_of_this_boot_is_cleaned_away_others_are_left(runtime: Path) -> None:
    url = closed_port()
    gone = presence("gone", url).write(runtime)
    elsewhere = presence("elsewhere", url, host="another-host").write(runtime)
    earlier = presence("earlier", url, boot_id="another-boot").write(runtime)
    assert engine.list() == []
    assert [path.exists() for path in (gone, elsewhere, earlier)] == [False, True, True]


def test_a_process_that_took_the_port_over_is_not_believed(runtime: Path, serve) -> None:
    other = serve("new")
    path = presence("old", other.url).write(runtime)
    assert engine.list() == []
    assert not path.exists()


def test_files_that_others_could_have_written_and_files_that_are_no_presence_are_passed_over(runtime: Path, serve) -> None:
    path = serve("one").write(runtime)
    path.chmod(0o644)
    (runtime / f"{PREFIX}broken.json").write_text("{", "utf-8")
    (runtime / f"{PREFIX}broken.json").chmod(0o600)
    assert engine.list() == []
    assert path.exists()


def test_the_environment_names_an_engine_outright(runtime: Path, serve, monkeypatch: pytest.MonkeyPatch) -> None:
    serve("one").write(runtime)
    two = serve("two")
    monkeypatch.setenv(discovery.URL_ENV, two.url)
    monkeypatch.setenv(discovery.TOKEN_ENV, TOKEN)
    assert engine.attach().info.nonce == "two"
    monkeypatch.setenv(discovery.TOKEN_ENV, "another")
    with pytest.raises(EngineAuthError, match="token"):
        engine.attach()


def test_another_version_of_the_api_is_refused(runtime: Path, serve) -> None:
    serve("one", api_version=99).write(runtime)
    with pytest.raises(EngineVersionError, match="99"):
        engine.attach()


def test_an_address_where_nothing_listens(runtime: Path) -> None:
    with pytest.raises(EngineUnreachable, match="nothing answers"):
        engine.attach(closed_port(), "t" * 16)


@pytest.mark.parametrize("env", [{}, {"XDG_DATA_HOME": "x"}, {"JUPYTER_DATA_DIR": "y"}, {"JUPYTER_PLATFORM_DIRS": "1"}])
def test_without_jupyter_the_folder_is_the_one_jupyter_takes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, env: dict[str, str]
) -> None:
    from jupyter_core.paths import jupyter_runtime_dir

    from engine.protocol.places import _data_folder, runtime_folder

    monkeypatch.delenv("JUPYTER_RUNTIME_DIR", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_DATA_HOME", "JUPYTER_DATA_DIR", "JUPYTER_PLATFORM_DIRS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, str(tmp_path / value) if name != "JUPYTER_PLATFORM_DIRS" else value)
    assert str(runtime_folder()) == jupyter_runtime_dir()
    assert str(_data_folder() / "runtime") == jupyter_runtime_dir()
