"""Every tutorial runs from a clean kernel on the shared engine, and what is saved in the repository is what a run gives."""

import importlib.util
from pathlib import Path

import nbformat
import pytest

import engine

FOLDER = Path(__file__).parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))

_spec = importlib.util.spec_from_file_location("execute", FOLDER / "execute.py")
assert _spec is not None
assert _spec.loader is not None
execute = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(execute)


def kinds(notebook: nbformat.NotebookNode) -> list[set[str]]:
    """Mime types of the outputs of each code cell."""
    return [{kind for item in cell.outputs for kind in item.get("data", {})} for cell in execute.code_cells(notebook)]


@pytest.mark.engine
@pytest.mark.timeout(600)
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs(path: Path, eng: engine.Engine) -> None:
    notebook = execute.tidy(execute.run(path))
    assert execute.problems(notebook) == []
    saved = nbformat.read(path, as_version=4)
    assert kinds(saved) == kinds(notebook), "run notebooks/execute.py again"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_what_is_saved_tells_nothing_of_the_machine_and_shows_pictures(path: Path) -> None:
    saved = nbformat.read(path, as_version=4)
    nbformat.validate(saved)
    assert execute.problems(saved) == []
    assert len(saved.cells) < 15
    html = [item.data.get("text/html", "") for cell in execute.code_cells(saved) for item in cell.outputs if "data" in item]
    assert any("data:image/png;base64," in text for text in html), "no static twin: a reader without a kernel sees nothing"


def test_there_is_a_first_notebook() -> None:
    assert NOTEBOOKS[0].name == "01_first_context.ipynb"
