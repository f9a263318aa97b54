"""A widget's ES module inside ``gr.HTML``: the same module that notebooks run, with Gradio's value as its traits.

The value is a dict of traits; bytes go through :class:`Blobs` and travel as ``{"blob": address}``. Python gets the whole value back
with the component's ``input`` event when the reader gestures; what the module asks by ``model.send`` is answered by the subject
the value was made for, and the answer's buffers travel as blobs too. See ``hosted.js`` for what a module may use. It knows no
particular widget and no capture.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gradio as gr

BLOBS_BYTES = 256 << 20
"""Bytes kept for pages that may still ask for them, oldest out first: some sixty captures of the demo's size."""


class Blobs:
    """Bytes a page will fetch, by content: bounded, shared by all pages, each address unguessable without the content."""

    def __init__(self, *, limit_bytes: int = BLOBS_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._held: OrderedDict[str, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def put(self, data: bytes) -> str:
        """Keep `data` and return its name."""
        name = hashlib.sha256(data).hexdigest()
        with self._lock:
            self._held[name] = data
            self._held.move_to_end(name)
            while len(self._held) > 1 and sum(map(len, self._held.values())) > self._limit_bytes:
                self._held.popitem(last=False)
        return name

    def get(self, name: str) -> bytes | None:
        """The bytes, or None when they were dropped."""
        with self._lock:
            return self._held.get(name)


SUBJECTS = 64
"""Subjects kept for pages that may still ask about them, oldest out first."""

GONE = {"code": "gone", "message": "The app no longer holds this picture's data: make the capture again."}

Answer = Callable[[Any, dict[str, Any]], tuple[dict[str, Any], list[bytes]]]
"""``answer(subject, content)`` gives the reply to a module's message, and its buffers."""


class Hosted:
    """A widget in the page: a ``gr.HTML`` and what its module may ask about.

    Holds a component instead of being one: Gradio writes a stub file beside the source of every subclass of a component.

    Parameters
    ----------
    name : str
        Folder of the widget; its module is served at ``/widgets/<name>.js``, its style at ``/widgets/<name>.css``.
    answer : callable
        Answers the module's messages; see :data:`Answer`. Runs in a thread.
    blobs : Blobs
    prefix : str
        Path under which a proxy shows the application.
    elem_id : str
        Id of the element in the page.
    follows : sequence of str
        Verbs after whose answer the component's ``submit`` event comes: what they began goes on in Python.

    Attributes
    ----------
    component : gradio.HTML
        What events are connected to; its value comes from :meth:`show`, None shows nothing.
    """

    def __init__(
        self, name: str, *, answer: Answer, blobs: Blobs, prefix: str = "", elem_id: str | None = None, follows: Sequence[str] = ()
    ) -> None:
        self._answer = answer
        self._blobs = blobs
        self._prefix = prefix
        self._subjects: OrderedDict[str, Any] = OrderedDict()

        def ask(data: dict[str, Any]) -> dict[str, Any]:
            return self._reply(data)

        self.component = gr.HTML(
            value=None,
            # Without ${value} in the template a new value keeps the DOM, and with it the module's canvas.
            html_template=f'<link rel="stylesheet" href="{prefix}/widgets/{name}.css"><div class="hosted"></div>',
            # Written into the script: properties of its own are not there yet when a tab is drawn late. And Gradio offers an event
            # only where the script names it: 'input' 'submit'.
            js_on_load=(
                f"import({json.dumps(f'{prefix}/widgets/hosted.js')}).then((host) => host.mount({{element, props, trigger, server, "
                f"watch, module: {json.dumps(f'{prefix}/widgets/{name}.js')}, follows: {json.dumps(list(follows))}}})) "
                "// 'input' 'submit'"
            ),
            apply_default_css=False,
            elem_id=elem_id,
            server_functions=[ask],
        )

    def show(self, subject: Any, traits: Mapping[str, Any], *, key: str | None = None) -> dict[str, Any]:
        """The component's value that shows `traits` of `subject`.

        Parameters
        ----------
        key : str, optional
            Unguessable name of what changes while it is shown (a chat, a status): the page keeps its module and gets new traits;
            those that are left out stay as they were. Without one, the page begins anew.
        """
        # Unguessable: a page can ask about the subjects it was shown, and no others.
        key = key or secrets.token_urlsafe(16)
        self._subjects[key] = subject
        self._subjects.move_to_end(key)
        while len(self._subjects) > SUBJECTS:
            self._subjects.popitem(last=False)
        return {"subject": key, "traits": {name: self._carried(value) for name, value in traits.items()}}

    def _reply(self, data: dict[str, Any]) -> dict[str, Any]:
        subject, content = self._subjects.get(str(data.get("subject"))), data.get("content") or {}
        if subject is None:
            return {"content": {"id": content.get("id"), "ok": False, "error": GONE}, "buffers": []}
        reply, buffers = self._answer(subject, content)
        return {"content": reply, "buffers": [self._address(buffer) for buffer in buffers]}

    def _carried(self, value: Any) -> Any:
        return {"blob": self._address(value)} if isinstance(value, bytes | bytearray | memoryview) else value

    def _address(self, data: bytes | bytearray | memoryview) -> str:
        return f"{self._prefix}/blobs/{self._blobs.put(bytes(data))}"
