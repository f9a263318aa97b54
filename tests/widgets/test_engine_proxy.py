"""The Jupyter server extension in a real Jupyter server: who is let in, what passes and how, and that no token ever leaves.

A small server stands in for an engine where the test is about passing things on (what an engine is asked, in which pieces); the
real engine answers where its answers matter.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from engine.errors import BadRequest
from engine.protocol.presence import Presence, boot_id
from widgets.engine_proxy import checked_path
from workbench import Context
from workbench.cli.lab import EXTENSIONS, free_port

TOKEN = secrets.token_hex(16)
ENGINE_TOKEN, NONCE = "engine-" + secrets.token_hex(16), secrets.token_hex(8)


class Upstream(BaseHTTPRequestHandler):
    """Answers like an engine, and notes what it was asked."""

    protocol_version = "HTTP/1.1"
    asked: list[dict[str, Any]] = []
    go_on = threading.Event()
    left = threading.Event()

    def log_message(self, *_: Any) -> None: ...

    def _answer(self, status: int, body: bytes, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _note(self, body: bytes = b"") -> None:
        Upstream.asked.append(
            {"path": self.path, "headers": dict(self.headers), "bytes": len(body), "hash": hashlib.sha256(body).hexdigest()}
        )

    def do_GET(self) -> None:
        self._note()
        if self.path == "/workbench/info":
            known = self.headers["authorization"] == f"Bearer {ENGINE_TOKEN}"
            self._answer(200 if known else 401, json.dumps({"nonce": NONCE}).encode())
        elif self.path == "/workbench/status":
            self._stream()
        else:
            self._answer(404, b'{"error": {"code": "context-unknown", "message": "no", "detail": {}}}')

    def do_PUT(self) -> None:
        if int(self.headers["content-length"]) > 50_000_000:
            self._answer(400, b'{"error": {"code": "bad-request", "message": "too large", "detail": {}}}')
            self.rfile.read(int(self.headers["content-length"]))  # unread bytes would reset the connection, and lose the answer
            return
        self._note(self.rfile.read(int(self.headers["content-length"])))
        self._answer(201, b"{}")

    def _stream(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        self.close_connection = True
        try:
            self.wfile.write(b"event: one\ndata: {}\n\n")
            self.wfile.flush()
            Upstream.go_on.wait(30)
            for _ in range(200):  # a page that has left is noticed at a later write
                self.wfile.write(b"event: two\ndata: {}\n\n")
                self.wfile.flush()
                time.sleep(0.02)
        except OSError:
            Upstream.left.set()


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A runtime folder in which the stand-in is present as an engine."""
    folder = tmp_path_factory.mktemp("runtime")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    Presence(
        url=f"http://127.0.0.1:{server.server_port}", token=ENGINE_TOKEN, nonce=NONCE, model="stand-in", recipe="test",
        host=os.uname().nodename, boot_id=boot_id(), pid=os.getpid(),
    ).write(folder)  # fmt: skip
    yield folder
    server.shutdown()


