"""The public surface: names promised, names exported, and nothing that cannot be loaded."""

from __future__ import annotations

import importlib

import pytest

PROMISED = {
    "engine": {"Engine", "attach", "list", "start"},
    "workbench": {"AttentionPlan", "Capture", "CapturePlan", "Context"},
    "widgets": {"RoutingMap"},
}


@pytest.mark.parametrize("package", ["engine", "engine.protocol", "widgets", "workbench"])
def test_every_exported_name_loads(package: str):
    module = importlib.import_module(package)
    missing = [name for name in module.__all__ if not hasattr(module, name)]
    assert missing == []
    assert len(set(module.__all__)) == len(module.__all__)
    assert set(module.__all__) <= set(dir(module))


@pytest.mark.parametrize("package", list(PROMISED))
def test_promised_names_are_exported(package: str):
    assert PROMISED[package] <= set(importlib.import_module(package).__all__)


@pytest.mark.parametrize("package", ["engine", "widgets", "workbench"])
def test_an_unknown_name_is_an_attribute_error(package: str):
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = importlib.import_module(package).no_such_name


def test_the_protocol_exports_what_its_modules_define():
    """Every public class is exported by the package (but wire's JSON bodies, which only kernel and client know)."""
    protocol = importlib.import_module("engine.protocol")
    for module in ("captures", "framing", "images", "info", "plans", "rendered", "replies", "spans"):
        home = importlib.import_module(f"engine.protocol.{module}")
        classes = {name for name, value in vars(home).items() if isinstance(value, type) and value.__module__ == home.__name__}
        assert {name for name in classes if not name.startswith("_")} <= set(protocol.__all__)
