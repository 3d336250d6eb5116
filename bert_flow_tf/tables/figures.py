"""Figures of the tables, drawn with matplotlib: Figure 2, the cone, and their files."""

import io
import os
import pathlib
import typing
from collections.abc import Mapping

import numpy as np

from bert_flow_tf.evaluation.figures import AFTER, BEFORE, BINS, INK, rc
from bert_flow_tf.evaluation.metrics import correlation
from bert_flow_tf.io import files

if typing.TYPE_CHECKING:
  from matplotlib.figure import Figure

_CONE_POINTS = 800
CLOSE = 4  # largest edit distance of the pairs that Figure 2 marks


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


def cone_figure(before: tuple[np.ndarray, np.ndarray], after: tuple[np.ndarray, np.ndarray]) -> "Figure":
  """Draws embeddings on the unit sphere, and below them the cosines of random pairs, before and after the flow."""
  # Both have points [n, 3] of length 1, the mean near the first axis, and cosines [pairs].
  figure = _figure(8, 5)
  figure.patch.set_alpha(0)
  spheres, histograms = figure.subplots(2, 2, height_ratios=(3.4, 1))
  _draw_cone(spheres[0], histograms[0], before, "before the flow: a cone", BEFORE)
  _draw_cone(spheres[1], histograms[1], after, "after the flow: a sphere", AFTER[0])
  return figure


def _draw_cone(sphere, histogram, data, title, color):
  """Draws points on a sphere, and the histogram of cosines below them."""
  points, cosines = data
  shown = np.random.default_rng(0).permutation(len(points))[:_CONE_POINTS]
  _draw_sphere(sphere, points[shown], color)
  sphere.set_title(title, color=INK, fontsize="x-large")
  histogram.hist(cosines, bins=BINS, color=color)
  histogram.axvline(np.mean(cosines), color=INK, linewidth=1)
  histogram.set_xlabel(f"cosine of random pairs: {np.mean(cosines):.2f} on average", color=INK)
  histogram.set_xticks([-1, -0.5, 0, 0.5, 1])
  histogram.set_yticks([])
  histogram.tick_params(colors=INK)
  histogram.patch.set_alpha(0)
  histogram.spines["bottom"].set_color(INK)
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
  lines = []
  for turned in np.arange(0, np.pi, np.pi / 6):
    lines.append(np.stack([np.cos(turned) * cosine, np.sin(turned) * cosine, sine], axis=1))
  for height in np.arange(-np.pi / 3, np.pi / 2, np.pi / 6):
    lines.append(np.stack([np.cos(height) * cosine, np.cos(height) * sine, zero + np.sin(height)], axis=1))
  for line in lines:
    x, y, depth = (line @ view).T
    axis.plot(np.where(depth > 0, x, np.nan), y, color=INK, linewidth=0.4, alpha=0.6)
  axis.plot(cosine, sine, color=INK, linewidth=1)
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
    with rc({}):
      figure.savefig(content, format=kind, dpi=120, metadata=metadata)
    paths.append(pathlib.Path(folder) / f"{name}.{kind}")
    files.write_bytes(paths[-1], content.getvalue())
  return paths


def _figure(width=11, height=4.5):
  from matplotlib.figure import Figure

  return Figure(figsize=(width, height), layout="constrained")
