"""Figures, drawn with matplotlib: Figure 2 of the paper, singular spectra, and the cone and the sphere."""

import io
import os
import pathlib
import types
import typing
from collections.abc import Mapping

import numpy as np

from bert_flow_tf.errors import ConfigError, install_command
from bert_flow_tf.evaluation.edit_distance import CLOSE, close_pairs
from bert_flow_tf.io import files

if typing.TYPE_CHECKING:
  from matplotlib.figure import Figure

FORMATS = ("png", "svg")

# Gray that is readable on white and on black: the cone's figure has no background of its own.
_INK = "#8b949e"
_CONE_PANELS = (("before the flow: a cone", "#d9534f"), ("after the flow: a sphere", "#3b8ed0"))
_CONE_POINTS = 800


def require_matplotlib() -> types.ModuleType:
  """Returns matplotlib, set to draw into files.

  Raises:
    ConfigError: it is not installed.
  """
  try:
    import matplotlib
  except ImportError as error:
    raise ConfigError(f"figures need matplotlib, which is not installed: {install_command('tables')}") from error
  matplotlib.use("agg")
  # Without random ids, the same numbers give the same bytes.
  matplotlib.rcParams["svg.hashsalt"] = "bert-flow"
  return matplotlib


def edit_distance_figure(points: Mapping[str, np.ndarray], title: str, unit: str) -> "Figure":
  """Draws Figure 2: each panel a similarity against edit distance, pairs of at most 4 edits in green.

  Args:
    points: {name: [n]}: "edit distance", and one similarity per panel.
    title: title above the panels.
    unit: unit of the edit distance, "tokens".
  """
  figure, names = _figure(), [name for name in points if name != "edit distance"]
  distances = points["edit distance"]
  close = close_pairs(distances)
  axes = figure.subplots(1, len(names), sharey=True)
  for axis, name in zip(axes, names, strict=True):
    axis.scatter(points[name][~close], distances[~close], s=4, color="tab:blue", label=f"more than {CLOSE} edits")
    axis.scatter(points[name][close], distances[close], s=12, color="tab:green", label=f"at most {CLOSE} edits")
    axis.set_xlabel(name)
  axes[0].set_ylabel(f"edit distance ({unit})")
  axes[0].legend(fontsize="small")
  figure.suptitle(title)
  return figure


def spectrum_figure(spectra: Mapping[str, np.ndarray], title: str) -> "Figure":
  """Draws singular values, divided by the largest, before and after calibrations.

  Args:
    spectra: {name: decreasing values}.
    title: title above the panel.
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


def cone_figure(before: tuple[np.ndarray, np.ndarray], after: tuple[np.ndarray, np.ndarray]) -> "Figure":
  """Draws embeddings on the unit sphere, and below them the cosines of unpaired sentences.

  Args:
    before: (points, cosines) of the embeddings: [n, 3] of length 1, the mean near the first axis; and [pairs].
    after: the same of the calibrated embeddings.
  """
  figure = _figure(8, 5)
  figure.patch.set_alpha(0)
  spheres, histograms = figure.subplots(2, 2, height_ratios=(3.4, 1))
  for sphere, histogram, (title, color), (points, cosines) in zip(
    spheres, histograms, _CONE_PANELS, (before, after), strict=True
  ):
    shown = np.random.default_rng(0).permutation(len(points))[:_CONE_POINTS]
    _draw_sphere(sphere, points[shown], color)
    sphere.set_title(title, color=_INK, fontsize="x-large")
    histogram.hist(cosines, bins=np.linspace(-1, 1, 81), color=color)
    histogram.axvline(np.mean(cosines), color=_INK, linewidth=1)
    histogram.set_xlabel(f"cosine of unrelated sentences: {np.mean(cosines):.2f} on average", color=_INK)
    histogram.set_xticks([-1, -0.5, 0, 0.5, 1])
    histogram.set_yticks([])
    histogram.tick_params(colors=_INK)
    histogram.patch.set_alpha(0)
    histogram.spines["bottom"].set_color(_INK)
    histogram.spines[["left", "right", "top"]].set_visible(False)
  return figure


def _draw_sphere(axis, points, color):
  """Draws a globe and points [n, 3] on it, seen from 20 degrees off the first axis; points behind it are pale."""
  turn, lift = np.radians([20.0, 20.0])
  right = np.array([-np.sin(turn), np.cos(turn), 0.0])
  toward = np.array([np.cos(lift) * np.cos(turn), np.cos(lift) * np.sin(turn), np.sin(lift)])
  view = np.stack([right, np.cross(toward, right), toward], axis=1)  # [x, y, z] @ view: right, up, toward the viewer
  angles = np.linspace(0, 2 * np.pi, 181)
  cosine, sine, zero = np.cos(angles), np.sin(angles), np.zeros(181)
  turns, heights = np.arange(0, np.pi, np.pi / 6), np.arange(-np.pi / 3, np.pi / 2, np.pi / 6)
  lines = [np.stack([np.cos(a) * cosine, np.sin(a) * cosine, sine], axis=1) for a in turns]
  lines += [np.stack([np.cos(h) * cosine, np.cos(h) * sine, zero + np.sin(h)], axis=1) for h in heights]
  for line in lines:
    x, y, depth = (line @ view).T
    axis.plot(np.where(depth > 0, x, np.nan), y, color=_INK, linewidth=0.4, alpha=0.6)
  axis.plot(cosine, sine, color=_INK, linewidth=1)
  x, y, depth = (points @ view).T
  for rows, alpha in ((depth < 0, 0.18), (depth >= 0, 0.8)):
    axis.scatter(x[rows], y[rows], s=7, color=color, alpha=alpha, linewidths=0)
  axis.set_aspect("equal")
  axis.set_axis_off()


def save(figure: "Figure", folder: str | os.PathLike, name: str) -> list[pathlib.Path]:
  """Writes `name`.png and `name`.svg; returns their paths.

  Raises:
    OSError: they cannot be written.
  """
  paths = [pathlib.Path(folder) / f"{name}.{extension}" for extension in FORMATS]
  for path in paths:
    content = io.BytesIO()
    metadata = {"Date": None} if path.suffix == ".svg" else None
    figure.savefig(content, format=path.suffix[1:], dpi=120, metadata=metadata)
    files.write_bytes(path, content.getvalue())
  return paths


def _figure(width=11, height=4.5):
  require_matplotlib()
  from matplotlib.figure import Figure

  return Figure(figsize=(width, height), layout="constrained")
