"""environment.yml repeats pyproject.toml's requirements; the two must say the same."""

from __future__ import annotations

import tomllib

import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from tests.project.sources import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
ENVIRONMENT = yaml.safe_load((ROOT / "environment.yml").read_text("utf-8"))
PIP = next(item["pip"] for item in ENVIRONMENT["dependencies"] if isinstance(item, dict))


def bare(text: str) -> str:
    """A requirement without its marker, spelled one way."""
    need = Requirement(text)
    extras = f"[{','.join(sorted(need.extras))}]" if need.extras else ""
    return f"{need.name}{extras}{','.join(sorted(str(need.specifier).split(',')))}"


def test_pip_part_is_core_and_gpu():
    extras = PROJECT["optional-dependencies"]
    wanted = [*PROJECT["dependencies"], *extras["kernel"], *(need for need in extras["gpu"] if "inkling-workbench" not in need)]
    assert sorted(bare(need) for need in PIP if need != "-e .") == sorted({bare(need) for need in wanted})


def test_it_installs_the_project_and_a_python_that_fits():
    assert PIP[-1] == "-e ."
    version = next(item.removeprefix("python=") for item in ENVIRONMENT["dependencies"] if str(item).startswith("python="))
    assert SpecifierSet(PROJECT["requires-python"]).contains(version)


def test_the_engines_are_pinned_alike():
    """`cpu` and `gpu` are builds of one release."""
    extras = PROJECT["optional-dependencies"]
    cpu, gpu = (next(Requirement(need) for need in extras[name] if need.startswith("vllm")) for name in ("cpu", "gpu"))
    assert cpu.specifier == gpu.specifier
    assert str(cpu.marker) == str(gpu.marker)
