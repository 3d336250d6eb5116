"""Pictures, through matplotlib: Figure 2 of the paper, and singular spectra."""

import io
import pathlib

from bert_flow_tf.errors import ConfigError
from bert_flow_tf.evaluation.edit_distance import CLOSE, close_pairs

FORMATS = ("png", "svg")


def require_matplotlib():
  """matplotlib, drawing into files.

  Raises:
    ConfigError: it is not installed.
  """
  try:
    import matplotlib
  except ImportError as error:
    raise ConfigError("figures need matplotlib, which is not installed: pip install 'bert-flow-tf[tables]'") from error
  matplotlib.use("agg")
  # The same bytes for the same numbers: no date, no random ids.
  matplotlib.rcParams["svg.hashsalt"] = "bert-flow"
  return matplotlib


def edit_distance_figure(points, title):
  """Figure 2: each panel a similarity against edit distance, pairs of at most 4 edits in green.

  Args:
    points: {name: [n]}: "edit distance", and a similarity a panel.
    title: above the panels.
  """
  figure, names = _figure(), [name for name in points if name != "edit distance"]
  distances = points["edit distance"]
  close = close_pairs(distances)
  axes = figure.subplots(1, len(names), sharey=True)
  for axis, name in zip(axes, names, strict=True):
    axis.scatter(points[name][~close], distances[~close], s=4, color="tab:blue", label=f"more than {CLOSE} edits")
    axis.scatter(points[name][close], distances[close], s=12, color="tab:green", label=f"at most {CLOSE} edits")
    axis.set_xlabel(name)
  axes[0].set_ylabel("edit distance (characters)")
  axes[0].legend(fontsize="small")
  figure.suptitle(title)
  return figure


def spectrum_figure(spectra, title):
  """Singular values over the largest, of the embeddings and of what calibrations make of them.

  Args:
    spectra: {name: falling values}.
    title: above it.
  """
  figure = _figure()
  axis = figure.subplots()
  for name, values in spectra.items():
    axis.plot(range(1, len(values) + 1), values, label=name)
  axis.set_xscale("log")
  axis.set_yscale("log")
  axis.set_xlabel("index of the singular value")
  axis.set_ylabel("singular value / largest")
  axis.legend(fontsize="small")
  figure.suptitle(title)
  return figure


def save(figure, folder, name):
  """Writes `name`.png and `name`.svg; returns their paths.

  Raises:
    OSError: they cannot be written.
  """
  paths = []
  for extension in FORMATS:
    content = io.BytesIO()
    figure.savefig(content, format=extension, dpi=120, metadata={"Date": None} if extension == "svg" else None)
    path = pathlib.Path(folder) / f"{name}.{extension}"
    beside = path.with_name(f".{path.name}.writing")
    try:
      beside.write_bytes(content.getvalue())
      beside.replace(path)
    finally:
      beside.unlink(missing_ok=True)
    paths.append(path)
  return paths


def _figure():
  require_matplotlib()
  from matplotlib.figure import Figure

  return Figure(figsize=(11, 4.5), layout="constrained")
