"""Compose: files and recordings in, what stands before everything, and the exact budget out, by part and as a tree.

What is put here goes with the next question; once asked, it is part of the conversation and of its budget. Files are read when
they come, so that a bad one is refused here and not later. A run is saved as one file and opened again here.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gradio as gr

from engine.errors import InklingError
from workbench import samples

from ..desk import Desk
from ..link import Link
from ..showing import budget_html, problem_html, tree_html

RECORDING = "recording.wav"


@dataclass(frozen=True, slots=True)
class Compose:
    """Components of this section."""

    files: gr.File
    microphone: gr.Audio
    waiting: gr.CheckboxGroup
    samples: gr.Button
    clear: gr.Button
    open: gr.UploadButton
    problem: gr.HTML
    system: gr.Textbox
    tools: gr.Textbox
    fix: gr.Button
    budget: gr.HTML
    tree: gr.HTML

    @property
    def shown(self) -> list[Any]:
        """What a change of the desk changes here; see :func:`show`."""
        return [self.waiting, self.budget, self.tree]

    @property
    def before(self) -> list[Any]:
        """What stands before everything: filled in when the desk is another, never while somebody writes there."""
        return [self.system, self.tools]


def lay_out(*, prefix: str) -> Compose:
    """Make the components where the caller's layout context is."""
    with gr.Row(elem_id="columns"):
        with gr.Column():
            files = gr.File(file_count="multiple", label="Drop documents, images, recordings", height=140, elem_id="files")
            microphone = gr.Audio(
                sources=["microphone"], type="filepath", format="wav", label="Record", elem_id="microphone", editable=False,
                buttons=[],
            )  # fmt: skip
            waiting = gr.CheckboxGroup(
                [], label="With the next question", info="Uncheck to take away.", elem_id="waiting", visible="hidden"
            )
            problem = gr.HTML(elem_id="compose-problem")
            with gr.Row(elem_classes="buttons"):
                load = gr.Button("Load the samples", elem_id="samples", size="sm", min_width=120)
                clear = gr.Button("Start over", elem_id="clear", size="sm", min_width=120)
                opening = gr.UploadButton("Open a run", file_types=[".inkling"], elem_id="open", size="sm", min_width=120)
                gr.HTML(
                    f'<a id="save" class="button" href="{prefix}/desk/run.inkling" download="run.inkling">Save this run</a>',
                    elem_classes="save",
                )
            with gr.Accordion("System text and tools", open=False, elem_id="before"):
                system = gr.Textbox(
                    label="System text", info="Stands before everything, and cannot change once something was asked.", lines=2,
                    elem_id="system",
                )  # fmt: skip
                tools = gr.Textbox(
                    label="Tools", info="Declarations as JSON, OpenAI's shape. Calls are shown and never run.", lines=4,
                    elem_id="tools", placeholder='[{"name": "clock", "description": "The time", "parameters": {"type": "object"}}]',
                )  # fmt: skip
                fix = gr.Button("Use them", elem_id="use-tools", size="sm", min_width=120)
        with gr.Column():
            budget = gr.HTML(elem_id="budget", elem_classes="table")
            tree = gr.HTML(elem_id="tree")
    return Compose(files, microphone, waiting, load, clear, opening, problem, system, tools, fix, budget, tree)


def show(desk: Desk, link: Link) -> tuple[Any, ...]:
    """Values of :attr:`Compose.shown` for what is on the desk."""
    try:
        found = desk.budget(link)
        counted = (gr.skip(), gr.skip()) if found is None else (budget_html(found), tree_html(found.tree))
    except InklingError as problem:
        counted = (problem_html(problem.message), "")
    # Read last: what took long to count must not bring back a file that was sent meanwhile.
    return (show_waiting(desk), *counted)


def show_waiting(desk: Desk) -> dict[str, Any]:
    """The files that go with the next question."""
    choices = [(part.name, str(number)) for number, part in enumerate(desk.files)]
    return gr.update(choices=choices, value=[value for _, value in choices], visible=True if choices else "hidden")


def show_before(desk: Desk) -> tuple[str, str]:
    """Values of :attr:`Compose.before`."""
    before = desk.conversation.context(desk.conversation.root)
    return before.system or "", json.dumps(list(before.tools), indent=1) if before.tools else ""


def wire(compose: Compose, desk_of: Callable[[gr.Request], Desk], link: Link) -> list[Any]:
    """Connect what this section does by itself: files, recordings and system text change the desk, and so the budget.

    Returns
    -------
    list of events
        After each, what waits or stands before everything may be another.
    """
    outputs = [*compose.shown, compose.problem]

    def changed(desk: Desk, problems: list[str]) -> tuple[Any, ...]:
        desk.keep()
        return (*show(desk, link), problem_html(*problems))

    def take(request: gr.Request, files: list[str] | None) -> tuple[Any, ...]:
        desk = desk_of(request)
        return (*changed(desk, desk.put_files(files or [])), None)

    def record(request: gr.Request, path: str | None) -> tuple[Any, ...]:
        desk = desk_of(request)
        return (*changed(desk, desk.put_files([path], name=RECORDING) if path else []), None)

    def bundled(request: gr.Request) -> tuple[Any, ...]:
        desk = desk_of(request)
        return changed(desk, desk.put_files([str(path) for path in samples.paths().values()]))

    def keep_only(request: gr.Request, chosen: list[str]) -> tuple[Any, ...]:
        desk = desk_of(request)
        desk.keep_only([int(value) for value in chosen])
        return changed(desk, [])

    def begin(request: gr.Request, system: str, tools: str) -> tuple[Any, ...]:
        desk = desk_of(request)
        try:
            desk.begin_with(system, tools)
        except InklingError as problem:
            return (*(gr.skip() for _ in compose.shown), problem_html(problem.message))
        return changed(desk, [])

    quiet: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
    busy: dict[str, Any] = {"show_progress": "minimal", "show_progress_on": compose.budget, "api_visibility": "private"}
    return [
        compose.files.upload(take, compose.files, [*outputs, compose.files], **busy),
        compose.microphone.stop_recording(record, compose.microphone, [*outputs, compose.microphone], **busy),
        compose.samples.click(bundled, None, outputs, **busy),
        compose.waiting.input(keep_only, compose.waiting, outputs, **quiet),
        compose.fix.click(begin, [compose.system, compose.tools], outputs, **quiet),
    ]
