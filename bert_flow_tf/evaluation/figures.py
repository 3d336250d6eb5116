"""Figures, drawn with matplotlib: those of the tables, and those of a run's page."""

import io
import itertools
import os
import pathlib
import typing
from collections.abc import Mapping

import numpy as np

from bert_flow_tf.evaluation.analysis import CLOSE
from bert_flow_tf.evaluation.metrics import correlation
from bert_flow_tf.io import files

if typing.TYPE_CHECKING:
  from matplotlib.figure import Figure

# Gray that is readable on white and on black: the cone's figure has no background of its own.
_INK = "#8b949e"
_BEFORE, _AFTER = "#d9534f", ("#3b8ed0", "#2f9e62", "#b07cd8", "#d98f2b")
_CONE_POINTS, _GOLD_POINTS = 800, 1500
_BINS = np.linspace(-1, 1, 81)


def edit_distance_figure(points: Mapping[str, np.ndarray], title: str, unit: str) -> "Figure":
  """Draws Figure 2, close pairs in green; `points` are {name: [n]}: "edit distance", and a similarity per panel."""
  names = [name for name in points if name != "edit distance"]
  distances = points["edit distance"]
  close = distances <= CLOSE
  figure = _figure()
  axes = figure.subplots(1, len(names), sharey=True)
  for axis, name in zip(axes, names, strict=True):
    similarities = points[name]
    axis.scatter(similarities[~close], distances[~close], s=6, color="tab:blue", alpha=0.35, linewidths=0)
    axis.scatter(similarities[close], distances[close], s=14, color="tab:green", alpha=0.35, linewidths=0)
    axis.set_xlabel(name)
    axis.set_title(f"Spearman {correlation(distances, similarities).spearman:.2f}", fontsize="medium")
  axes[0].set_ylabel(f"edit distance ({unit})")
  # Once, outside the panels.
  labels = [f"more than {CLOSE} edits", f"at most {CLOSE} edits"]
  figure.legend(axes[0].collections, labels, fontsize="small", loc="outside lower center", ncols=2)
  figure.suptitle(title)
  return figure


def spectrum_figure(spectra: Mapping[str, np.ndarray], title: str = "") -> "Figure":
  """Draws singular values {name: falling values}, divided by the largest, before and after calibrations."""
  figure, (axis,) = _panels(1, 9, 4)
  smallest = []
  for (name, values), color in zip(spectra.items(), _colors(len(spectra)), strict=True):
    axis.plot(range(1, len(values) + 1), values, label=name, color=color)
    smallest += values[values > 0].tolist()[-1:]
  axis.set_xscale("log")
  # Embeddings that are all 0 have no spectrum: matplotlib rejects a logarithmic axis without a positive value.
  if smallest:
    axis.set_yscale("log")
    axis.set_ylim(min(0.09, 0.8 * min(smallest)), 1.25)  # two labels at least
  for scale in (axis.xaxis, axis.yaxis):
    scale.set_major_formatter("{x:g}")  # powers of ten with their exponents take as long as the drawing
  axis.minorticks_off()
  axis.set_xlabel("index of the singular value, the largest first")
  axis.set_ylabel("singular value / largest")
  axis.legend(fontsize="small", frameon=False, loc="lower left")
  figure.suptitle(title)
  return figure


