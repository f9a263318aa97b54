"""Every tutorial runs from a clean kernel on the shared engine, and what is saved in the repository is what a run gives."""

import importlib.util
import re
from pathlib import Path

import nbformat
import pytest

import engine

FOLDER = Path(__file__).parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
CELLS = 25
"""A tutorial of more is two."""

_spec = importlib.util.spec_from_file_location("execute", FOLDER / "execute.py")
assert _spec is not None
assert _spec.loader is not None
execute = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(execute)


def kinds(notebook: nbformat.NotebookNode) -> list[set[str]]:
    """Mime types of the outputs of each code cell."""
    return [{kind for item in cell.outputs for kind in item.get("data", {})} for cell in execute.code_cells(notebook)]


def exact(notebook: nbformat.NotebookNode) -> dict[str, list[str]]:
    """What the cells tagged ``exact`` say: counts and plans, the same on every machine and checkpoint of these sizes."""
    found = {}
    for cell in execute.code_cells(notebook):
        if "exact" in cell.metadata.get("tags", ()):
            found[cell.id] = [
                text
                for item in cell.outputs
                for text in (item.get("text"), *(item.get("data", {}).get(f"text/{kind}") for kind in ("plain", "markdown")))
                if text
            ]
    return found


def prose(notebook: nbformat.NotebookNode) -> str:
    """The text of the Markdown cells without code, numbered lists' numbers and the names of notebooks."""
    text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    text = re.sub(r"```.*?```|`[^`]*`|^ {4}.*$", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"^\d+\. ", "", text, flags=re.MULTILINE)


@pytest.mark.engine
@pytest.mark.timeout(600)
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs(path: Path, eng: engine.Engine) -> None:
    notebook = execute.tidy(execute.run(path))
    assert execute.problems(notebook) == []
    saved = nbformat.read(path, as_version=4)
    assert kinds(saved) == kinds(notebook), "run notebooks/execute.py again"
    assert exact(saved) == exact(notebook), "run notebooks/execute.py again"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_what_is_saved_tells_nothing_of_the_machine_and_shows_pictures(path: Path) -> None:
    saved = nbformat.read(path, as_version=4)
    nbformat.validate(saved)
    assert execute.problems(saved) == []
    assert len(saved.cells) < CELLS
    assert saved.metadata.kernelspec.name == "python3"
    outputs = [item for cell in execute.code_cells(saved) for item in cell.outputs]
    assert outputs
    assert not [item for item in outputs if item.output_type == "error"]
    shown = [item.data for item in outputs if "data" in item]
    pictures = ["image/png" in data or "data:image/png;base64," in data.get("text/html", "") for data in shown]
    assert any(pictures), "no static picture: a reader without a kernel sees nothing"
    for data, metadata in ((item.data, item.metadata) for item in outputs if "image/png" in item.get("data", {})):
        assert metadata["image/png"]["alt"], f"a picture without words: {list(data)}"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_asks_shows_explains_and_says_what_it_does_not_show(path: Path) -> None:
    text = "\n".join(cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "markdown")
    found = [text.find(mark) for mark in ("**Question.**", "\n## The picture", "\n## The idea", "\n## Exercise", "\n## Limits")]
    assert -1 not in found
    assert found == sorted(found)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_numbers_are_computed_and_never_typed_into_the_prose(path: Path) -> None:
    found = re.findall(r".{0,40}\d.{0,40}", prose(nbformat.read(path, as_version=4)))
    assert not found, "print it from a cell above (Markdown(f'…'))"


def test_every_notebook_is_in_the_syllabus() -> None:
    syllabus = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in NOTEBOOKS if f"]({path.name})" not in syllabus] == []
    assert [path.name[:2] for path in NOTEBOOKS] == [f"{number:02}" for number in range(1, len(NOTEBOOKS) + 1)]
