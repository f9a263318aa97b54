"""Exit statuses of a kernel process: what whoever waits for it may conclude."""

OK = 0
"""It was told to stop, and did."""

FAILED = 1
"""It did not come up; the steps file has the reason."""

DIED = 3
"""Its engine died under it."""

RESTART = 75
"""It was told to make room for its successor."""
