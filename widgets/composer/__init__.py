"""Composer: put a context together in a notebook, and see what every edit costs before it is made.

The context stays the caller's own object; the page edits it (``workbench.composing_sessions``). Files travel by HTTP where the page
can reach the kernel's machine through Jupyter's proxy, else in pieces.
"""
