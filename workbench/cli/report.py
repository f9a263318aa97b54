"""``inkling report``: a saved capture as one HTML file that opens anywhere."""

from __future__ import annotations

import argparse
from pathlib import Path

from .output import Console

SUMMARY = "turn a saved capture into one self-contained HTML file"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("capture", type=Path, metavar="CAPTURE", help="a saved capture, such as run.zarr")
    parser.add_argument("--out", type=Path, default=Path("report.html"), metavar="FILE", help="(default: %(default)s)")


def run(args: argparse.Namespace, console: Console) -> int:
    """Write the report, return 0."""
    from ..captures import Capture
    from ..report_findings import findings
    from ..reports import write_report

    capture = Capture.load(args.capture)
    path = write_report(args.out, capture=capture, analyses=findings(capture))
    console.show(f"{path}: {path.stat().st_size / 1e6:.1f} MB, open it in a browser")
    console.result({"path": str(path), "bytes": path.stat().st_size})
    return 0
