"""A real Chromium, a real JupyterLab, and where their screenshots go.

Chromium is the system's, driven by Playwright; without one the tests are skipped. It lives per module: Playwright keeps an event
loop running in the main thread, in which no other test could run its own. JupyterLab is started by the project's own launcher with
settings of its own, and looks for engines where the tests' engine is.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

import engine
from tests.browser.app_page import ready
from tests.browser.app_process import RunningApp, running_app

SCREENSHOTS = Path(__file__).parents[1] / "screenshots"
PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
KEPT = {
    "attention-view-light-1200": "attention_view", "chat-light-1200": "chat", "composer-light-1200": "composer",
    "engine-status-light-1200": "engine_status", "routing-map-light-1200": "routing_map", "sconv-view-light-1200": "sconv_view",
    "span-table-light-1200": "span_table",
}  # fmt: skip
"""Screenshots that the documentation shows; kept there when ``INKLING_KEEP_PICTURES`` is set."""
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--use-fake-ui-for-media-stream", "--use-fake-device-for-media-stream",
]  # fmt: skip
WAIT_MS = 120_000
"""A busy machine is slow, not broken."""

READY = """() => {
  const shown = window.jupyterapp?.shell.currentWidget;
  return shown?.sessionContext?.isReady && shown.sessionContext.session?.kernel?.connectionStatus === "connected";
}"""
"""The notebook's kernel answers. Waiting for the page alone loses the first keystroke now and then."""

EXECUTE = """async (code) => {
  const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
  const future = kernel.requestExecute({ code, store_history: false });
  let said = "";
  future.onIOPub = ({ header, content }) => {
    if (header.msg_type === "stream") said += content.text;
    if (header.msg_type === "error") said += content.traceback.join("\\n");
  };
  await future.done;
  return said;
}"""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """The browser."""
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, headless=True, args=ARGUMENTS)
        yield browser
        browser.close()


@dataclass
class Visit:
    """What a page did that it should not: script errors, and requests to other hosts."""

    errors: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)


@pytest.fixture
def visit(chromium: Browser) -> Iterator[Callable[..., Page]]:
    """``visit(url, width=1280, height=900, **context)`` opens a page of its own; at the end none may have misbehaved.

    ``hosts`` is a pattern of script errors that are the host page's own.
    """
    contexts, seen = [], Visit()

    def note_request(url: str) -> None:
        if not re.match(r"(https?|wss?)://(127\.0\.0\.1|localhost)[:/]|(data|blob|about|file):", url):
            seen.outside.append(url)

    def visit(url: str | None = None, *, width: int = 1280, height: int = 900, hosts: str = "(?!)", **options: Any) -> Page:
        context = chromium.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        context.set_default_timeout(WAIT_MS)
        page = context.new_page()
        page.on("pageerror", lambda error: re.search(hosts, str(error)) or seen.errors.append(str(error)))
        page.on("request", lambda request: note_request(request.url))
        if url is not None:
            page.goto(url)
        return page

    yield visit
    for context in contexts:
        context.close()
    assert not seen.errors
    assert not seen.outside


@pytest.fixture
def shoot() -> Callable[..., Path]:
    """``shoot(page, name)`` keeps a screenshot for people to look at."""
    SCREENSHOTS.mkdir(exist_ok=True)

    def shoot(page: Any, name: str, **options: Any) -> Path:
        path = SCREENSHOTS / f"{name}.png"
        page.screenshot(path=path, **options)
        if os.environ.get("INKLING_KEEP_PICTURES") and name in KEPT:
            shutil.copy(path, PICTURES / f"{KEPT[name]}.png")
        return path

    return shoot


@pytest.fixture(scope="module")
def app(eng: engine.Engine) -> Iterator[RunningApp]:
    """The app on the tests' engine, which it finds by itself and leaves running."""
    with running_app() as app:
        yield app
    assert eng.status()["alive"]


@pytest.fixture
def page(app: RunningApp, visit: Callable[..., Page]) -> Page:
    """The app's page, signed in."""
    return ready(visit(app.address))


@dataclass(frozen=True)
class Lab:
    """A running JupyterLab and the folder it serves."""

    url: str
    token: str
    folder: Path

    def open(self, page: Page, notebook: Path, *, name: str | None = None) -> None:
        """Open a copy of `notebook`, and wait until its kernel answers. JupyterLab saves by itself: never the original."""
        copy = self.folder / (name or f"{notebook.stem}-{secrets.token_hex(3)}.ipynb")
        shutil.copy(notebook, copy)
        page.goto(f"{self.url}/lab/tree/{copy.name}?token={self.token}&reset")
        page.wait_for_function(READY)

    @staticmethod
    def run_all(page: Page) -> None:
        """Run every cell and wait for the last; a cell that fails shows as an error output."""
        page.evaluate("() => window.jupyterapp.commands.execute('notebook:run-all-cells')")

    @staticmethod
    def python(page: Page, code: str) -> str:
        """Run `code` in the notebook's kernel, beside its cells; returns what it printed or the traceback."""
        return page.evaluate(EXECUTE, code)


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """JupyterLab with settings of its own. Ask for the engine fixture too where a notebook needs one."""
    from workbench.cli import lab as launcher

    home, folder = tmp_path_factory.mktemp("jupyter"), tmp_path_factory.mktemp("notebooks")
    settings = home / "settings"
    # All cells in the page: by default those out of sight are not there for a test to find.
    _write(settings / "@jupyterlab/notebook-extension/tracker.jupyterlab-settings", {"windowingMode": "none"})
    for name, app in (("jupyter_lab_config", "LabApp"), ("jupyter_notebook_config", "JupyterNotebookApp")):
        _write(home / f"config/{name}.json", {app: {"expose_app_in_browser": True}})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_CONFIG_DIR", str(home / "config"))
        patch.setenv("JUPYTERLAB_SETTINGS_DIR", str(settings))
        patch.setenv("JUPYTERLAB_WORKSPACES_DIR", str(home / "workspaces"))
        patch.setenv("IPYTHONDIR", str(home / "ipython"))
        port, token = launcher.free_port(), secrets.token_urlsafe(16)
        with launcher.jupyterlab(folder, port, token) as (process, log):
            launcher.wait_until_up(process, port, token, log)
            yield Lab(f"http://127.0.0.1:{port}", token, folder)


def _write(path: Path, values: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(values), encoding="utf-8")
