"""docs/tour.ipynb: it has the cells of docs/tour.md, and its outputs are those of a run."""

import pytest

from tests.pages import check_output

pytest.importorskip("jupytext", reason="jupytext is not installed (the extra test)")
pytest.importorskip("nbclient", reason="nbclient is not installed (the extra test)")

import nbformat

from tools import notebook

KEPT = nbformat.read(notebook.NOTEBOOK, as_version=4)


def sources(cells):
  return [(cell.cell_type, cell.source) for cell in cells]


def printed(cell):
  return "".join(output.text for output in cell.get("outputs", []) if output.output_type == "stream")


def images(cell):
  return sum("image/png" in output.get("data", {}) for output in cell.get("outputs", []))


def test_notebook_is_that_of_the_page():
  """After a change of the page: python -m tools.notebook."""
  assert sources(KEPT.cells) == sources(notebook.make().cells)
  nbformat.validate(KEPT)


@pytest.mark.slow
def test_notebook_runs_and_prints_what_it_keeps():
  made = notebook.make()
  notebook.run(made)
  for kept, cell in zip(KEPT.cells, made.cells, strict=True):
    check_output(printed(cell), printed(kept))
    assert images(cell) == images(kept)
  assert sum(map(images, made.cells)) == 4
