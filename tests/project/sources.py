"""The clone as the project tests see it: its root, its tracked files, what each module imports."""

from __future__ import annotations

import ast
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("engine", "widgets", "workbench")


@dataclass(frozen=True)
class Import:
    """One import statement: `importer` asks for `target` (both dotted), on `line`; `lazy` inside a function."""

    importer: str
    target: str
    line: int
    lazy: bool


def tracked() -> list[Path]:
    """Files under version control, and new ones that would be; skips the test outside a clone."""
    found = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if found.returncode:
        pytest.skip("not a git clone")
    return sorted(path for name in found.stdout.split("\0") if name and (path := ROOT / name).is_file())


def module_name(path: Path) -> str:
    """Dotted name of a source file."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def modules() -> dict[str, Path]:
    """Every module of the three packages."""
    return {module_name(path): path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))}


def imports(path: Path) -> list[Import]:
    """Imports of a file that run: relative ones resolved, those under TYPE_CHECKING left out."""
    name = module_name(path)
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    return list(_walk(ast.parse(path.read_text("utf-8")), name, package, lazy=False))


def _walk(node: ast.AST, name: str, package: str, *, lazy: bool):
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            continue
        if isinstance(child, ast.Import):
            for alias in child.names:
                yield Import(name, alias.name, child.lineno, lazy)
        elif isinstance(child, ast.ImportFrom):
            base = child.module or ""
            if child.level:
                parents = package.split(".")[: len(package.split(".")) - child.level + 1]
                base = ".".join([*parents, base] if base else parents)
            # `from package import name` may mean the module package.name: both count.
            for alias in child.names:
                yield Import(name, f"{base}.{alias.name}", child.lineno, lazy)
        yield from _walk(child, name, package, lazy=lazy or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda))
