"""Shared by the tests of the torch kernels: checkpoints, unpacked once."""

from pathlib import Path

import pytest

import engine.demo


@pytest.fixture(scope="session")
def demo_folder() -> Path:
    """The demo checkpoint, from the user's cache."""
    return engine.demo.unpack()
