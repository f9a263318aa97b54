"""SpanTable: every span of a context with its place and its tokens, in a notebook.

Shares its selection with the other widgets (``widgets.link``).
"""
