"""``inkling doctor``: what would stop the engine from starting, and the remedy."""

from __future__ import annotations

import argparse
import dataclasses

from .output import Console

SUMMARY = "print what would stop the engine from starting, and the remedy"

MARKS = {"ok": "ok  ", "note": "note", "stop": "STOP"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("--quick", action="store_true", help="leave out the checks that import vLLM (up to 20 s)")


def run(args: argparse.Namespace, console: Console) -> int:
    """Print the findings as they come; 1 when one of them would stop the engine, else 0."""
    from ..doctor import examine

    findings = []
    for finding in examine(imports=not args.quick):
        findings.append(finding)
        console.show(f"{MARKS[finding.state]}  {finding.name:14} {finding.text}")
        if finding.remedy:
            console.show(f"      {'':14} → {finding.remedy}")
    stops = sum(finding.state == "stop" for finding in findings)
    console.show("The engine can start here." if not stops else f"{stops} of these would stop the engine.")
    console.result({"ok": not stops, "findings": [dataclasses.asdict(finding) for finding in findings]})
    return 1 if stops else 0
