"""The token guard, on a real FastAPI application."""

import pytest
from fastapi import FastAPI, WebSocket
from fastapi.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from engine.kernel.auth import TokenGuard

TOKEN = "a-token-of-some-length"


@pytest.fixture
def client() -> TestClient:
    app = FastAPI()

    @app.get("/open")
    async def opened() -> str:
        return "in"

    @app.websocket("/socket")
    async def socket(connection: WebSocket) -> None:
        await connection.accept()
        await connection.send_text("in")
        await connection.close()

    return TestClient(TokenGuard(app, TOKEN))


@pytest.mark.parametrize("path", ["/open", "/docs", "/openapi.json", "/not-there"])
@pytest.mark.parametrize(
    "given", [None, "", "Bearer", f"bearer {TOKEN}", TOKEN, f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", "Bearer ü"]
)
def test_everything_is_refused_without_the_token(client: TestClient, path: str, given: str | None) -> None:
    headers = {} if given is None else {"authorization": given.encode("utf-8")}
    answer = client.get(path, headers=headers)
    assert answer.status_code == 401
    assert answer.json()["error"]["code"] == "engine-auth"
    assert TOKEN not in answer.text


def test_the_token_lets_in(client: TestClient) -> None:
    assert client.get("/open", headers={"authorization": f"Bearer {TOKEN}"}).json() == "in"


def test_two_authorization_headers_are_one_too_many(client: TestClient) -> None:
    headers = [("authorization", f"Bearer {TOKEN}"), ("authorization", "Bearer other")]
    assert client.get("/open", headers=headers).status_code == 401


def test_web_sockets_need_it_too(client: TestClient) -> None:
    with pytest.raises(WebSocketDisconnect), client.websocket_connect("/socket"):
        pass
    with client.websocket_connect("/socket", headers={"authorization": f"Bearer {TOKEN}"}) as connection:
        assert connection.receive_text() == "in"


def test_a_short_token_is_no_token() -> None:
    with pytest.raises(ValueError, match="16"):
        TokenGuard(FastAPI(), "short")
