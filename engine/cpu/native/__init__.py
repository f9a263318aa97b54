"""The native kernel for attention: one C++ file, compiled on first use, beside torch operations that always work.

:mod:`.building` compiles and caches, :mod:`.kernel` calls. Where there is no compiler, on another processor or operating system, or
with ``INKLING_NATIVE=0`` in the environment, :func:`kernel.loaded` is None and :mod:`engine.cpu.attention` computes with torch: the
numbers agree to 1e-5, only slower. Nothing here imports torch or vLLM before it is called.
"""
