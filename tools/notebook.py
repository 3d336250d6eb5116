"""Notebook of the tour: docs/tour.ipynb, the Python of docs/tour.md as cells, with the outputs of a run.

python -m tools.notebook, after a change of docs/tour.md
"""

import os
import pathlib
import re
import tempfile

import jupytext
import nbclient
import nbformat

PAGE = pathlib.Path(__file__).parents[1] / "docs/tour.md"
NOTEBOOK = PAGE.with_suffix(".ipynb")


def make() -> nbformat.NotebookNode:
  """Returns the notebook without outputs: that of jupytext, but the page's outputs and commands are no cells."""
  text = PAGE.read_text(encoding="utf-8")
  text = re.sub(r"^(```python\n.*?^```\n)\n```\n.*?^```\n", r"\1", text, flags=re.DOTALL | re.MULTILINE)
  text = re.sub(r"^<!-- notebook: (.*) -->$", r"```python\n%matplotlib inline\n\1\n```", text, flags=re.MULTILINE)
  text = text.replace("```bash", "```text").replace("[the notebook](tour.ipynb)", "this notebook")
  notebook = jupytext.reads(text, fmt="md")
  install = "# On Colab alone: elsewhere the package is installed already\n%pip install -q bert-flow-tf"
  setup = nbformat.v4.new_code_cell(install, metadata={"tags": ["skip-execution"]})
  notebook.cells.insert(1, setup)
  for number, cell in enumerate(notebook.cells):
    cell.id = str(number)
  notebook.metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
  return notebook


def run(notebook: nbformat.NotebookNode) -> None:
  """Runs the cells in an empty folder, and keeps their outputs."""
  os.environ["PYTHONPATH"] = os.pathsep.join([str(PAGE.parents[1]), os.environ.get("PYTHONPATH", "")])
  with tempfile.TemporaryDirectory() as folder:
    resources = {"metadata": {"path": folder}}
    nbclient.NotebookClient(notebook, timeout=600, resources=resources, record_timing=False).execute()
  # TensorFlow's notes on the machine are no output of the tour.
  for cell in notebook.cells:
    if cell.cell_type == "code":
      cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]


if __name__ == "__main__":
  tour = make()
  run(tour)
  nbformat.write(tour, NOTEBOOK)
