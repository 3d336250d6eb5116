"""bert_flow_tf/tables/figures.py and evaluation/figures.py: the contents of the figures."""

import numpy as np

from bert_flow_tf.evaluation.figures import inline_svg, spectrum_figure
from bert_flow_tf.tables import figures

POINTS = {
  "edit distance": np.array([4, 5, 40, 2]),
  "gold similarity": np.array([1.0, 2.0, np.nan, 4.0]),
  "other": np.array([0.1, 0.2, 0.3, 0.4]),
}


def test_close_pairs_are_marked():
  figure = figures.edit_distance_figure(POINTS, "a title", "tokens")
  assert [axis.get_xlabel() for axis in figure.axes] == ["gold similarity", "other"]
  assert figure.axes[0].get_ylabel() == "edit distance (tokens)"
  far, close = figure.axes[1].collections
  assert far.get_offsets().tolist() == [[0.2, 5.0], [0.3, 40.0]]
  assert close.get_offsets().tolist() == [[0.1, 4.0], [0.4, 2.0]]
  assert far.get_facecolor().tolist() != close.get_facecolor().tolist()


def test_spectra_and_files(tmp_path):
  spectra = {"before": np.array([1.0, 0.1]), "after": np.array([1.0, 0.9])}
  figure = spectrum_figure(spectra, "a title")
  assert [line.get_ydata().tolist() for line in figure.axes[0].lines] == [[1.0, 0.1], [1.0, 0.9]]
  paths = figures.save(figure, tmp_path, "figure_x")
  assert [path.name for path in paths] == ["figure_x.png", "figure_x.svg"] and len(list(tmp_path.iterdir())) == 2
  assert paths[0].read_bytes().startswith(b"\x89PNG") and b"<svg" in paths[1].read_bytes()
  before = [path.read_bytes() for path in paths]
  figures.save(spectrum_figure(spectra, "a title"), tmp_path, "figure_x")
  assert [path.read_bytes() for path in paths] == before


def test_spectrum_of_embeddings_that_are_all_zero():
  assert "<svg" in inline_svg(spectrum_figure({"glove": np.full(3, np.nan)}))


def test_cone():
  """Every point is drawn once, in the front or behind; the mean cosine stands below its histogram."""
  points = np.array([[1.0, 0.0, 0.0], [0.0, 0.6, 0.8], [-1.0, 0.0, 0.0]])
  cosines = np.array([0.5, 0.7])
  figure = figures.cone_figure((points, cosines), (points, -cosines))
  for sphere, histogram, mean in zip(figure.axes[:2], figure.axes[2:], ("0.60", "-0.60"), strict=True):
    behind, front = (np.asarray(part.get_offsets()) for part in sphere.collections)
    assert (len(behind), len(front)) == (1, 2) and np.all(np.linalg.norm(front, axis=1) <= 1)
    assert f" {mean} " in histogram.get_xlabel() and sum(bar.get_height() for bar in histogram.patches) == 2
