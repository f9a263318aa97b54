"""Chat: talk over a context in a notebook, branch it, and look inside an answer."""
