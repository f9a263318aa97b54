"""Shared by the tests of composing: vLLM's own renderer, without an engine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from workbench import Context
from workbench.chat_requests import chat_request

Render = Callable[[Context], list[int]]


@pytest.fixture(scope="session")
def vllm_render() -> Iterator[Render]:
    """vLLM's ``/v1/chat/completions/render`` on the demo checkpoint, in this process and without an engine."""
    from fastapi.testclient import TestClient
    from vllm import AsyncEngineArgs
    from vllm.config import VllmConfig
    from vllm.entrypoints.launchers.app import build_app
    from vllm.entrypoints.launchers.cli_args import make_arg_parser
    from vllm.entrypoints.launchers.render.app_state import init_render_app_state
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    import engine.demo

    folder = str(engine.demo.unpack())
    args = make_arg_parser(FlexibleArgumentParser()).parse_args(
        ["--model", folder, "--served-model-name", "demo", "--tool-call-parser", "inkling", "--enable-auto-tool-choice"]
    )
    model = AsyncEngineArgs.from_cli_args(args).create_model_config()
    app = build_app(args, ("render",))
    asyncio.run(init_render_app_state(VllmConfig(model_config=model), app.state, args))
    with TestClient(app) as client:

        def render(context: Context) -> list[int]:
            body: dict[str, Any] = {"model": "demo", "max_tokens": 1, **chat_request(context, refuse_control=False)}
            answer = client.post("/v1/chat/completions/render", json=body)
            assert answer.status_code == 200, answer.text
            return answer.json()["token_ids"]

        yield render
