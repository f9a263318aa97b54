"""Unsupported request fields: refused by name, everything else untouched."""

import pytest
from fastapi import FastAPI, Request
from fastapi.testclient import TestClient

from engine.kernel.guard import FeatureGuard


@pytest.fixture
def client() -> TestClient:
    app = FastAPI()

    @app.post("/{path:path}")
    async def echo(request: Request) -> dict[str, str]:
        return {"body": (await request.body()).hex()}

    return TestClient(FeatureGuard(app, {"thinking_token_budget": "no kernel for it"}, max_body_bytes=1000))


@pytest.mark.parametrize("body", [{"thinking_token_budget": 0}, {"extra_body": {"thinking_token_budget": 5}}])
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
