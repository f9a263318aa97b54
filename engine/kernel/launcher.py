"""The kernel process: vLLM's engine and OpenAI routes, our routes beside them, the token around everything.

Order: settings, environment, port (so that a taken one fails at once), vLLM, model, routes, presence file. It ends in one way
only, whatever asked for it (SIGTERM, SIGINT, the shutdown route, the engine's death): running requests are aborted so that
their clients hear of it, the server closes, vLLM's processes are joined, the presence file goes. uvicorn's own signal handling
is switched off: it would re-raise the signal and leave vLLM's processes behind.

Source of the surface used: vLLM 0.32 ``entrypoints/launchers``.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
import signal
import socket
from pathlib import Path
from typing import Any

from ..errors import BadRequest, EngineStartError, InklingError
from ..inkling.headers import check_headers
from ..protocol import exits
from ..protocol.presence import KernelSettings, Presence, boot_id
from . import checks, generation, limits, openai_tools
from .auth import TokenGuard
from .guard import FeatureGuard
from .plugin import PARENT_ENV, die_with_parent
from .state import KernelState
from .steps import Steps

ALWAYS = (
    "--worker-extension-cls", "engine.kernel.worker.WorkbenchWorker",
    "--enable-prompt-tokens-details",
    "--enable-scale-out",
    "--enable-auto-tool-choice", "--tool-call-parser", openai_tools.NAME, "--reasoning-parser", "inkling",
    *openai_tools.OPTIONS,
    # vLLM's parser does not say where Inkling's thinking begins and ends; without it a thinking budget is refused.
    "--reasoning-config", '{"reasoning_start_str": "<|content_thinking|>", "reasoning_end_str": "<|end_message|>"}',
)  # fmt: skip
"""vLLM options of every kernel: our seams, honest usage counts, the render endpoint, Inkling's own parsers on /v1 (held to forced
tools and formats), and where a thinking budget counts."""

WATCH_PERIOD_S = 0.5
GRACE_S = 5

KEEP_ALIVE_S = 60
"""Longer than clients keep an idle connection (httpx: 5 s, uvicorn's own default too): who closes first must not be a race."""


def environment(settings: KernelSettings) -> dict[str, str]:
    """Variables that must stand before vLLM is imported."""
    return {
        PARENT_ENV: str(os.getpid()),
        "VLLM_SERVER_DEV_MODE": "0",  # its routes let anyone with the address run code in the workers
        checks.RUNNER_ENV: "1",  # an error instead of a quiet fall to the V1 runner
        "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "0",  # its route opens any path; ours only the adapter folders
        # In its cache xgrammar takes messages that begin with different control tokens for one, and masks the wrong token.
        "VLLM_XGRAMMAR_CACHE_MB": "0",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_DO_NOT_TRACK": "1",
    } | ({"HF_HUB_OFFLINE": "1"} if Path(settings.model).exists() or settings.model.startswith("demo") else {})


def serve(settings: KernelSettings) -> int:
    """Run the kernel until it is told to stop, or its engine dies; the exit status.

    Raises
    ------
    InklingError
        It did not come up; the last step in the steps file says the same.
    """
    steps = Steps(Path(settings.run))
    os.environ.update(environment(settings))
    # Until the server runs, a request to stop has to unwind through vLLM's own clean-up.
    signal.signal(signal.SIGTERM, _interrupt)
    if settings.supervised:
        die_with_parent(signal.SIGTERM)
    try:
        with _bound_socket(settings) as sock:
            steps.note("importing vLLM")
            from .names import check_names

            steps.note("checking the recipe", vllm=check_names())
            args = parse_args(settings, resolve_model(settings, steps))
            refuse_unsupported(args)
            check_recipe(settings, args)
            import uvloop

            status = uvloop.run(_serve(settings, args, sock, steps))
            steps.note("stopped", status=status)
            return status
    except InklingError as problem:
        steps.note("failed", error=problem.to_json())
        raise
    except KeyboardInterrupt:
        steps.note("failed", error=EngineStartError("stopped while starting").to_json())
        return exits.FAILED
    except BaseException as problem:
        steps.note("failed", error=EngineStartError(sentence(problem)).to_json())
        raise


def resolve_model(settings: KernelSettings, steps: Steps) -> str:
    """Folder or name that vLLM loads."""
    if settings.model not in ("demo", "demo-tp4"):
        check_checkpoint(settings.model)
        return settings.model
    steps.note("unpacking the demo checkpoint")
    from .. import demo

    return str(demo.unpack() if settings.model == "demo" else demo.unpack_random(settings.model))


def check_checkpoint(model: str) -> None:
    """Raise EngineStartError when `model` is a path, but not of a checkpoint; a name is left to vLLM."""
    folder = Path(model)
    if not folder.is_absolute() and not folder.exists():
        return
    wanted = ("config.json", "tokenizer.json", "*.safetensors")
    missing = [name for name in wanted if not folder.is_dir() or next(folder.glob(name), None) is None]
    if missing:
        raise EngineStartError(f"{folder} is not a checkpoint: it has no {', no '.join(missing)}", folder=str(folder))
    try:
        report = check_headers(folder)
    except BadRequest as problem:
        raise EngineStartError(problem.message, folder=str(folder)) from problem
    if report.problems:
        rest = len(report.problems) - 3
        more = f"; and {rest} more" if rest > 0 else ""
        raise EngineStartError(
            f"{folder} is not a checkpoint vLLM can load: {'; '.join(report.problems[:3])}{more}. 'inkling engine check {folder}' "
            "lists all",
            folder=str(folder),
        )  # fmt: skip


def sentence(problem: BaseException) -> str:
    """What went wrong in one line; pydantic's reports are reduced to their first message."""
    from pydantic import ValidationError

    text = problem.errors()[0]["msg"] if isinstance(problem, ValidationError) else f"{type(problem).__name__}: {problem}"
    line = " ".join(text.split())
    return line if len(line) <= 400 else f"{line[:397]}…"


def parse_args(settings: KernelSettings, model: str) -> Any:
    """vLLM's arguments, by vLLM's own parser.

    Raises
    ------
    EngineStartError
        The installed vLLM does not know an option or refuses a value.
    """
    from vllm.entrypoints.launchers.cli_args import validate_parsed_serve_args

    openai_tools.register()
    words = ["--model", model, "--host", settings.host, "--port", str(settings.port), *ALWAYS, *settings.args]
    parser = _parser()

    def refuse(message: str) -> Any:
        raise EngineStartError(f"vLLM refuses the recipe's options: {message}", recipe=settings.recipe)

    parser.error = refuse
    try:
        args: Any = parser.parse_args(words)
        validate_parsed_serve_args(args)
    except (ValueError, TypeError) as problem:
        refuse(str(problem))
    return args


def check_recipe(settings: KernelSettings, args: Any) -> None:
    """Refuse what would fail, or go wrong silently, once the weights are there (see :mod:`engine.kernel.checks`)."""
    gpus = checks.visible_capabilities()
    checks.check_gpus(settings.extra.get("hardware"), gpus)
    checks.check_sizes(
        checks.shape_of(args.model), block_tokens=args.block_size, ranks=args.tensor_parallel_size, dtype=str(args.dtype),
        cache_dtype=str(args.kv_cache_dtype), fixed_conv_pages=bool(gpus),
    )  # fmt: skip


def refuse_unsupported(args: Any) -> None:
    """Refuse options whose kernels are missing here: they would end the engine with the first request that needs them.

    Raises
    ------
    EngineStartError
        Names the option and the reason.
    """
    import vllm.envs

    from .. import cpu

    if vllm.envs.VLLM_USE_V2_MODEL_RUNNER is False:
        raise EngineStartError("VLLM_USE_V2_MODEL_RUNNER=0 asks for vLLM's older runner: the workbench needs V2, unset it")
    parser = _parser()
    if refused := cpu.refused_option(vars(args), {name: parser.get_default(name) for name in vars(args)}):
        name, reason = refused
        option = f"--{name.replace('_', '-')}"
        raise EngineStartError(f"the recipe's option {option} is not supported here: {reason}", option=option)


def _parser() -> Any:
    from vllm.entrypoints.launchers.cli_args import make_arg_parser
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    return make_arg_parser(FlexibleArgumentParser())


async def _serve(settings: KernelSettings, args: Any, sock: socket.socket, steps: Steps) -> int:
    from vllm.entrypoints.launchers.api_server.app_state import init_app_state
    from vllm.entrypoints.launchers.api_server.entry import build_async_engine_client
    from vllm.entrypoints.launchers.app import build_app

    from .endpoint import WorkbenchEndpoint

    endpoint = WorkbenchEndpoint(settings)
    limits.install()
    steps.note("loading the model", model=settings.model)
    async with build_async_engine_client(args) as llm:
        checks.check_runner(llm.vllm_config)
        steps.note("setting up routes")
        tasks = await llm.get_supported_tasks()
        app = build_app(args, tasks, llm.model_config)
        endpoint.attach_router(app)
        await init_app_state(llm, app.state, args, tasks)
        await endpoint.init_state(llm, app.state, args)
        state: KernelState = app.state.workbench
        steps.note("warming up")
        await generation.warm_up(state)
        guarded = TokenGuard(FeatureGuard(app, state.unsupported), settings.token)
        try:
            return await _run(guarded, app, state, settings, sock, steps)
        finally:
            state.adapters.close()


async def _run(guarded: Any, app: Any, state: KernelState, settings: KernelSettings, sock: socket.socket, steps: Steps) -> int:
    import uvicorn
    from vllm.entrypoints.launchers.launcher import NoSignalServer

    server = NoSignalServer(uvicorn.Config(
        guarded, log_level="warning", timeout_graceful_shutdown=GRACE_S, lifespan="on", timeout_keep_alive=KEEP_ALIVE_S
    ))  # fmt: skip
    app.state.server = server  # vLLM's error handlers ask it to stop when the engine died
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, state.stopping.set)
    ending = asyncio.create_task(_end(server, state))
    serving = asyncio.create_task(server.serve(sockets=[sock]))
    while not server.started and not serving.done():
        await asyncio.sleep(0.01)
    presence = _presence(settings, state, sock)
    path = presence.write(Path(settings.runtime))
    steps.note("ready", url=presence.url, presence=str(path))
    try:
        await serving
    finally:
        path.unlink(missing_ok=True)
        ending.cancel()
    if state.restarting:
        return exits.RESTART
    return exits.DIED if state.llm.errored else exits.OK