def jupyter(folder: Path, **variables: str) -> Iterator[str]:
    """The address of a Jupyter server of its own with the extension on."""
    config = folder / "config" / "jupyter_server_config.d"
    config.mkdir(parents=True)
    (config / "inkling.json").write_text(json.dumps(EXTENSIONS), "utf-8")
    port = free_port()
    environment = os.environ | {"JUPYTER_CONFIG_DIR": str(folder / "config"), "JUPYTER_TOKEN": TOKEN} | variables
    command = [
        sys.executable, "-m", "jupyter_server", "--no-browser", "--allow-root", f"--ServerApp.port={port}",
        "--ServerApp.port_retries=0", f"--ServerApp.root_dir={folder}", "--ServerApp.base_url=/user/me/",
    ]  # fmt: skip
    with (folder / "jupyter.log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
    address = f"http://127.0.0.1:{port}/user/me"
    try:
        for _ in range(600):
            assert process.poll() is None, (folder / "jupyter.log").read_text()
            try:
                if httpx.get(f"{address}/api/status", params={"token": TOKEN}).is_success:
                    break
            except httpx.TransportError:
                time.sleep(0.1)
        yield address
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(30)
    log = (folder / "jupyter.log").read_text("utf-8")
    assert ENGINE_TOKEN not in log
    assert "Traceback" not in log, log


@pytest.fixture(scope="module")
def server(runtime: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    yield from jupyter(tmp_path_factory.mktemp("jupyter"), JUPYTER_RUNTIME_DIR=str(runtime), INKLING_ENGINE_URL="")


@pytest.fixture
def page(server: str) -> Iterator[httpx.Client]:
    """A client as a browser's page is one: logged in by cookie, with the cross-site token where something changes."""
    with httpx.Client(base_url=server, timeout=30) as client:
        assert client.get("/login", params={"token": TOKEN}, follow_redirects=True).is_success
        assert client.get("/api/status").is_success
        client.headers["x-xsrftoken"] = client.cookies["_xsrf"]
        Upstream.asked.clear()
        yield client


def test_engines_are_listed_without_address_and_token(page: httpx.Client) -> None:
    answer = page.get("/inkling/engines")
    (one,) = answer.json()["engines"]
    assert (one["id"], one["model"], one["recipe"]) == (NONCE, "stand-in", "test")
    assert ENGINE_TOKEN not in answer.text
    assert "http" not in answer.text


def test_the_engine_is_asked_with_its_own_token_and_the_page_never_sees_it(page: httpx.Client) -> None:
    answer = page.get(f"/inkling/engines/{NONCE}/workbench/info", headers={"accept": "application/json"})
    assert answer.json() == {"nonce": NONCE}
    (asked,) = [one for one in Upstream.asked if "cookie" not in one["path"]][-1:]
    headers = {name.lower(): value for name, value in asked["headers"].items()}
    assert headers["authorization"] == f"Bearer {ENGINE_TOKEN}"
    assert not {"cookie", "x-xsrftoken", "referer"} & headers.keys(), "the page's own credentials go no further"
    assert ENGINE_TOKEN not in answer.text + str(answer.headers)
    assert "sandbox" in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("path", ["/inkling/engines", f"/inkling/engines/{NONCE}/workbench/info"])
def test_nobody_is_let_in_without_jupyters_login(server: str, path: str) -> None:
    Upstream.asked.clear()
    for options in ({}, {"params": {"token": "wrong"}}, {"headers": {"authorization": f"Bearer {ENGINE_TOKEN}"}}):
        answer = httpx.get(server + path, **options)
        assert answer.status_code in (302, 403)
    assert not Upstream.asked


def test_another_sites_page_is_turned_away(page: httpx.Client) -> None:
    blob = f"/inkling/engines/{NONCE}/workbench/blobs/sha256:{'0' * 64}"
    del page.headers["x-xsrftoken"]
    # No body: who is turned away at once may find the connection closed before it has sent one.
    assert page.put(blob, content=b"").status_code == 403, "a cookie alone changes nothing"
    assert page.get(f"/inkling/engines/{NONCE}/workbench/info", headers={"origin": "http://evil.example"}).status_code in (403, 404)
    assert not Upstream.asked


def test_an_upload_passes_in_pieces_and_whole(page: httpx.Client) -> None:
    content = os.urandom(20_000_000)
    name = hashlib.sha256(content).hexdigest()

    def pieces() -> Iterator[bytes]:
        for at in range(0, len(content), 1_000_000):
            yield content[at : at + 1_000_000]

    answer = page.put(
        f"/inkling/engines/{NONCE}/workbench/blobs/sha256:{name}", content=pieces(), headers={"content-length": str(len(content))}
    )
    assert answer.status_code == 201
    assert (Upstream.asked[-1]["bytes"], Upstream.asked[-1]["hash"]) == (len(content), name)
    assert Upstream.asked[-1]["path"] == f"/workbench/blobs/sha256:{name}"


def test_an_engines_own_limit_is_the_one_that_counts(page: httpx.Client) -> None:
    """It refuses by the length it is told, before the body came."""
    answer = page.put(f"/inkling/engines/{NONCE}/workbench/blobs/sha256:{'1' * 64}", content=b"x" * 60_000_000)
    assert (answer.status_code, answer.json()["error"]["message"]) == (400, "too large")


def test_a_stream_comes_as_it_is_made_and_ends_with_the_page(page: httpx.Client) -> None:
    Upstream.go_on.clear()
    Upstream.left.clear()
    with page.stream("GET", f"/inkling/engines/{NONCE}/workbench/status", headers={"accept": "text/event-stream"}) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = answer.iter_lines()
        assert next(lines) == "event: one", "the first event is here while the second is not even made"
        Upstream.go_on.set()
        assert next(line for line in lines if line.startswith("event")) == "event: two"
    assert Upstream.left.wait(20), "a page that leaves cuts its request off"


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("nobody/workbench/info", 404, "engine-not-found"),
        (f"{NONCE}/metrics", 400, "bad-request"),
        (f"{NONCE}/workbench/%2e%2e/metrics", 400, "bad-request"),
        (f"{NONCE}/workbench/shutdown", 400, "bad-request"),
        (f"{NONCE}/v1/models", 404, "context-unknown"),
    ],
)
def test_other_ways_are_refused_in_our_form(page: httpx.Client, path: str, status: int, code: str) -> None:
    answer = page.get(f"/inkling/engines/{path}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


@pytest.mark.parametrize("path", ["workbench/shutdown/", "docs", "workbench/./shutdown", "v2/x"])
def test_checked_paths(path: str) -> None:
    with pytest.raises(BadRequest):
        checked_path(path)


@pytest.mark.engine
def test_a_page_asks_the_real_engine(eng, places: Path, tmp_path: Path) -> None:
    """What a page can do without a kernel: see the engine, follow an answer, fetch nothing that it may not."""
    context = Context()
    context.ask("One word, please.")
    name = eng.generate(context, max_tokens=1, temperature=0).context
    for address in jupyter(tmp_path, INKLING_ENGINE_URL=eng.url, INKLING_ENGINE_TOKEN=eng._connection.token):
        headers = {"authorization": f"token {TOKEN}", "accept": "text/event-stream"}
        with httpx.Client(base_url=f"{address}/inkling/engines", headers=headers, timeout=120) as client:
            engines = {one["id"] for one in client.get("").json()["engines"]}
            assert "named" in engines
            body = {"context": name, "sampling": {"max_tokens": 3, "temperature": 0}}
            with client.stream("POST", "/named/workbench/generate", json=body) as answer:
                events = [line.removeprefix("event: ") for line in answer.iter_lines() if line.startswith("event: ")]
            assert events[-1] == "Done"
