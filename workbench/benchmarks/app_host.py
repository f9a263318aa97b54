"""The app as people run it, and a reader at its page: what the bench of the app drives.

The app is the command, in a process and with a place for its desks of its own, on the engine that runs or on one it starts itself.
Knows the page by what a reader sees of it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import BenchError

WAIT_MS = 600_000
EVERY = 12
"""Keys between two rests."""

KEYS = """addEventListener("keydown", (event) => {
  const began = event.timeStamp;
  requestAnimationFrame(() => {
    const { port1, port2 } = new MessageChannel();
    port2.onmessage = () => (window.keys ??= []).push((performance.now() - began) / 1000);
    port1.postMessage(0);
  });
}, { capture: true });"""
"""A message sent in a frame's callback is taken up after that frame was drawn."""

LIVE = "(document.querySelector('.ink-chat .ink-live:not([hidden])')?.textContent ?? '').length"
IDLE = "() => document.querySelector('.ink-chat .ink-live[hidden]') !== null"
STOP = """() => {
  const live = document.querySelector(".ink-chat .ink-live:not([hidden])");
  if (live) document.querySelector(".ink-chat [title='Stop the answer']").click();
}"""
PRICED = "() => document.querySelector('.ink-chat .ink-cost')?.textContent.includes('for the answer')"


@contextmanager
def running_app(note: Callable[[str], None]) -> Iterator[str]:
    """``inkling app``, and the address it prints."""
    code = "import sys; from workbench.cli import main; sys.exit(main())"
    with tempfile.TemporaryDirectory() as cache:
        process = subprocess.Popen(
            [sys.executable, "-c", code, "app", "--json", "--port", "0"], stdout=subprocess.PIPE, text=True,
            env=os.environ | {"INKLING_CACHE": cache},
        )  # fmt: skip
        assert process.stdout is not None
        note("starting the app")
        line = process.stdout.readline()
        try:
            if not line:
                raise BenchError("the app did not start; what it said is above")
            values = json.loads(line)
            yield f"{values['url']}?token={values['token']}"
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()


class Desk:
    """A browser of its own on the app's page."""

    def __init__(self, chromium: Any, address: str) -> None:
        context = chromium.new_context(viewport={"width": 1_280, "height": 900})
        context.set_default_timeout(WAIT_MS)
        self.page = page = context.new_page()
        page.add_init_script(KEYS)
        page.goto(address)
        page.locator("#budget table").wait_for()
        self._tab("Chat")
        self._box = page.get_by_label("Your message")
        self._box.wait_for()
        self._set("Temperature", 2)
        self._set("Answer up to", 20_000)

    @property
    def answering(self) -> bool:
        """An answer is being written."""
        return self.page.evaluate(LIVE) > 0

    def compose(self, path: Path) -> int:
        """Drop a file; returns the prompt's tokens, as the budget says."""
        page = self.page
        self._tab("Compose")
        page.locator("#files input[type=file]").first.set_input_files(path)
        page.locator("#budget tr", has_text=path.name).wait_for()
        found = (
            page.locator("#budget tr", has=page.get_by_role("rowheader", name="prompt", exact=True)).locator("td").last.inner_text()
        )
        self._tab("Chat")
        return int(found.replace(",", ""))

    def take_away(self) -> None:
        """Take the waiting file away."""
        self._tab("Compose")
        self.page.locator("#waiting label").first.click()
        self.page.locator("#waiting label").first.wait_for(state="hidden")
        self._tab("Chat")

    def ask_at_length(self, characters: int) -> None:
        """Have an answer under way that is so long; one that ends before that is asked for again."""
        for _ in range(60):
            before = self.page.locator(".ink-turn.is-user").count()
            self._box.fill("Go on for ever.")
            self._box.press("Enter")
            self.page.wait_for_function(f"document.querySelectorAll('.ink-turn.is-user').length > {before}")
            # The question and its answer's place come in one frame.
            self.page.wait_for_function(f"{LIVE} > {characters} || ({IDLE})()")
            if self.page.evaluate(LIVE) > characters:
                return
        raise BenchError("sixty answers ended early: the model does not go on for long", characters=characters)

    def stop(self) -> None:
        """End the answer, if one is under way."""
        self.page.evaluate(STOP)
        self.page.wait_for_function(IDLE)

    def type(self, keys: int) -> list[float]:
        """Press so many keys in the message box, 60 ms apart with a rest now and then; seconds to paint of each."""
        page = self.page
        self._box.fill("")
        self._box.focus()
        page.evaluate("window.keys = []")
        for n in range(keys):
            page.keyboard.press("abcdefghijklmnopqrstuvwxyz "[n % 27])
            time.sleep(0.5 if n % EVERY == EVERY - 1 else 0.06)
        page.wait_for_function(f"window.keys.length >= {keys}")
        taken = page.evaluate("window.keys")[:keys]
        self._box.fill("")
        return taken

    def price(self) -> float:
        """Seconds from the last key until the message's price is shown, its rest of 0.3 s included."""
        page = self.page
        self._box.fill("")
        page.wait_for_function("() => document.querySelector('.ink-chat .ink-cost').textContent === ''")
        began = time.perf_counter()
        self._box.press("a")
        page.wait_for_function(PRICED)
        return time.perf_counter() - began

    def _tab(self, name: str) -> None:
        self.page.get_by_role("tab", name=name).click()

    def _set(self, label: str, value: float) -> None:
        field = self.page.locator(".ink-chat").get_by_label(label)
        field.fill(str(value))
        field.press("Tab")
