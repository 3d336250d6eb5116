"""docs/tour.ipynb: it has the cells of docs/tour.md, and its outputs are those of a run."""

import pytest

from tests.pages import check_output

pytest.importorskip("jupytext", reason="jupytext is not installed (the extra test)")
pytest.importorskip("nbclient", reason="nbclient is not installed (the extra test)")

import nbformat

from tools import notebook

SAVED = nbformat.read(notebook.NOTEBOOK, as_version=4)


def sources(cells):
  return [(cell.cell_type, cell.source) for cell in cells]


def printed(cell):
  return "".join(output.text for output in cell.get("outputs", []) if output.output_type == "stream")


def images(cell):
  return sum("image/png" in output.get("data", {}) for output in cell.get("outputs", []))


def test_notebook_is_that_of_the_page():
  """If it fails after a change of the page, run python -m tools.notebook."""
  assert sources(SAVED.cells) == sources(notebook.make().cells)
  nbformat.validate(SAVED)


@pytest.mark.slow
def test_notebook_runs_and_prints_its_saved_outputs():
  new = notebook.make()
  notebook.run(new)
  for saved_cell, cell in zip(SAVED.cells, new.cells, strict=True):
    check_output(printed(cell), printed(saved_cell))
    assert images(cell) == images(saved_cell)
  assert sum(map(images, new.cells)) == 4