def gold_figure(cosines: Mapping[str, np.ndarray], gold: np.ndarray) -> "Figure":
  """Draws cosines {method: [n]} against gold scores [n]; at most 1500 pairs, evenly spaced."""
  step = -(-len(gold) // _GOLD_POINTS)
  figure, axes = _panels(len(cosines), 4.2, 3.6)
  for axis, (name, values), color in zip(axes, cosines.items(), _colors(len(cosines)), strict=True):
    axis.scatter(gold[::step], values[::step], s=8, color=color, alpha=0.4, linewidths=0)
    axis.set_title(f"{name}: Spearman {correlation(values, gold).spearman:.2f}", fontsize="medium")
    axis.set_xlabel("gold")
  axes[0].set_ylabel("cosine")
  return figure


def histograms_figure(
  first: Mapping[str, np.ndarray], second: Mapping[str, np.ndarray], labels: tuple[str, str]
) -> "Figure":
  """Draws histograms of two sets of cosines {method: [n]}, the first in gray; `labels` are their names."""
  figure, axes = _panels(len(first), 4.2, 2.6)
  for axis, name, color in zip(axes, first, _colors(len(first)), strict=True):
    _draw_histogram(axis, first[name], labels[0], _INK, 0.5)
    _draw_histogram(axis, second[name], labels[1], color, 0.6)
    axis.set_title(name, fontsize="medium")
    axis.set_xlabel("cosine")
    axis.legend(fontsize="small", frameon=False, loc="upper left")
  axes[0].set_ylabel("%")
  return figure


def _draw_histogram(axis, cosines, label, color, alpha):
  """Draws the percentage of the finite cosines [n] in each bin."""
  finite = cosines[np.isfinite(cosines)]
  percentages = 100 * np.histogram(finite, _BINS)[0] / max(len(finite), 1)
  axis.stairs(percentages, _BINS, fill=True, label=label, color=color, alpha=alpha)


def inline_svg(figure: "Figure") -> str:
  """Returns a figure as an SVG element for HTML: no background, and black in the page's color of text."""
  figure.patch.set_visible(False)
  for axis in figure.axes:
    axis.patch.set_visible(False)
  content = io.StringIO()
  with _rc({"svg.fonttype": "none"}):  # text stays text
    figure.savefig(content, format="svg", metadata={"Date": None})
  svg = content.getvalue()
  return svg[svg.index("<svg") :].replace("#000000", "currentColor")


def cone_figure(before: tuple[np.ndarray, np.ndarray], after: tuple[np.ndarray, np.ndarray]) -> "Figure":
  """Draws embeddings on the unit sphere, and below them the cosines of random pairs, before and after the flow.

  Both arguments are (points, cosines): [n, 3] of length 1, the mean near the first axis; and [pairs].
  """
  figure = _figure(8, 5)
  figure.patch.set_alpha(0)
  spheres, histograms = figure.subplots(2, 2, height_ratios=(3.4, 1))
  _draw_cone(spheres[0], histograms[0], before, "before the flow: a cone", _BEFORE)
  _draw_cone(spheres[1], histograms[1], after, "after the flow: a sphere", _AFTER[0])
  return figure


def _draw_cone(sphere, histogram, data, title, color):
  """Draws points on a sphere, and the histogram of cosines below them."""
  points, cosines = data
  shown = np.random.default_rng(0).permutation(len(points))[:_CONE_POINTS]
  _draw_sphere(sphere, points[shown], color)
  sphere.set_title(title, color=_INK, fontsize="x-large")
  histogram.hist(cosines, bins=_BINS, color=color)
  histogram.axvline(np.mean(cosines), color=_INK, linewidth=1)
  histogram.set_xlabel(f"cosine of random pairs: {np.mean(cosines):.2f} on average", color=_INK)
  histogram.set_xticks([-1, -0.5, 0, 0.5, 1])
  histogram.set_yticks([])
  histogram.tick_params(colors=_INK)
  histogram.patch.set_alpha(0)
  histogram.spines["bottom"].set_color(_INK)
  histogram.spines[["left", "right", "top"]].set_visible(False)


def _draw_sphere(axis, points, color):
  """Draws a globe and points [n, 3] on it, seen from 20 degrees off the first axis; points behind it are pale."""
  turn, lift = np.radians([20.0, 20.0])
  right = np.array([-np.sin(turn), np.cos(turn), 0.0])
  toward = np.array([np.cos(lift) * np.cos(turn), np.cos(lift) * np.sin(turn), np.sin(lift)])
  view = np.stack([right, np.cross(toward, right), toward], axis=1)  # [x, y, z] @ view: right, up, toward the viewer
  angles = np.linspace(0, 2 * np.pi, 181)
  cosine, sine, zero = np.cos(angles), np.sin(angles), np.zeros(181)
  # Six meridians, which the turn of a circle gives, and five parallels.
  lines = [np.stack([np.cos(a) * cosine, np.sin(a) * cosine, sine], axis=1) for a in np.arange(0, np.pi, np.pi / 6)]
  for height in np.arange(-np.pi / 3, np.pi / 2, np.pi / 6):
    lines.append(np.stack([np.cos(height) * cosine, np.cos(height) * sine, zero + np.sin(height)], axis=1))
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
  """Writes `name`.png and `name`.svg; returns their paths."""
  paths = []
  for kind, metadata in (("png", None), ("svg", {"Date": None})):
    content = io.BytesIO()
    with _rc({}):
      figure.savefig(content, format=kind, dpi=120, metadata=metadata)
    paths.append(pathlib.Path(folder) / f"{name}.{kind}")
    files.write_bytes(paths[-1], content.getvalue())
  return paths


def _rc(settings):
  """Returns a context in which matplotlib has these settings, and writes the same bytes for the same numbers."""
  import matplotlib

  return matplotlib.rc_context({"svg.hashsalt": "bert-flow", **settings})


def _colors(count):
  """Returns a color for each method; the first is that of no calibration."""
  return itertools.islice(itertools.chain([_BEFORE], itertools.cycle(_AFTER)), count)


def _panels(count, width, height):
  """Returns a figure and its `count` axes side by side, each of the given inches."""
  from matplotlib.figure import Figure

  # The margins are fixed: a layout that measures every label takes longer than the drawing.
  left, right, bottom, top = 0.95, 0.1, 0.5, 0.35
  margins = {"left": left / (count * width), "right": 1 - right / (count * width)}
  margins |= {"bottom": bottom / height, "top": 1 - top / height, "wspace": (left + right) / (width - left - right)}
  figure = Figure(figsize=(count * width, height))
  return figure, figure.subplots(1, count, sharex=True, squeeze=False, gridspec_kw=margins)[0]


def _figure(width=11, height=4.5):
  from matplotlib.figure import Figure

  return Figure(figsize=(width, height), layout="constrained")
