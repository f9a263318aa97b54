"""Unsupported request fields and thinking efforts: refused by name or put where vLLM reads them, everything else untouched."""

import json
from typing import Any

import pytest
from fastapi import FastAPI, Request
from fastapi.testclient import TestClient

from engine.kernel.guard import FeatureGuard
from engine.protocol import EFFORTS


@pytest.fixture
def client() -> TestClient:
    app = FastAPI()

    @app.post("/{path:path}")
    async def echo(request: Request) -> dict[str, str]:
        return {"body": (await request.body()).hex()}

    return TestClient(FeatureGuard(app, {"thinking_token_budget": "no kernel for it"}, max_body_bytes=1000))


@pytest.mark.parametrize("body", [{"thinking_token_budget": 3}, {"extra_body": {"thinking_token_budget": 5}}])
def test_a_set_field_is_refused_in_openai_form(client: TestClient, body: dict[str, object]) -> None:
    answer = client.post("/v1/chat/completions", json=body)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert "thinking_token_budget" in error["message"]
    assert "no kernel for it" in error["message"]


@pytest.mark.parametrize("body", [b'{"thinking_token_budget": null, "x":   1}', b"not json", b"", b'["thinking_token_budget"]'])
def test_other_bodies_pass_byte_for_byte(client: TestClient, body: bytes) -> None:
    assert bytes.fromhex(client.post("/v1/completions", content=body).json()["body"]) == body


def test_other_paths_are_not_looked_at(client: TestClient) -> None:
    assert client.post("/workbench/x", json={"thinking_token_budget": 1}).status_code == 200


def test_a_body_over_the_limit_is_refused(client: TestClient) -> None:
    assert client.post("/v1/completions", content=b"x" * 1001).status_code == 413
    assert client.post("/workbench/generate", content=b"x" * 1001).status_code == 413
    assert client.post("/workbench/contexts", content=b"x" * 1001).status_code == 200, "counted where it is read"


def passed(client: TestClient, body: dict[str, Any], path: str = "/v1/chat/completions") -> dict[str, Any]:
    answer = client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return json.loads(bytes.fromhex(answer.json()["body"]))


@pytest.mark.parametrize(("name", "number"), EFFORTS.items())
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses"])
def test_an_effort_by_number_goes_where_vllm_reads_numbers(client: TestClient, path: str, name: str, number: float) -> None:
    wanted = {"chat_template_kwargs": {"reasoning_effort": number}}
    assert passed(client, {"reasoning_effort": number}, path) == wanted
    assert passed(client, {"chat_template_kwargs": {"reasoning_effort": name}}, path) == wanted
    assert passed(client, {"reasoning": {"effort": name}}, path) == wanted | {"reasoning": {}}
    assert passed(client, {"reasoning_effort": name}, path) == {"reasoning_effort": name}, "vLLM knows the name"
    assert passed(client, {"reasoning_effort": name, "chat_template_kwargs": {"reasoning_effort": number}}, path) == wanted


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"reasoning_effort": "ultra"}, "'ultra'"),
        ({"reasoning_effort": 1.0}, "1.0"),
        ({"reasoning_effort": -0.1}, "-0.1"),
        ({"chat_template_kwargs": {"reasoning_effort": True}}, "True"),
        ({"chat_template_kwargs": {"reasoning_effort": [0.2]}}, "allowed are none, minimal"),
        ({"reasoning_effort": "low", "reasoning": {"effort": "high"}}, "two thinking efforts"),
        ({"chat_template_kwargs": {"thinking": False}}, "use reasoning_effort"),
        ({"chat_template_kwargs": {"enable_thinking": False}}, "use reasoning_effort"),
    ],
)
def test_an_effort_that_vllm_would_drop_is_refused(client: TestClient, body: dict[str, Any], says: str) -> None:
    answer = client.post("/v1/chat/completions", json=body)
    assert answer.status_code == 400
    assert says in answer.json()["error"]["message"]


def test_no_thinking_at_all_is_an_effort_and_no_budget() -> None:
    client = TestClient(FeatureGuard(FastAPI(), {}))
    answer = client.post("/v1/chat/completions", json={"thinking_token_budget": 0})
    assert answer.status_code == 400
    assert "reasoning_effort 'none'" in answer.json()["error"]["message"]


@pytest.mark.parametrize("field", ["structured_outputs", "response_format", "chat_template_kwargs"])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
def test_a_field_that_vllm_looks_into_unchecked_has_to_be_an_object(client: TestClient, path: str, field: str) -> None:
    """vLLM answers these with a server's fault: it asks a number for its keys."""
    for value in (-1.4, [1], "x", True):
        answer = client.post(path, json={field: value})
        assert (answer.status_code, field in answer.text) == (400, True)
    assert client.post(path, json={field: None}).status_code == 200
    assert client.post(path, json={field: {}}).status_code == 200
