"""Every tutorial runs from top to bottom, in a fresh kernel, with warnings as errors."""

from __future__ import annotations

import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

TUTORIALS = Path(__file__).resolve().parents[2] / "tutorials"
NOTEBOOKS = sorted(TUTORIALS.glob("*.ipynb"))


def test_the_first_lessons_are_there():
    assert [p.name for p in NOTEBOOKS][:2] == ["00_quickstart.ipynb", "01_language.ipynb"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_notebook_runs(path, tmp_path):
    notebook = nbformat.read(path, as_version=4)
    strict = nbformat.v4.new_code_cell("import warnings\nwarnings.simplefilter('error')")
    notebook.cells.insert(0, strict)
    client = NotebookClient(
        notebook, timeout=50, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute(env={**os.environ, "PYTHONPATH": str(TUTORIALS.parent)})


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_notebook_is_stored_without_outputs(path):
    notebook = nbformat.read(path, as_version=4)
    kept = [n for n, cell in enumerate(notebook.cells) if cell.get("outputs") or cell.get("execution_count")]
    assert not kept, f"cells {kept} of {path.name} hold outputs; clear them before committing"


@pytest.mark.parametrize("path", sorted(TUTORIALS.rglob("*.md")), ids=lambda p: p.stem)
def test_links_between_pages_lead_somewhere(path):
    wrong = [link for link in _links(path.read_text(encoding="utf-8")) if not (path.parent / link).exists()]
    assert not wrong, f"{path.name} links to {wrong}"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_links_of_notebooks_lead_somewhere(path):
    cells = nbformat.read(path, as_version=4).cells
    text = "\n".join(c.source for c in cells if c.cell_type == "markdown")
    wrong = [link for link in _links(text) if not (path.parent / link).exists()]
    assert not wrong, f"{path.name} links to {wrong}"


def _links(text: str) -> list[str]:
    found = []
    for part in text.split("](")[1:]:
        target = part.split(")")[0].split("#")[0]
        if target and "://" not in target:
            found.append(target)
    return found
