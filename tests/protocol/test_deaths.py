"""Causes of death from logs as vLLM and torch write them."""

from __future__ import annotations

import signal

import pytest

from engine.protocol.deaths import cause_of_death, read_tail


@pytest.mark.parametrize(
    ("log", "kind", "says"),
    [
        ("(EngineCore pid=1) ModuleNotFoundError: No module named 'scipy'", "package", "scipy"),
        ("(Worker pid=1) torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.58 GiB", "out-of-memory", "4.58 GiB"),
        ("RuntimeError: DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes", "out-of-memory", "9 bytes"),
        ("(EngineCore pid=1) ValueError: No available memory for the cache blocks. Try", "out-of-memory", "cache"),
        (
            "ValueError: ... (24.00 GiB KV cache is needed, which is larger than the available KV cache memory (8 GiB)",
            "out-of-memory",
            "cap",
        ),
        ("[rank2]: Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4)", "collective", "ranks lost each other"),
        ("RuntimeError: NCCL error in: ProcessGroupNCCL.cpp:3690, unhandled system error", "collective", "ranks"),
        ("torch.AcceleratorError: CUDA error: an illegal memory access was encountered", "gpu", "illegal memory access"),
        (
            "safetensors_rust.SafetensorError: Error while deserializing header: header too large",
            "checkpoint",
            "inkling engine check",
        ),
        ("(Worker pid=3) RuntimeError: size mismatch for layer", "checkpoint", "size mismatch"),
        ("ERROR Worker proc VllmWorker-0 died unexpectedly, shutting down executor.", "killed", "dmesg"),
        ("engine.errors.InterventionRefused: expert 999 does not exist", "intervention", "expert 999"),
        ("(Worker pid=3) ERROR 11-30 AssertionError: bad amax", "unknown", "bad amax"),
        ("nothing of note", "unknown", "without naming a cause"),
    ],
)
def test_the_log_names_the_cause_and_the_remedy_follows(log: str, kind: str, says: str) -> None:
    death = cause_of_death(f"INFO before\n{log}\nINFO after\n", last_request="generate of 9 tokens")
    assert death.kind == kind
    assert says in str(death)
    assert "generate of 9 tokens" in death.sentence
    assert death.remedy


@pytest.mark.parametrize(
    ("code", "says"), [(-signal.SIGKILL, "out of memory"), (-signal.SIGSEGV, "SIGSEGV"), (1, "without naming")]
)
def test_without_a_line_the_exit_status_speaks(code: int, says: str) -> None:
    assert says in cause_of_death("", exit_code=code).sentence


def test_only_the_end_of_a_log_is_read(tmp_path) -> None:
    path = tmp_path / "kernel.log"
    assert read_tail(path) == read_tail(None) == ""
    path.write_bytes(b"x" * 100 + b"end")
    assert read_tail(path, 5) == "xxend"
