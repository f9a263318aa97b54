"""Peak memory of a piece of work: run in a process of its own, so that nothing else is counted."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from ..errors import BenchError

_PROBE = """
import json, sys
from workbench.benchmarks.peak_memory import peak_here, forget_peak
sys.argv = sys.argv[1:]
{before}
forget_peak()
base = peak_here()
{work}
print(json.dumps([base, peak_here()]))
"""


def peak_bytes(work: str, *arguments: str, before: str = "") -> tuple[int, int]:
    """Memory before, and at the peak of `work`, in bytes.

    Parameters
    ----------
    work : str
        Python statements; `arguments` are ``sys.argv``.
    before : str
        Statements that run first and are not counted: imports, loading the tokenizer.
    """
    script = _PROBE.format(before=before, work=work)
    done = subprocess.run([sys.executable, "-c", script, "bench", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError(f"the measured process failed: {done.stderr.strip().splitlines()[-1]}")
    base, peak = json.loads(done.stdout.splitlines()[-1])
    return base, peak


def peak_here(process: int | str = "self") -> int:
    """Most memory that a process has held since its start or :func:`forget_peak`, in bytes (Linux).

    Raises
    ------
    BenchError
        The system does not tell.
    """
    try:
        status = Path(f"/proc/{process}/status").read_text()
        return 1024 * int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")))
    except (OSError, StopIteration) as problem:
        raise BenchError("peak memory is read from /proc, which has no such process, or no such file here") from problem


def forget_peak() -> None:
    """Begin to measure the peak from now on: what was held before, and what a parent process held, does not count."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError as problem:
        raise BenchError("the peak cannot be reset: /proc/self/clear_refs is not writable here") from problem
