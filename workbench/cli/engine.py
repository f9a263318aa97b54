"""``inkling engine``: start, stop, look at and list engines."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.errors import BadRequest, EngineNotFound

from . import adapters
from .output import Console

if TYPE_CHECKING:
    from engine.discovery import Found

SUMMARY = "start, stop, look at and list engines"

LOG_LINES = 40


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the sub-commands."""
    actions = parser.add_subparsers(dest="action", metavar="action", required=True)
    start = _action(actions, "start", "start a recipe's engine, or attach to the one that is running")
    start.add_argument("recipe", nargs="?", default="demo", help="name of a recipe, or a .toml file (default: demo)")
    start.add_argument("--host", default="127.0.0.1", help="where to listen; beyond this machine only with --token-file")
    start.add_argument("--port", type=int, default=0, help="0 for any free one (default)")
    start.add_argument("--token-file", type=Path, help="file whose first line is the token to use")
    start.add_argument("--drafts", type=int, metavar="N", help="tokens the checkpoint's own blocks draft per step")
    start.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="change one of the recipe's vLLM options")
    start.add_argument(
        "--adapters", action="append", type=Path, metavar="FOLDER", help="load adapters from below this folder while it runs"
    )
    start.add_argument("--supervise", action="store_true", help="start it again when it dies, where it was")
    restart = _action(actions, "restart", "end a supervised engine and start it again where it was")
    stop = _action(actions, "stop", "end an engine, for everyone who uses it")
    stop.add_argument("--all", action="store_true", help="every engine of this user on this machine")
    for action in (stop, restart, _action(actions, "status", "what an engine is doing")):
        _which(action)
    logs = _action(actions, "logs", "an engine's log, also of one that did not start")
    _which(logs)
    logs.add_argument("-n", "--lines", type=int, default=LOG_LINES, help=f"so many lines from its end (default: {LOG_LINES})")
    logs.add_argument("-f", "--follow", action="store_true", help="go on as it grows, until Ctrl-C")
    _action(actions, "list", "engines that are running")
    verifying = _action(actions, "verify", "whether a running engine is what its recipe promises: fit, parity, seams, speed")
    _which(verifying)
    verifying.add_argument("--out", type=Path, help="write the report as JSON to this file")
    clean = _action(actions, "clean", "remove what engines left on disk: old blobs, contexts, captures and logs")
    clean.add_argument("--older-than", type=float, default=7.0, metavar="DAYS", help="what was not used for so long (default: 7)")
    clean.add_argument("--dry-run", action="store_true", help="only say what would go")
    check = _action(actions, "check", "a checkpoint's files, by their headers alone")
    check.add_argument("folder", type=Path, help="folder with config.json and .safetensors files")
    check.add_argument("--drafts", type=int, default=0, help="draft blocks that have to be there (default: none)")
    adapters.configure(_action(actions, "adapters", adapters.SUMMARY))


def run(args: argparse.Namespace, console: Console) -> int:
    """Run one action; 0 when it did what was asked."""
    actions = {
        "start": _start, "stop": _stop, "restart": _restart,
        "status": _status, "logs": _logs, "list": _list, "check": _check, "verify": _verify,
        "clean": _clean, "adapters": adapters.run,
    }  # fmt: skip
    return actions[args.action](args, console)


def _action(actions: Any, name: str, summary: str) -> argparse.ArgumentParser:
    parser = actions.add_parser(name, help=summary, description=summary)
    # Also accepted behind the action's name, where most people write it.
    parser.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print one JSON object on standard output")
    return parser


