"""Imports point one way, heavy libraries stay where they belong, and importing the light packages is light."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.project.sources import ROOT, Import, imports, modules

JUPYTER = {
    "IPython",
    "anywidget",
    "ipykernel",
    "ipywidgets",
    "jupyter_client",
    "jupyter_core",
    "jupyter_server",
    "jupyterlab",
    "traitlets",
}
HEAVY = {"anywidget", "gradio", "jupyterlab", "markitdown", "matplotlib", "torch", "transformers", "vllm", "xarray", "zarr"}


def under(name: str, *packages: str) -> bool:
    """Whether a dotted name is one of `packages` or inside one."""
    return any(name == package or name.startswith(package + ".") for package in packages)


def breaks_a_rule(item: Import) -> str | None:
    """The rule an import breaks, in words, or None."""
    who, what = item.importer, item.target
    top = what.split(".")[0]
    if top == "vllm" and not under(who, "engine.kernel", "engine.cpu"):
        return "only engine.kernel and engine.cpu import vLLM"
    if top == "gradio" and not under(who, "workbench.app"):
        return "only workbench.app imports Gradio"
    if (
        top in JUPYTER
        and not under(who, "widgets")
        and not (who == "engine.protocol.places" and top == "jupyter_core" and item.lazy)
    ):
        return "only widgets imports Jupyter (and engine.protocol.places asks it for the runtime folder, where it is installed)"
    if top == "widgets" and not under(who, "widgets"):
        return "nothing below widgets imports widgets"
    if top == "workbench" and under(who, "engine"):
        if under(who, "engine.kernel", "engine.cpu", "engine.protocol", "engine.demo"):
            return "the engine's side never imports workbench"
        if not (item.lazy and under(what, "workbench.captures")):
            return "the client's one upward edge is a lazy import of workbench.captures"
    if under(who, "engine.protocol") and top == "engine" and not under(what, "engine.protocol", "engine.errors"):
        return "engine.protocol imports nothing of the engine but its errors"
    served = ("engine.kernel", "engine.cpu", "engine.protocol", "engine.errors", "engine.demo", "engine.inkling")
    if under(who, "engine.kernel", "engine.cpu", "engine.demo") and under(what, "engine") and not under(what, *served):
        return "the kernel's side imports nothing of the client's side"
    if under(what, "engine.kernel", "engine.cpu") and not under(who, "engine.kernel", "engine.cpu"):
        return "nothing outside the engine's process imports engine.kernel or engine.cpu"
    return None


def test_imports_point_one_way():
    broken = [
        f"{item.importer}:{item.line} imports {item.target}: {rule}"
        for path in modules().values()
        for item in imports(path)
        if (rule := breaks_a_rule(item))
    ]
    assert not broken, "\n".join(broken)


@pytest.mark.parametrize(
    ("who", "what", "lazy"),
    [
        ("workbench.contexts", "vllm.config", False),
        ("workbench.reports", "gradio.Blocks", True),
        ("engine.kernel.app", "workbench.contexts", True),
        ("engine.client", "workbench.contexts", True),
        ("engine.client", "workbench.captures", False),
        ("workbench.figures", "widgets.RoutingMap", False),
        ("workbench.cli.lab", "jupyterlab.labapp", True),
        ("engine.protocol.wire", "engine.client", False),
        ("engine.client", "engine.kernel.app", True),
    ],
)
def test_the_rules_refuse(who: str, what: str, lazy: bool):
    assert breaks_a_rule(Import(who, what, 1, lazy))


@pytest.mark.parametrize(
    ("who", "what", "lazy"),
    [
        ("engine.cpu.router", "vllm.config", False),
        ("workbench.app.page", "gradio.Blocks", True),
        ("engine.client", "workbench.captures.Capture", True),
        ("widgets.routing_map", "workbench.captures", False),
        ("engine.kernel.worker", "engine.cpu.kernels", False),
        ("engine.protocol.wire", "engine.errors.BadRequest", False),
    ],
)
def test_the_rules_allow(who: str, what: str, lazy: bool):
    assert breaks_a_rule(Import(who, what, 1, lazy)) is None


def test_no_module_is_called_utils():
    assert [name for name in modules() if name.split(".")[-1] in {"util", "utils", "helpers", "misc", "common"}] == []


def fresh(code: str) -> str:
    """Output of `code` in an interpreter of its own, started outside the clone."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd="/", check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("module", ["workbench", "engine", "engine.protocol", "engine.errors", "workbench.cli", "widgets"])
def test_import_is_light(module: str):
    """Loading a package costs no library that takes a second; the names in it load on first use."""
    heavy = fresh(f"import sys, {module}; print(*sorted({HEAVY!r} & set(sys.modules)))")
    assert heavy == ""


def test_the_packages_are_ours():
    """`engine`, `widgets` and `workbench` are plain words: another distribution's would shadow ours."""
    for package in ("engine", "widgets", "workbench"):
        assert fresh(f"import {package}; print({package}.__file__)") == str(ROOT / package / "__init__.py")
