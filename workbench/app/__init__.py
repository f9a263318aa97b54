"""The Gradio app: one page to compose, ask and look inside. The only package that imports Gradio.

Thin on purpose: what it does, a notebook does with the same calls (``Context``, ``Engine``, ``Capture``). It knows neither vLLM nor
Jupyter, and it never asks anything outside this machine: analytics are off before Gradio is imported, fonts and scripts are served
from here, and the pages carry a content security policy that lets a browser load nothing else.

    server      the parent application: login wall, widget modules, blobs, the mounted page
    login       one token in front of every route
    link        the engine this app talks to, found again after it was restarted
    desk        what one browser has on its desk: files, conversation, captures; kept on disk (no Gradio)
    desks       every browser's desk, found by its cookie
    hosted      runs a widget's ES module inside ``gr.HTML`` (hosted.js)
    page        the page: four tabs in one layout
    parts/      compose, chat, inspect, engine: one tab each
"""

import os

# Gradio reads it once, when it is imported: without it the server looks up two hosts at every start.
os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
