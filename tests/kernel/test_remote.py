"""An engine on another machine, an SSH tunnel away: the same with a plain forwarder of TCP in the tunnel's place.

What a tunnel does is another address, a hop for every byte, and ends that come at once. The client is given the URL and the token,
finds nothing by itself, and everything has to work: answers in a stream, uploads, captures by slice, leaving early.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import engine
from engine.errors import EngineAuthError, EngineDied, EngineUnreachable
from engine.protocol import Reasoning, Text
from workbench import CapturePlan, Context, samples

pytestmark = pytest.mark.engine


class Tunnel:
    """Forwards connections to a port of this machine, and counts bytes each way."""

    def __init__(self, port: int) -> None:
        self._to, self.up_bytes, self.down_bytes = port, 0, 0
        self._loop, ready = asyncio.new_event_loop(), threading.Event()
        self._writers: set[asyncio.StreamWriter] = set()

        async def begin() -> None:
            self._server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
            self.port = self._server.sockets[0].getsockname()[1]
            ready.set()

        def run() -> None:
            self._loop.create_task(begin())
            self._loop.run_forever()

        threading.Thread(target=run, daemon=True).start()
        assert ready.wait(10)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._to)
        self._writers |= {writer, far_writer}

        async def one_way(source: asyncio.StreamReader, sink: asyncio.StreamWriter, up: bool) -> None:
            try:
                while piece := await source.read(65_536):
                    if up:
                        self.up_bytes += len(piece)
                    else:
                        self.down_bytes += len(piece)
                    sink.write(piece)
                    await sink.drain()
            except OSError:
                pass
            finally:
                sink.close()

        await asyncio.gather(one_way(reader, far_writer, True), one_way(far_reader, writer, False))

    def cut(self) -> None:
        """The network goes: nothing is let in any more, and what was open ends."""

        def end() -> None:
            self._server.close()
            for writer in self._writers:
                writer.transport.abort()

        self._loop.call_soon_threadsafe(end)


@pytest.fixture
def tunnel(eng, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Tunnel]:
    """A laptop's view: no runtime folder with engines in it, only the tunnel's end."""
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
    monkeypatch.delenv("INKLING_ENGINE_URL", raising=False)
    made = Tunnel(int(eng.url.rpartition(":")[2]))
    yield made
    made.cut()


def test_everything_works_with_an_address_and_a_token(eng, tunnel: Tunnel) -> None:
    url = f"http://127.0.0.1:{tunnel.port}"
    with pytest.raises(EngineAuthError):
        engine.attach(url)
    far = engine.attach(url, eng._connection.token)
    assert (far.info, far.log) == (eng.info, None), "its log is on the other machine"
    context = Context(effort="none")
    context.add_document(samples.paths()["document"])
    context.add_image(samples.paths()["image"])
    context.ask(samples.QUESTION)
    assert far.generate(context, max_tokens=8, temperature=0).token_ids.tolist() == (
        eng.generate(context, max_tokens=8, temperature=0).token_ids.tolist()
    )
    sent = tunnel.up_bytes
    longer = context.copy()
    longer.ask("And the code of the north gate?")
    far.generate(longer, max_tokens=2, temperature=0)
    assert tunnel.up_bytes - sent < 20_000, "only what is new travels"


def test_a_captures_arrays_are_fetched_by_slice(eng, tunnel: Tunnel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.captures.FETCH_BYTES", 0)  # as if it were a large one
    far = engine.attach(f"http://127.0.0.1:{tunnel.port}", eng._connection.token)
    context = Context(effort="none")
    context.add_document(samples.paths()["document"])
    context.ask("Who?")
    routing = far.capture(context, CapturePlan(routing=True)).routing
    name = max(routing.data_vars, key=lambda name: routing[name].nbytes)
    before, whole = tunnel.down_bytes, routing[name].nbytes
    rows = np.asarray(routing[name][:2])
    assert rows.shape[0] == 2
    assert tunnel.down_bytes - before < rows.nbytes + 4_096, f"two rows of {whole:,} bytes"


def test_a_cut_tunnel_is_told_at_once_and_the_engine_goes_on(eng, tunnel: Tunnel) -> None:
    far = engine.attach(f"http://127.0.0.1:{tunnel.port}", eng._connection.token)
    context = Context()
    context.ask("Go on for ever.")

    def follow() -> None:
        for event in far.stream(context, max_tokens=100_000, temperature=2.0, seed=1):
            if isinstance(event, Text | Reasoning):
                tunnel.cut()

    with pytest.raises((EngineDied, EngineUnreachable)):
        follow()
    for _ in range(200):
        if not eng.status()["requests"]:
            break
        threading.Event().wait(0.1)
    assert not eng.status()["requests"], "a request whose client is out of reach is aborted"