async def _end(server: Any, state: KernelState) -> None:
    """Wait for a reason to stop, then abort what runs and let the server go."""
    while not state.stopping.is_set() and not state.llm.errored and not server.should_exit:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(state.stopping.wait(), WATCH_PERIOD_S)
    state.stopping.set()
    if not state.llm.errored:
        await state.jobs.close()
        # Streams end with finish reason "abort" in milliseconds, instead of being cut by the server's grace period.
        await state.llm.pause_generation(mode="abort", clear_cache=False)
    server.should_exit = True


def _presence(settings: KernelSettings, state: KernelState, sock: socket.socket) -> Presence:
    host, port = sock.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    return Presence(
        url=f"http://{shown}:{port}", token=settings.token, nonce=settings.nonce, model=state.info.model, recipe=settings.recipe,
        host=platform.node(), boot_id=boot_id(), pid=os.getpid(), log=str(Path(settings.run) / "kernel.log"),
        started_by=state.info.started_by, started_at=state.info.started_at,
    )  # fmt: skip


def _bound_socket(settings: KernelSettings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((settings.host, settings.port))
    except OSError as problem:
        sock.close()
        raise EngineStartError(
            f"port {settings.port} on {settings.host} cannot be used ({problem.strerror}): choose another, or 0 for any",
            port=settings.port,
        ) from problem
    return sock


def _interrupt(*_: Any) -> None:
    raise KeyboardInterrupt
