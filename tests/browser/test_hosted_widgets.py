"""The same modules in Gradio: each of the views that look inside, and the composer, mounted and driven in a page of its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from engine.protocol import AttentionPlan
from tests.fabricated_insides import capture, plan_of
from workbench import Context, attention_views, samples, sconv_views
from workbench.composing_sessions import ComposingSession

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def session() -> ComposingSession:
    context = Context()
    context.add_document(samples.paths()["document"])
    return ComposingSession(context)


@pytest.fixture(scope="module")
def address(session: ComposingSession) -> Iterator[str]:
    """A Gradio page with the three widgets, served as the app serves its own."""
    gr = pytest.importorskip("gradio")
    import uvicorn
    from fastapi import FastAPI, HTTPException
    from fastapi.responses import Response

    from workbench.app.hosted import Blobs, Hosted
    from workbench.app.server import listen, widget_text

    cap, _ = capture(plan_of(attention=AttentionPlan(queries=(60, 150), layers="all", keep="whole", profiles=True), sconv=True))
    attention, sconv = attention_views.AttentionSubject.of(cap), sconv_views.SconvSubject.of(cap)
    blobs, app = Blobs(), FastAPI()

    @app.get("/widgets/{name}")
    def widget_file(name: str) -> Response:
        found = widget_text(name)
        if found is None:
            raise HTTPException(404)
        return Response(found[0], media_type=found[1])

    @app.get("/blobs/{name}")
    def blob(name: str) -> Response:
        data = blobs.get(name)
        return Response(data or b"", status_code=200 if data is not None else 404, media_type="application/octet-stream")

    with gr.Blocks(analytics_enabled=False) as page:
        shown = [
            (Hosted("attention_view", answer=attention_views.answer, blobs=blobs), attention, attention_views.traits(attention)),
            (Hosted("sconv_view", answer=sconv_views.answer, blobs=blobs), sconv, sconv_views.traits(sconv)),
            (Hosted("composer", answer=lambda held, asked: held.answer(asked), blobs=blobs), session, {"state": session.state()}),
        ]
        page.load(
            lambda: [hosted.show(subject, state) for hosted, subject, state in shown], None, [item[0].component for item in shown]
        )
    gr.mount_gradio_app(app, page, path="/ui", root_path="/ui", ssr_mode=False, footer_links=[], run_history=False)
    sock = listen("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{sock.getsockname()[1]}/ui/"
    server.should_exit = True
    thread.join(10)
    sock.close()


def test_the_modules_run_in_gradio_as_in_a_notebook(address, session, visit, shoot):
    page = visit(address, width=1200, height=1400)
    attention = page.locator(".ink-attention")
    attention.locator(".ink-parts tbody tr").first.wait_for()
    attention.get_by_role("listbox").focus()
    page.keyboard.press("ArrowRight")
    attention.get_by_text("Token 150, layer 5 (global), mean over heads").wait_for()
    attention.get_by_role("button", name="call.wav").click()
    attention.locator("canvas[aria-label^='call.wav']").wait_for()

    sconv = page.locator(".ink-sconv")
    sconv.locator("select").first.select_option("v")
    sconv.get_by_text("What each tap brings: layer 0, values, all tokens").wait_for()

    # The composer: no Jupyter proxy here, so a file comes by questions, which in this host are HTTP requests.
    composer = page.locator(".ink-composer")
    composer.locator("input[type=file]").set_input_files(str(samples.paths()["image"]))
    entry = composer.locator(".ink-entries .ink-entry-name")
    entry.filter(has_text="chart.png").wait_for()
    composer.get_by_role("button", name="Move chart.png up").click()
    page.wait_for_function("() => document.querySelector('.ink-composer .ink-entry').innerText.startsWith('chart.png')")
    assert [part.name for part in session.context.parts] == ["chart.png", "harbour.pdf"]
    entry.filter(has_text="chart.png").click()
    composer.get_by_text("patches, 42 tokens").wait_for()
    shoot(composer, "composer-gradio")