def _which(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--url", help="address of the engine, when several are running")
    parser.add_argument("--recipe", help="recipe of the engine, when several are running")


def _start(args: argparse.Namespace, console: Console) -> int:
    import engine

    token = args.token_file.read_text("utf-8").splitlines()[0].strip() if args.token_file else None
    changes = dict(option(text) for text in args.set)
    eng = engine.start(
        args.recipe, host=args.host, port=args.port, token=token, args=changes, adapters=args.adapters, drafts=args.drafts,
        supervise=args.supervise, say=console.note,
    )  # fmt: skip
    console.show(f"{eng.info.model} at {eng.url}; stop it with: inkling engine stop --url {eng.url}")
    console.result({"url": eng.url, "model": eng.info.model, "recipe": eng.info.recipe, "nonce": eng.info.nonce, "log": eng.log})
    return 0


def _stop(args: argparse.Namespace, console: Console) -> int:
    import engine

    found = [item for item in engine.list() if item.local] if args.all else [_found(args)]
    for item in found:
        eng = engine.attach(item.url, item.token)
        if requests := eng.status()["requests"]:
            console.note(f"{len(requests)} requests that run or wait are aborted")
        eng.stop()
        console.show(f"stopped {item!r}")
    if not found:
        console.show("no engine is running")
    console.result({"stopped": [item.url for item in found]})
    return 0


def _restart(args: argparse.Namespace, console: Console) -> int:
    import engine

    item = _found(args)
    eng = engine.attach(item.url, item.token)
    eng.restart()
    console.show(f"{eng.info.model} at {eng.url} is back")
    console.result({"url": eng.url, "nonce": eng.info.nonce})
    return 0


def _status(args: argparse.Namespace, console: Console) -> int:
    import engine

    item = _found(args)
    status = engine.attach(item.url, item.token).status()
    console.show(
        f"{item!r}, at {item.presence.started_at}; who has its token may stop it\n"
        f"running {status['running']:.0f}, waiting {status['waiting']:.0f}, cache {status['kv_cache_used']:.1%} used"
    )
    if status.get("adapters"):
        console.show(f"adapters loaded: {', '.join(status['adapters'])}")
    if status["drafted_tokens"]:
        steps = status["draft_steps"]
        depths = ", ".join(f"{accepted / steps:.0%}" for accepted in status["accepted_by_depth"])
        console.show(f"drafts: {status['accepted_tokens'] / steps:.2f} accepted per step; by depth {depths}")
    for request in status["requests"]:
        console.show(f"  {request['request_id']}: {request['done_tokens']:,} of {request['total_tokens']:,} prompt tokens")
    console.result({"url": item.url, "recipe": item.recipe, "model": item.presence.model} | status)
    return 0


def _logs(args: argparse.Namespace, console: Console) -> int:
    from engine.logs import lines_of

    path = _log_path(args)
    if console.json:
        console.result({"log": str(path), "lines": list(lines_of(path, args.lines))})
        return 0
    for line in lines_of(path, args.lines, follow=args.follow):
        console.show(line)
    return 0


def _list(_args: argparse.Namespace, console: Console) -> int:
    import engine

    found = engine.list()
    console.show("\n".join(repr(item) for item in found) or "no engine is running")
    shown = ("url", "recipe", "model", "host", "pid", "started_by", "started_at", "log")
    console.result({"engines": [{name: getattr(item.presence, name) for name in shown} for item in found]})
    return 0


def _verify(args: argparse.Namespace, console: Console) -> int:
    import engine

    from ..verifying import verify

    item = _found(args)
    report = verify(engine.attach(item.url, item.token), say=console.note)
    console.show(str(report))
    console.result(report.to_json())
    if args.out:
        report.save(args.out)
    return 0 if report.passed else 1


def _clean(args: argparse.Namespace, console: Console) -> int:
    from engine.cleaning import clean

    cleaned = clean(older_than_s=args.older_than * 86_400, dry_run=args.dry_run)
    verb = "would remove" if args.dry_run else "removed"
    console.show(f"{verb} {cleaned.files:,} files, {cleaned.bytes / 1e6:,.1f} MB; kept {cleaned.kept_bytes / 1e6:,.1f} MB")
    console.result(cleaned.to_json() | {"dry_run": args.dry_run})
    return 0


def _check(args: argparse.Namespace, console: Console) -> int:
    from engine.inkling.headers import check_headers

    report = check_headers(args.folder, drafts=args.drafts)
    console.show(
        f"{args.folder}: {report.tensors:,} tensors, {report.bytes / 1e9:,.1f} of {report.expected_bytes / 1e9:,.1f} GB, "
        f"quantization {report.shape.quantization}, {report.free_bytes / 1e9:,.0f} GB free"
    )
    console.show(
        "\n".join(f"- {problem}" for problem in report.problems) or "complete: names, shapes and types are as its config says"
    )
    console.result(report.to_json())
    return 1 if report.problems else 0


def _found(args: argparse.Namespace) -> Found:
    from engine import discovery

    if args.url is None:
        return discovery.the_one(recipe=args.recipe)
    for item in discovery.running():
        if item.url == args.url.rstrip("/"):
            return item
    raise EngineNotFound(f"no engine of yours is running at {args.url}: 'inkling engine list' shows which are")


def _log_path(args: argparse.Namespace) -> Path:
    """The named or only running engine's log; when none runs, the newest start's, which is the one that failed."""
    from engine.protocol import places
    from engine.protocol.steps import LOG

    try:
        item = _found(args)
    except EngineNotFound:
        logs = sorted((places.engine_home() / "runs").glob(f"*/{LOG}"), key=lambda path: path.stat().st_mtime)
        if not logs or args.url or args.recipe:
            raise
        return logs[-1]
    if item.presence.log is None or not Path(item.presence.log).is_file():
        raise BadRequest(f"the log of {item!r} is not on this machine", url=item.url)
    return Path(item.presence.log)


def option(text: str) -> tuple[str, Any]:
    """Name and value of a ``--set``; the value as JSON where it is some.

    Raises
    ------
    BadRequest
        No equals sign.
    """
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise BadRequest(f"--set {text!r}: wanted NAME=VALUE, for instance max-num-seqs=4", option=text)
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
