"""A widget's module in a real browser with its real answers behind it, and nothing else: what a bench of widgets drives.

The page is a host as the notebook and the app are: traits by name, questions answered by the same functions, over loopback HTTP.
Bytes are counted where they pass. Knows no particular widget.
"""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from ..errors import BenchError
from ..esm import inline, style, widget_folder

Answer = Callable[[Any], tuple[dict[str, Any], list[bytes]]]

PAGE = """<!doctype html><meta charset="utf-8"><title>bench</title><style>body { margin: 16px; background: #fff } %s</style>
<div id="host"></div><script type="module">
import widget from "/module.js";
const listeners = new Map();
const packed = async (answer) => {
  const bytes = await answer.arrayBuffer();
  const size = new DataView(bytes).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(bytes, 4, size)));
  let at = 4 + size;
  return { head: head.json, buffers: head.sizes.map((n) => { const view = new DataView(bytes, at, n); at += n; return view; }) };
};
const emit = (name, ...values) => { for (const listener of [...(listeners.get(name) ?? [])]) listener(...values); };
const { head, buffers } = await packed(await fetch("/state"));
const state = { ...head.plain };
head.binary.forEach((name, i) => { state[name] = buffers[i]; });
window.open_questions = 0;
window.model = {
  get: (name) => state[name], set(name, value) { state[name] = value; emit(`change:${name}`); }, save_changes() {},
  on(name, listener) { if (!listeners.has(name)) listeners.set(name, new Set()); listeners.get(name).add(listener); },
  off(name, listener) { listeners.get(name)?.delete(listener); },
  async send(content) {
    window.open_questions += 1;
    const answer = await packed(await fetch("/ask", { method: "POST", body: JSON.stringify(content) }));
    emit("msg:custom", answer.head, answer.buffers); // may ask the next one
    window.open_questions -= 1;
  },
};
widget.render({ model: window.model, el: document.getElementById("host") });
requestAnimationFrame(() => requestAnimationFrame(() => { window.painted_ms = performance.now(); }));
</script>"""


@dataclass
class Hosted:
    """A page with a widget in it.

    Attributes
    ----------
    page : playwright.sync_api.Page
    sent, received : list of int
        Bytes of every question, and of every answer.
    """

    page: Any
    url: str
    sent: list[int] = field(default_factory=list)
    received: list[int] = field(default_factory=list)

    @property
    def carried(self) -> int:
        """Bytes both ways until now."""
        return sum(self.sent) + sum(self.received)


@contextmanager
def browser() -> Iterator[Any]:
    """A headless Chromium.

    Raises
    ------
    BenchError
        No Chromium, or no Playwright to drive it.
    """
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise BenchError("this bench drives a browser: pip install 'inkling-workbench[dev]' for playwright") from None
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if path is None:
        raise BenchError("this bench drives a browser, and there is no chromium here: install it")
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=path, headless=True, args=["--no-sandbox", "--disable-gpu"])
        try:
            yield found
        finally:
            found.close()


@contextmanager
def hosted(chromium: Any, name: str, state: dict[str, Any], answer: Answer, *, width: int = 1_200) -> Iterator[Hosted]:
    """Show the widget `name` with these traits; questions are answered by `answer`."""
    binary = [key for key, value in state.items() if isinstance(value, bytes)]
    plain = {key: value for key, value in state.items() if key not in binary}
    served = {
        "/": (PAGE % style(name)).encode(), "/module.js": inline(widget_folder(name) / "index.js").encode(),
        "/state": _packed({"plain": plain, "binary": binary}, [state[key] for key in binary]),
    }  # fmt: skip
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    context = chromium.new_context(viewport={"width": width, "height": 1_400})
    shown = Hosted(context.new_page(), f"http://127.0.0.1:{server.server_address[1]}/")
    server.shown, server.served, server.answer = shown, served, answer  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield shown
    finally:
        context.close()
        server.shutdown()
        server.server_close()


def _packed(values: Any, buffers: list[bytes]) -> bytes:
    head = json.dumps({"json": values, "sizes": [len(item) for item in buffers]}).encode()
    return len(head).to_bytes(4, "little") + head + b"".join(buffers)


class _Handler(BaseHTTPRequestHandler):
    server: Any

    def do_GET(self) -> None:
        path = self.path.split("?")[0]
        kind = {"/": "text/html", "/module.js": "text/javascript"}.get(path, "application/octet-stream")
        body = self.server.served.get(path)
        self._say(404 if body is None else 200, body or b"", kind)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        reply = _packed(*self.server.answer(json.loads(body)))
        self.server.shown.sent.append(len(body))
        self.server.shown.received.append(len(reply))
        self._say(200, reply, "application/octet-stream")

    def _say(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""
