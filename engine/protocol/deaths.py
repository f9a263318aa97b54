"""Why an engine died, from what is left: its exit status, the end of its log, and what ran last.

Knows no engine: text in, cause and remedy out. The order of the patterns is the order of trust: a line that names its cause
outright comes before one that only says that something ended.
"""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from pathlib import Path

TAIL_BYTES = 262_144
"""Of a log, for the cause: a traceback of every rank fits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """A cause of death.

    Attributes
    ----------
    kind : str
        ``out-of-memory``, ``checkpoint``, ``package``, ``gpu``, ``collective``, ``intervention``, ``killed`` or ``unknown``.
    sentence, remedy : str
    """

    kind: str
    sentence: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.sentence}; {self.remedy}"


_PATTERNS = (
    ("package", r"No module named '([\w.]+)'", "a package is missing: {0}", "'inkling doctor' names the command that installs it"),
    ("intervention", r"(InterventionRefused[^\n]*|workbench_interven\w*[^\n]*(?:Error|failed)[^\n]*)",
     "an intervention failed: {0}", "send the request without it; the engine can be started again as it was"),
    ("out-of-memory", r"((?:torch\.)?(?:cuda\.)?OutOfMemoryError[^\n]*|CUDA out of memory[^\n]*)", "GPU memory ran out: {0}",
     "cap the context or the batch ('inkling plan' says what fits), or lower gpu-memory-utilization"),
    ("out-of-memory", r"(Cannot allocate memory|std::bad_alloc|DefaultCPUAllocator: [^\n]*)", "not enough memory: {0}",
     "end something else on this machine, or choose a smaller cache (VLLM_CPU_KVCACHE_SPACE, kv-cache-memory-bytes)"),
    ("out-of-memory", r"(No available memory for the cache blocks[^\n]*)", "not enough memory: {0}",
     "nothing is left for the cache beside the weights: 'inkling plan' says what fits"),
    ("out-of-memory", r"(larger than the available KV cache memory[^\n]*)", "the context length does not fit the cache: {0}",
     "cap max-model-len: 'inkling plan' says at what"),
    ("collective", r"((?:NCCL|Gloo|gloo)[^\n]*(?:[Ee]rror|timeout|timed out|[Aa]bort)[^\n]*|Watchdog caught collective[^\n]*)",
     "the ranks lost each other: {0}", "look for the first rank that failed above this line; check NVLink and /dev/shm, then "
     "start again"),
    ("gpu", r"(CUDA error: [^\n]*|(?:AcceleratorError|cudaError\w*)[^\n]*|Xid[^\n]*)", "a GPU failed: {0}",
     "look at the driver's messages (dmesg, nvidia-smi -q); a restart of the engine may do, a reset of the GPU may be needed"),
    ("checkpoint", r"(No such file or directory: '[^']*'|Error retrieving file list[^\n]*|does not appear to have a file[^\n]*)",
     "the checkpoint cannot be read: {0}", "'inkling engine check FOLDER' names what is wrong with it"),
    ("checkpoint",
     r"(SafetensorError[^\n]*|[^\n]*Error while deserializing header[^\n]*|size mismatch for [^\n]*|cannot load \([^\n]*)",
     "the checkpoint is damaged or another model's: {0}", "'inkling engine check FOLDER' names what is wrong with it"),
    ("killed", r"((?:Worker|EngineCore)[^\n]*(?:died unexpectedly|was killed|exit code -9|exitcode=-9|signal 9)[^\n]*)",
     "one of its processes was killed: {0}", "most often by the system for memory: see dmesg; start it again with more of it free"),
    ("unknown", r"(?:EngineCore|Worker)[^\n]*?\b((?:\w+Error|AssertionError)\b: ?[^\n]+)", "{0}", "the log has the whole of it"),
)  # fmt: skip


def cause_of_death(log: str, *, exit_code: int | None = None, last_request: str | None = None) -> Death:
    """What an engine died of.

    Parameters
    ----------
    log : str
        The end of its log.
    exit_code : int, optional
        Negative for a signal, as subprocess has it.
    last_request : str, optional
        What ran last, for the sentence.
    """
    for kind, pattern, sentence, remedy in _PATTERNS:
        if found := re.search(pattern, log):
            return _with_request(Death(kind=kind, sentence=sentence.format(_shortened(found[1])), remedy=remedy), last_request)
    if exit_code == -signal.SIGKILL:
        killed = "it was killed, most likely because the machine ran out of memory"
        return _with_request(Death(kind="killed", sentence=killed, remedy="free some memory and start it again"), last_request)
    if exit_code is not None and exit_code < 0:
        name = signal.Signals(-exit_code).name
        return _with_request(Death(kind="killed", sentence=f"it was ended by {name}", remedy="start it again"), last_request)
    return _with_request(
        Death(kind="unknown", sentence="it ended without naming a cause", remedy="the log has what there is; start it again"),
        last_request,
    )


def read_tail(path: Path | str | None, most_bytes: int = TAIL_BYTES) -> str:
    """The end of a log; empty where there is none."""
    if path is None:
        return ""
    try:
        with Path(path).open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - most_bytes))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def _with_request(death: Death, request: str | None) -> Death:
    if request is None:
        return death
    return Death(kind=death.kind, sentence=f"{death.sentence} (last request: {request})", remedy=death.remedy)


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 240 else f"{line[:237]}…"
