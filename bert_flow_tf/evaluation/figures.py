"""Figures of a run's page, drawn with matplotlib."""

import io
import itertools
import typing
from collections.abc import Mapping

import numpy as np

from bert_flow_tf.evaluation.metrics import correlation

if typing.TYPE_CHECKING:
  from matplotlib.figure import Figure

# Gray that is readable on white and on black: the cone's figure has no background.
INK = "#8b949e"
BEFORE, AFTER = "#d9534f", ("#3b8ed0", "#2f9e62", "#b07cd8", "#d98f2b")
_GOLD_POINTS = 1500
_NO_VARIANCE = 1e-6  # of a singular value, by the largest
BINS = np.linspace(-1, 1, 81)


def spectrum_figure(spectra: Mapping[str, np.ndarray], title: str = "", width: float = 9) -> "Figure":
  """Draws singular values {name: falling values}, divided by the largest, before and after calibrations.

  Smaller values than float32's rounding, of directions without variance, are left out.
  """
  figure, axis = _panel(width, 4)
  smallest = []
  for (name, values), color in zip(spectra.items(), _colors(len(spectra)), strict=True):
    drawn = values[values > _NO_VARIANCE]
    axis.plot(range(1, len(drawn) + 1), drawn, label=name, color=color)
    smallest += drawn.tolist()[-1:]
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


def gold_figures(cosines: Mapping[str, np.ndarray], gold: np.ndarray) -> list["Figure"]:
  """Draws cosines {method: [n]} against gold scores [n], all on the same axes; at most 1500 pairs, evenly spaced."""
  step = -(-len(gold) // _GOLD_POINTS)
  finite = np.concatenate([values[np.isfinite(values)] for values in cosines.values()] + [[1.0]])
  figures = []
  for (name, values), color in zip(cosines.items(), _colors(len(cosines)), strict=True):
    figure, axis = _panel(4.6, 3.6)
    axis.scatter(gold[::step], values[::step], s=12, color=color, alpha=0.4, linewidths=0)
    axis.set_ylim(finite.min() - 0.05, finite.max() + 0.05)
    axis.set_title(f"{name}: Spearman {correlation(values, gold).spearman:.2f}", fontsize="medium")
    axis.set_xlabel("gold")
    axis.set_ylabel("cosine")
    figures.append(figure)
  return figures


def histogram_figures(
  first: Mapping[str, np.ndarray], second: Mapping[str, np.ndarray], labels: tuple[str, str]
) -> list["Figure"]:
  """Draws histograms of two sets of cosines {method: [n]}, the first in gray, all on the same axes."""
  sides = [{name: percentages(cosines) for name, cosines in side.items()} for side in (first, second)]
  return percentage_figures(sides[0], sides[1], labels)


def percentage_figures(
  first: Mapping[str, np.ndarray], second: Mapping[str, np.ndarray], labels: tuple[str, str]
) -> list["Figure"]:
  """Draws histograms {method: `percentages`} of two sets of cosines, as `histogram_figures`."""
  highest = np.max(list(first.values()) + list(second.values()))
  figures = []
  for name, color in zip(first, _colors(len(first)), strict=True):
    figure, axis = _panel(4.6, 3.0)
    for side, label, ink, alpha in zip((first, second), labels, (INK, color), (0.5, 0.6), strict=True):
      axis.stairs(side[name], BINS, fill=True, label=label, color=ink, alpha=alpha)
    axis.set_ylim(0, 1.05 * highest or 1)
    axis.set_title(name, fontsize="medium")
    axis.set_xticks([-1, -0.5, 0, 0.5, 1])
    axis.set_xlabel("cosine")
    axis.set_ylabel("% of pairs")
    axis.legend(fontsize="small", frameon=False, loc="upper left")
    figures.append(figure)
  return figures


def interval_figure(
  scores: Mapping[str, float], intervals: Mapping[str, tuple[float, float]], baseline: tuple[str, float]
) -> "Figure":
  """Draws scores {method: score} as dots, their intervals {method: (low, high)} as bars, a baseline's as a line."""
  name, score = baseline
  left = 0.3 + 0.09 * max(map(len, scores))  # inches of the names
  figure, axis = _panel(left + 3, 1.1 + 0.3 * len(scores), left)
  for row, method in enumerate(scores):
    axis.plot(intervals[method], [row, row], color=AFTER[0], linewidth=2)
    axis.plot(scores[method], row, "o", color=AFTER[0])
  axis.axvline(score, color=INK, linestyle="--", linewidth=1)
  axis.set_ylim(len(scores) - 0.5, -0.5)  # the first one on top
  axis.set_yticks(range(len(scores)), list(scores))
  axis.set_title(f"beside {name}: {score:.2f}", fontsize="medium")
  axis.set_xlabel("nDCG@10")
  return figure


def percentages(cosines: np.ndarray) -> np.ndarray:
  """Returns the percentage of the finite cosines [n] in each of `BINS`, float64 [80]."""
  finite = cosines[np.isfinite(cosines)]
  return 100 * np.histogram(finite, BINS)[0] / max(len(finite), 1)


def inline_svg(figure: "Figure") -> str:
  """Returns a figure as an SVG element for HTML: no background, and black in the page's color of text."""
  figure.patch.set_visible(False)
  for axis in figure.axes:
    axis.patch.set_visible(False)
  content = io.StringIO()
  with rc({"svg.fonttype": "none"}):  # text stays text
    figure.savefig(content, format="svg", metadata={"Date": None})
  svg = content.getvalue()
  return svg[svg.index("<svg") :].replace("#000000", "currentColor")


def rc(settings):
  """Returns a context in which matplotlib has these settings, and writes the same bytes for the same numbers."""
  import matplotlib

  return matplotlib.rc_context({"svg.hashsalt": "bert-flow", **settings})


def _colors(count):
  """Returns a color for each method; the first is for no calibration."""
  return itertools.islice(itertools.chain([BEFORE], itertools.cycle(AFTER)), count)


def _panel(width, height, left=0.9):
  """Returns a figure of the given inches and its axes, which begin at `left`."""
  from matplotlib.figure import Figure

  # The margins are fixed: a layout that measures every label takes longer than the drawing.
  right, bottom, top = 0.1, 0.5, 0.35
  margins = {"left": left / width, "right": 1 - right / width, "bottom": bottom / height, "top": 1 - top / height}
  figure = Figure(figsize=(width, height))
  return figure, figure.subplots(gridspec_kw=margins)
