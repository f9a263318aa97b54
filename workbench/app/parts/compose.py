"""Compose: files in, the exact budget out.

The files here go with the next question; once asked, they are part of the conversation and of its budget. Files are read when they
are dropped, so that a bad one is refused here and not later.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gradio as gr

from engine.errors import InklingError
from engine.protocol import EFFORTS
from workbench import samples

from ..desk import Desk, Options
from ..link import Link
from ..showing import budget_html, problem_html

EFFORT_CHOICES = [(f"{name} ({value:g})", name) for name, value in EFFORTS.items() if name != "max"]
"""``max`` is ``xhigh`` by another name: both send 0.99."""


@dataclass(frozen=True, slots=True)
class Compose:
    """Components of this section."""

    files: gr.File
    samples: gr.Button
    clear: gr.Button
    problem: gr.HTML
    effort: gr.Dropdown
    max_tokens: gr.Number
    temperature: gr.Number
    budget: gr.HTML

    @property
    def options(self) -> list[gr.Dropdown | gr.Number]:
        """What goes with every question."""
        return [self.effort, self.max_tokens, self.temperature]


def lay_out() -> Compose:
    """Make the components where the caller's layout context is."""
    gr.HTML("<h2>Compose</h2>", elem_classes="heading")
    files = gr.File(file_count="multiple", label="Documents, images, recordings", height=205, elem_id="files")
    with gr.Row(elem_classes="buttons"):
        load = gr.Button("Load the samples", elem_id="samples", size="sm", min_width=120)
        clear = gr.Button("Start over", elem_id="clear", size="sm", min_width=120)
    problem = gr.HTML(elem_id="compose-problem")
    with gr.Row(elem_classes="options"):
        effort = gr.Dropdown(
            EFFORT_CHOICES, value="low", label="Thinking effort", elem_id="effort", min_width=140, allow_custom_value=True,
            info="Or a number, 0 to 0.99.",
        )  # fmt: skip
        max_tokens = gr.Number(
            128, label="Answer at most", info="Tokens kept for it.", precision=0, elem_id="max-tokens", min_width=110
        )  # fmt: skip
        temperature = gr.Number(
            0, label="Temperature", info="0 is greedy, 2 is wild.", step=0.1, elem_id="temperature", min_width=110
        )
    budget = gr.HTML(elem_id="budget", elem_classes="table")
    return Compose(files, load, clear, problem, effort, max_tokens, temperature, budget)


def wire(compose: Compose, desk: gr.State, page: gr.Blocks, question: gr.Textbox, link: Link) -> Callable[..., Any]:
    """Connect what this section does by itself: files and options change the budget.

    Returns
    -------
    callable
        ``recount(event)`` connects a new count to an event of another section.
    """
    options = [question, *compose.options]
    shown = [compose.files, compose.problem, compose.budget]

    def take(desk: Desk, files: list[str] | None, *given: Any) -> tuple[Any, str, Any]:
        problems = desk.put_files(files or [])
        return (gr.update(value=desk.files) if problems else gr.skip()), problem_html(*problems), count(desk, *given)

    def count(desk: Desk, *given: Any) -> Any:
        try:
            found = desk.budget(link, Options.read(*given))
        except InklingError as problem:
            return problem_html(problem.message)
        return budget_html(found) if found else gr.skip()

    def bundled(asked: str) -> tuple[list[str], str]:
        return [str(path) for path in samples.paths().values()], asked or samples.QUESTION

    quiet: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
    everything = [desk, compose.files, *options]
    for event in (compose.files.upload, compose.files.delete, compose.files.clear):
        event(
            take,
            everything,
            shown,
            show_progress="minimal",
            show_progress_on=compose.budget,
            api_visibility="private",
        )
    compose.samples.click(bundled, question, [compose.files, question], **quiet).then(take, everything, shown, **quiet)
    # One count at a time, then one more for the last letter: a long context never queues up behind the typing. Not `input`, which
    # does not come for what was pasted with the mouse.
    for event in (question.change, compose.effort.change, compose.max_tokens.change):
        event(count, [desk, *options], compose.budget, trigger_mode="always_last", **quiet)

    def recount(event: Callable[..., Any]) -> None:
        event(count, [desk, *options], compose.budget, **quiet)

    recount(page.load)
    return recount
