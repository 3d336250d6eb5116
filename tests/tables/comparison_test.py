"""bert_flow_tf/tables/comparison.py: rows beyond the paper, their means and differences, against NumPy and SciPy."""

import numpy as np
import pytest
from scipy import stats

from bert_flow_tf.errors import EncoderError
from bert_flow_tf.tables.beyond import ABLATION_LINES, LINES
from bert_flow_tf.tables.comparison import Comparison
from bert_flow_tf.tables.table import Table
from tests.tables.fakes import Encoder, cosine, flow_matrix, make_bench, sides

TASKS = ["STS-B", "SICK-R"]
SEEDS = [1, 2]
RAW, WHITENING, FLOW = "avg-first-last", "avg-first-last, whitening", "avg-first-last, flow"


def comparison(data, folder=None, tasks=TASKS):
  """Rows of one encoder; its word embeddings alone cannot be loaded."""
  bench = make_bench(data, tasks, folder)
  bench.variants = []

  def variant(bench, token_weights, static):
    bench.variants.append((token_weights, static))
    if static:
      raise EncoderError("no such encoder")
    return make_bench(data, tasks, folder, encoder=Encoder(token_weights))

  return bench, Comparison([bench], variant, tasks, SEEDS)


def cells_of(made):
  return {row.name.removeprefix("fake, "): row.cells for row in made[3]}


def spearman(cosines, pairs):
  return 100 * stats.spearmanr(cosines, pairs.scores)[0]


def whitened(embeddings, fitted):
  mean, covariance = fitted.mean(axis=0), np.cov(fitted.T)
  values, vectors = np.linalg.eigh(covariance)
  return (embeddings - mean) @ (vectors / np.sqrt(values))


def every_sentence(bench, tasks, embedding="avg-first-last"):
  splits = [pairs for task in tasks for pairs in bench.inputs.tasks[task].splits.values()]
  return np.concatenate([side for pairs in splits for side in sides(pairs, bench.encoder, embedding)])


def test_rows_of_beyond(data):
  bench, rows = comparison(data)
  made = rows.table("beyond")
  cells = cells_of(made)
  assert made[2] == [*TASKS, "mean"] and len(cells) == 2 * len(LINES) - 2  # two rows have no calibration
  for fitted, corpus in (("target", None), ("all sets", TASKS)):
    expected = []
    for task in TASKS:
      pairs = bench.inputs.tasks[task].splits["test"]
      every = every_sentence(bench, corpus or [task])
      a, b = (whitened(side, every) for side in sides(pairs, bench.encoder, "avg-first-last"))
      expected.append(spearman(cosine(a, b), pairs))
    found = cells[f"{WHITENING} ({fitted})"]
    assert [found[task].mean for task in TASKS] == pytest.approx(expected, abs=1e-3)
    assert found["mean"].values == (pytest.approx(np.mean(expected), abs=1e-3),)
  flow = cells[f"{FLOW} (target)"]
  of_seeds = zip(*(flow[task].values for task in TASKS), strict=True)
  assert flow["mean"].values == tuple(pytest.approx(np.mean(values)) for values in of_seeds)
  assert bench.variants == [("idf", False), ("idf", True)]  # each is loaded once, also one that cannot be


def test_a_row_without_its_encoder_says_why(data):
  made = comparison(data)[1].table("beyond")
  static = cells_of(made)["static: word-rows, idf, soft-whitening (target)"]
  assert {cell.reason for cell in static.values()} == {"no such encoder"} and not static["mean"].defined
  text = Table("beyond", made[0], made[1], tuple(made[2]), tuple(made[3]), tuple(made[4])).markdown()
  assert "] no such encoder" in text and "--model=base,large" in text


def test_where_it_hurts(data):
  made = comparison(data)[1].table("beyond")
  cells = cells_of(made)
  marks = {
    (row, task): of_row[task].mean < cells[RAW][task].mean
    for row, of_row in cells.items()
    for task in (*TASKS, "mean")
    if row not in ("avg", RAW)
  }
  assert 0 < sum(marks.values()) < len(marks)
  assert all(cells[row][task].worse == lower for (row, task), lower in marks.items())
  assert not any(cell.mark for row in ("avg", RAW) for cell in cells[row].values())


def test_gains(data, tmp_path):
  """The difference is that of Table beyond; its interval is that of both seeds' resamples, drawn one by one."""
  bench, rows = comparison(data, tmp_path)
  scores, gains = cells_of(rows.table("beyond")), cells_of(rows.table("gains"))
  name = f"{FLOW} over {WHITENING} (target)"
  for column in (*TASKS, "mean"):
    expected = scores[f"{FLOW} (target)"][column].mean - scores[f"{WHITENING} (target)"][column].mean
    assert gains[name][column].mean == pytest.approx(expected)
  pairs = bench.inputs.tasks["STS-B"].splits["test"]
  a, b = sides(pairs, bench.encoder, "avg-first-last")
  every = every_sentence(bench, ["STS-B"])
  before = cosine(whitened(a, every), whitened(b, every))
  after = [cosine((a - 4) @ matrix, (b - 4) @ matrix) for matrix in map(flow_matrix, SEEDS)]
  resampled, rng = [], np.random.default_rng(0)
  for draw in rng.integers(len(pairs), size=[1000, len(pairs)]):
    gold = pairs.scores[draw]
    score = [100 * stats.spearmanr(cosines[draw], gold)[0] for cosines in (before, *after)]
    resampled.append(np.mean(score[1:]) - score[0])
  intervals = [cell.interval for row in gains.values() for cell in row.values() if cell.interval]
  above, below = sum(low > 0 for low, _ in intervals), sum(high < 0 for _, high in intervals)
  assert (
    f"fake: of {len(intervals)} intervals, {above} are wholly above 0 (▲) and {below} wholly below 0 (▼)."
    in rows.table("gains")[4]
  )
  cell = gains[name]["STS-B"]
  assert cell.interval == pytest.approx(tuple(np.percentile(resampled, [2.5, 97.5])), abs=1e-6)
  assert cell.text() == f"{cell.mean:+.2f} [{cell.interval[0]:+.2f}, {cell.interval[1]:+.2f}]"
  assert gains[name]["mean"].interval == () and gains[name]["mean"].text() == f"{gains[name]['mean'].mean:+.2f}"
  compared = [row for row in gains if row.endswith(f" over {FLOW} (target)")]
  assert compared == [f"mix, idf, flow over {FLOW} (target)", f"mix, idf, flow+soft-whitening over {FLOW} (target)"]


def test_gains_use_the_stored_similarities(data, tmp_path):
  bench, rows = comparison(data, tmp_path)
  rows.table("beyond")
  fits = bench.fits
  cells = cells_of(rows.table("gains"))
  assert bench.fits == fits > 0
  bench, rows = comparison(data, tmp_path)
  again = cells_of(rows.table("gains"))
  assert bench.fits == bench.encoder.encoded == 0
  assert {name: row["STS-B"].values for name, row in again.items()} == {
    name: row["STS-B"].values for name, row in cells.items()
  }


def test_ablation(data):
  _, rows = comparison(data, tasks=["STS-B"])
  made = rows.table("ablation")
  assert made[2] == ["STS-B"] and [row.name for row in made[3]] == [
    f"fake, {line.name} (target)" for line in ABLATION_LINES
  ]
  assert len({line.name for line in ABLATION_LINES}) == len(ABLATION_LINES)
