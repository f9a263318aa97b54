"""The app behind Jupyter: its tile in JupyterLab's launcher, and under the path of a proxy that people set up themselves."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.browser.app_page import WAIT_MS, answered, ask, ready, tab, upload, with_samples
from tests.browser.app_process import running_app
from workbench import samples
from workbench.cli.lab import free_port

if TYPE_CHECKING:
    from engine import Engine

pytestmark = [pytest.mark.engine, pytest.mark.browser, pytest.mark.slow]  # a server, a proxy and an app of their own


def test_the_launcher_s_tile_opens_it_and_signs_in(
    eng: Engine, lab: Any, visit: Callable[..., Page], shoot: Callable[..., Path]
) -> None:
    if not [item for item in entry_points(group="jupyter_serverproxy_servers") if item.name == "inkling-app"]:
        pytest.skip("this installation is older than the entry point: install the project again")
    page = visit(f"{lab.url}/server-proxy/servers-info?token={lab.token}")
    entry = next(item for item in json.loads(page.inner_text("body"))["server_processes"] if item["name"] == "inkling-app")
    assert entry["launcher_entry"]["title"] == "Inkling Workbench"
    page.goto(f"{lab.url}/lab?reset")
    tile = page.locator(".jp-LauncherCard", has_text="Inkling Workbench")
    expect(tile).to_be_visible(timeout=WAIT_MS)
    shoot(page, "app-launcher")
    with page.expect_popup(timeout=WAIT_MS) as opened:
        tile.click()
    shown = ready(opened.value)
    assert "/inkling-app/ui/" in shown.url
    with_samples(shown)
    ask(shown, max_tokens=4)
    answered(shown)
    tab(shown, "Inspect")
    expect(shown.locator("#routing-map .ink-routing")).to_be_visible(timeout=WAIT_MS)
    shoot(shown, "app-in-jupyter", full_page=True)


def test_it_answers_under_the_path_of_a_proxy(
    eng: Engine, lab: Any, visit: Callable[..., Page], shoot: Callable[..., Path]
) -> None:
    port = free_port()
    with running_app("--port", str(port), "--root-path", f"/proxy/{port}") as app:
        assert urlsplit(app.url).path == f"/proxy/{port}/"
        page = visit(f"{lab.url}/lab?token={lab.token}&reset")
        # Jupyter let the reader in; the app asks for its own token all the same.
        page.goto(f"{lab.url}/proxy/{port}/ui/")
        page.locator("#token").fill(app.token)
        page.get_by_role("button", name="Sign in").click()
        ready(page)
        assert urlsplit(page.url).path == f"/proxy/{port}/ui/"
        upload(page, samples.paths()["document"])
        expect(page.locator("#budget")).to_contain_text("harbour.pdf", timeout=WAIT_MS)
        ask(page, max_tokens=8, temperature=0)
        assert answered(page)["answer"] > 0
        tab(page, "Compose")
        with page.expect_download() as saved:
            page.locator("#save").click()
        assert saved.value.suggested_filename == "run.inkling"
        shoot(page, "app-behind-a-proxy", full_page=True)
