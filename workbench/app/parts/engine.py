"""Engine: which one answers and what it does, by the notebook's own module; the recipes there are, and the planner.

The strip stands above all tabs and says whether an engine answers. Pages share one look at the engine, however many are open.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import gradio as gr

from engine import recipes
from engine.errors import BadRequest, InklingError
from engine.planner import gpus, plan
from workbench.engine_views import EngineWatch, answer

from ..hosted import Blobs, Hosted
from ..link import Link
from ..showing import engine_html, plan_html, problem_html, recipes_html

LOOK_EVERY_S = 5.0
"""How often an open page asks whether the engine is still there."""

START_LOOK_S = 0.5
"""How often the page that has one started looks how far it is."""

OWN = "the recipe's own"


class Watching:
    """One watch on the engine for all pages."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self.key = secrets.token_urlsafe(16)
        self._watch = EngineWatch(link.known)
        self._looked_at = 0.0
        self._lock = threading.Lock()

    def now(self) -> EngineWatch:
        """The watch, looked through within the last second."""
        with self._lock:
            if self._watch.engine is not self._link.known:
                self._watch = EngineWatch(self._link.known)
                self._looked_at = 0.0
            if time.monotonic() - self._looked_at > 1.0:
                self._watch.look()
                self._looked_at = time.monotonic()
            return self._watch

    def answer(self, _subject: Any, content: dict[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
        """What the module asks; stopping is refused, for the engine is everyone's here."""
        if content.get("verb") == "stop":
            refused = BadRequest("this page does not stop an engine that others use too: inkling engine stop")
            return {"id": content.get("id"), "ok": False, "error": refused.to_json()}, []
        return answer(self.now(), content)


@dataclass(frozen=True, slots=True)
class Engine:
    """Components of this section."""

    strip: gr.HTML
    start: gr.Button
    timer: gr.Timer
    status: Hosted
    watching: Watching
    recipe: gr.Dropdown
    context: gr.Number
    requests: gr.Number
    gpu: gr.Dropdown
    count: gr.Number
    plan: gr.Button
    planned: gr.HTML


Strip = tuple[gr.HTML, gr.Button, gr.Timer]


def lay_out_strip() -> Strip:
    """The line above the tabs, and what keeps it true: inside a tab a timer runs only once the tab was opened."""
    line = gr.HTML(elem_id="engine")
    start = gr.Button("Start the engine again", elem_id="start-engine", size="sm", variant="primary", visible="hidden")
    return line, start, gr.Timer(LOOK_EVERY_S)


def lay_out(strip: Strip, blobs: Blobs, link: Link, *, prefix: str) -> Engine:
    """Make the components where the caller's layout context is."""
    watching = Watching(link)
    status = Hosted("engine_status", answer=watching.answer, blobs=blobs, prefix=prefix, elem_id="status")
    gr.HTML("<h2>Recipes</h2>", elem_classes="heading")
    gr.HTML(recipes_html([recipes.load(name) for name in recipes.names()]), elem_classes="table", elem_id="recipes")
    gr.HTML("<h2>Planner</h2>", elem_classes="heading")
    with gr.Row(elem_classes="options"):
        recipe = gr.Dropdown(recipes.names(), value="inkling-4xgb300", label="Recipe", elem_id="plan-recipe", min_width=200)
        context = gr.Number(
            None, label="Context, tokens", precision=0, elem_id="plan-context", min_width=140, info="Empty: the recipe's."
        )
        requests = gr.Number(1, label="At once", precision=0, elem_id="plan-requests", min_width=100, info="Such requests.")
        gpu = gr.Dropdown([OWN, *gpus()], value=OWN, label="GPU", elem_id="plan-gpu", min_width=140)
        count = gr.Number(None, label="GPUs", precision=0, elem_id="plan-count", min_width=100, info="If not the recipe's.")
    button = gr.Button("Plan", elem_id="plan", size="sm", min_width=120)
    planned = gr.HTML(elem_id="planned")
    return Engine(*strip, status, watching, recipe, context, requests, gpu, count, button, planned)


def wire(engine: Engine, page: gr.Blocks, link: Link) -> Callable[[Any], None]:
    """Show the engine when the page opens, and keep looking; start one and plan when asked.

    Returns
    -------
    callable
        Lets the page look at the engine after another event too.
    """

    def look() -> tuple[str, Any, Any]:
        sight = link.look_now()
        watch = engine.watching.now()
        status = engine.status.show(watch, watch.traits(), key=engine.watching.key)
        return engine_html(sight), gr.update(visible=True if sight.can_start else "hidden"), status

    async def start() -> AsyncIterator[tuple[str, Any, Any]]:
        link.start_again()
        while True:
            shown = await asyncio.to_thread(look)
            yield shown
            if not (await link.look()).starting:
                break
            await asyncio.sleep(START_LOOK_S)
            link.lost()

    def planning(recipe: str, context: float | None, requests: float | None, gpu: str, count: float | None) -> str:
        try:
            found = plan(
                recipes.load(recipe), context_tokens=int(context) if context else None,
                requests=1 if requests is None else int(requests), gpu_name=None if gpu == OWN else gpu,
                gpu_count=int(count) if count else None,
            )  # fmt: skip
        except InklingError as problem:
            return problem_html(problem.message)
        return plan_html(found)

    shown = [engine.strip, engine.start, engine.status.component]

    def look_after(event: Any) -> None:
        event(look, None, shown, show_progress="hidden", concurrency_limit=None, queue=False, api_visibility="private")

    for event in (page.load, engine.timer.tick):
        look_after(event)
    engine.start.click(start, None, shown, show_progress="hidden", concurrency_limit=None, api_visibility="private")
    fields = [engine.recipe, engine.context, engine.requests, engine.gpu, engine.count]
    engine.plan.click(planning, fields, engine.planned, show_progress="hidden", api_visibility="private")
    return look_after
