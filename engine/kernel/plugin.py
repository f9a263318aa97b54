"""vLLM plugin, loaded in every process vLLM starts: no engine process outlives its kernel, and the core serves its questions.

vLLM's engine core never notices that the API process was killed; it would keep the model in memory for ever. Linux can send a
signal when a parent dies, so each child asks for that. Active only below our kernel, which names its process in the
environment: a plain vLLM in the same Python environment is left alone.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

from . import core_calls

PARENT_ENV = "INKLING_KERNEL_PID"
"""Process id of the kernel's API process, set by the launcher before vLLM is imported."""

_PR_SET_PDEATHSIG = 1


def register() -> None:
    """Entry point of group ``vllm.general_plugins``; may be called several times in a process."""
    kernel = os.environ.get(PARENT_ENV)
    if kernel is None or int(kernel) == os.getpid() or sys.platform != "linux":
        return
    die_with_parent()
    from . import prefix_cap

    prefix_cap.install()
    core_calls.install()


def die_with_parent(number: int = signal.SIGKILL) -> None:
    """Have the kernel of the operating system send this process `number` when its parent dies.

    Raises
    ------
    OSError
        The system refused.
    """
    # The killed parent cannot clean up for its children and they hold nothing that needs it, so: at once, not politely. vLLM's
    # resource tracker, which sees its pipe close, frees the shared memory.
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() == 1:  # the parent died before the line above
        os.kill(os.getpid(), number)
