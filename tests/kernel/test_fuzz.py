"""The engine's whole API, ours and vLLM's, asked what its schema allows and what it does not: no answer is a server's fault.

schemathesis makes the requests from the OpenAPI document that the running engine serves. Not asked: the route that ends the engine.
A request that is accepted may run for long; it is left after a few seconds, which aborts it.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable

pytestmark = pytest.mark.engine

EXAMPLES = int(os.environ.get("INKLING_FUZZ_EXAMPLES", "3"))
"""Requests a route and kind (fitting, unfitting); more than the few of every run where there is time."""

LEFT_AFTER_S = 5.0

SKIPPED = {("POST", "/workbench/shutdown")}


@pytest.fixture(scope="module")
def schema(eng) -> Any:
    import schemathesis

    headers = {"authorization": f"Bearer {eng._connection.token}"}
    return schemathesis.openapi.from_url(f"{eng.url}/openapi.json", headers=headers)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", ["positive", "negative"])
def test_no_request_is_answered_with_a_servers_fault(eng, schema: Any, kind: str) -> None:
    import requests
    from schemathesis import GenerationMode

    mode = GenerationMode.POSITIVE if kind == "positive" else GenerationMode.NEGATIVE
    headers = {"authorization": f"Bearer {eng._connection.token}", "accept": "application/json"}
    faults: list[str] = []
    asked = 0

    def ask(operation: Any) -> None:
        @seed(5)
        @settings(
            max_examples=EXAMPLES, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
        )
        @given(st.data())
        def one(data: st.DataObject) -> None:
            nonlocal asked
            case = data.draw(operation.as_strategy(generation_mode=mode))
            asked += 1
            try:
                answer = case.call(base_url=eng.url, headers=headers, timeout=LEFT_AFTER_S, allow_redirects=False)
            except requests.RequestException:
                return  # still running, or no request that HTTP can carry
            if answer.status_code >= 500 and answer.status_code != 501:  # 501: a route of vLLM's for other kinds of models
                faults.append(f"{case.as_curl_command()}\n  -> {answer.status_code} {answer.text[:300]}")

        with contextlib.suppress(Unsatisfiable):  # a route that takes nothing cannot be asked wrongly
            one()

    for found in schema.get_all_operations():
        operation = found.ok()
        if (operation.method.upper(), operation.path) not in SKIPPED:
            ask(operation)
    assert asked > 20
    assert not faults, "\n".join(faults)
    assert eng.status()["alive"]


BROKEN = [
    b"",
    b"{",
    b"[]",
    b"null",
    b'"x"',
    b"\xff\xfe",
    b'{"context": null}',
    b"[" * 100_000,
    b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
]


@pytest.mark.parametrize("path", [
    "/workbench/generate", "/workbench/probe", "/workbench/scores", "/workbench/captures", "/workbench/captures/cost",
    "/workbench/contexts", "/workbench/adapters", "/v1/chat/completions", "/v1/completions", "/v1/responses",
])  # fmt: skip
def test_bodies_that_are_no_request_are_the_clients_fault(eng, path: str) -> None:
    with httpx.Client(base_url=eng.url, headers={"authorization": f"Bearer {eng._connection.token}"}, timeout=60) as http:
        for body in BROKEN:
            for kind in ("application/json", "text/plain"):
                answer = http.post(path, content=body, headers={"content-type": kind})
                assert 400 <= answer.status_code < 500, (body[:40], kind, answer.status_code, answer.text[:200])


@pytest.mark.parametrize(
    "name", ["..", "../../etc/passwd", "%2e%2e%2f%2e%2e%2fetc%2fpasswd", "sha256:x", "/etc/passwd", "~root", "\x00"]
)
def test_no_path_from_a_client_is_opened(eng, name: str) -> None:
    """Wherever a client may name something, a path is no name; what came back holds nothing of the file."""
    with httpx.Client(base_url=eng.url, headers={"authorization": f"Bearer {eng._connection.token}"}, timeout=60) as http:
        quoted = name.replace("\x00", "%00")
        answers = [
            http.get(f"/workbench/contexts/{quoted}"), http.put(f"/workbench/blobs/{quoted}", content=b"x"),
            http.get(f"/workbench/captures/{quoted}"), http.get(f"/workbench/captures/{quoted}/arrays/{quoted}"),
            http.delete(f"/workbench/adapters/{quoted}"),
            http.post("/workbench/adapters", json={"adapter": name}), http.post("/workbench/generate", json={"context": name}),
            http.post("/workbench/probe", json={"context": name}),
        ]  # fmt: skip
    for answer in answers:
        assert 400 <= answer.status_code < 500, answer.text
        assert "root:" not in answer.text
