"""bert_flow_tf/tables/analysis.py: Tables 1 and 6, isotropy and the cone against NumPy and SciPy."""

import re
import types

import numpy as np
import pytest
from scipy import stats

from bert_flow_tf.tables import analysis, figures
from bert_flow_tf.tables.plan import Plan
from bert_flow_tf.tables.workbench import Run
from tests.tables.fakes import Encoder, cosine, flow_matrix, make, make_bench, sides


def levenshtein(a, b):
  row = list(range(len(b) + 1))
  for i, x in enumerate(a, 1):
    row, last = [i], row
    for j, y in enumerate(b, 1):
      row.append(min(last[j] + 1, row[-1] + 1, last[j - 1] + (x != y)))
  return row[-1]


@pytest.mark.parametrize("unit", ["tokens", "characters"])
def test_lexical_rows(data, unit):
  bench = make_bench(data, ["STS-B"])
  pairs = bench.inputs.tasks["STS-B"].splits["dev"]
  a, b = sides(pairs, bench.encoder, "avg-first-last")
  split = {"tokens": lambda text: re.findall(r"\w+|[^\w\s]+", text.lower()), "characters": list}[unit]
  edits = [levenshtein(split(x), split(y)) for x, y in zip(pairs.sentences_a, pairs.sentences_b, strict=True)]
  flows = [cosine((a - 4) @ flow_matrix(seed), (b - 4) @ flow_matrix(seed)) for seed in (1, 2)]
  made = make("6", [bench], edit_unit=unit)
  rows, (note,) = made.rows, made.notes
  for row, similarities in zip(rows, [[pairs.scores], [cosine(a, b)], flows], strict=True):
    for column, other in {"edit distance": edits, "gold similarity": pairs.scores}.items():
      expected = [100 * stats.spearmanr(values, other)[0] for values in similarities]
      assert row.cells[column].values == pytest.approx(expected, abs=1e-6), row.name
  assert [row.name for row in rows] == [
    "gold similarity",
    "fake, avg-first-last: BERT-induced similarity",
    "fake, avg-first-last, flow (target): flow-induced similarity",
  ]
  assert rows[0].cells["edit distance"].paper == -24.61 and rows[1].cells["edit distance"].paper is None
  close = sum(edit <= 4 for edit in edits)
  assert f" {close} of {len(edits)} pairs are at most 4 apart." in note and f"count {unit}" in note and close


def test_lexical_rows_of_two_encoders_with_one_row_of_gold(data):
  benches = [
    make_bench(data, ["STS-B"], encoder=Encoder(name), label=name, paper_encoder=paper)
    for name, paper in [("a", "base"), ("b", None)]
  ]
  rows = make("6", benches, [1]).rows
  assert [row.name.split(",")[0] for row in rows] == ["gold similarity", "a", "a", "b", "b"]
  assert [row.cells["gold similarity"].paper for row in rows] == [100.0, 59.3, 74.09, None, None]


def test_isotropy(data):
  bench = make_bench(data, ["STS-B"])
  pairs = bench.inputs.tasks["STS-B"].splits["test"]
  rows = make("isotropy", [bench], calibration=("whitening-9",)).rows
  a, b = sides(pairs, bench.encoder, "avg-first-last")
  points = np.unique(np.concatenate([a, b]), axis=0)
  variances = np.linalg.eigvalsh(np.cov(points.T))
  used = variances.sum() ** 2 / (variances**2).sum()
  expected = [
    100 * (used - 1) / (points.shape[1] - 1),
    100 * cosine(a, np.roll(b, len(b) // 2, axis=0)).mean(),
    100 * variances.max() / variances.sum(),
  ]
  assert [rows[0].cells[column].mean for column in analysis.ISOTROPY_COLUMNS] == pytest.approx(expected, abs=1e-4)
  assert [len(rows[1].cells[column].values) for column in analysis.ISOTROPY_COLUMNS] == [2, 2, 2]
  assert (
    "rank 6" in rows[2].cells[analysis.ISOTROPY_COLUMNS[0]].reason
    and not rows[2].cells[analysis.ISOTROPY_COLUMNS[0]].defined
  )


def drawn(monkeypatch, kind, draw, bench, **plan):
  """Returns the arguments with which a figure is drawn."""
  arguments = []
  monkeypatch.setattr(
    analysis if kind == "spectrum_figure" else figures, kind, lambda *values: arguments.extend(values)
  )
  draw(Run("figure", Plan(seed=1, **plan), [bench], ("STS-B",), [1]), bench)
  return arguments


def test_data_of_the_figures(data, monkeypatch):
  bench = make_bench(data, ["STS-B"])
  pairs = bench.inputs.tasks["STS-B"].splits["test"]
  a, b = sides(pairs, bench.encoder, "avg-first-last")
  distinct = np.unique(np.concatenate([a, b]), axis=0)

  spectra, _ = drawn(monkeypatch, "spectrum_figure", analysis.draw_spectra, bench, calibration=("whitening-9",))
  values = np.linalg.svd(distinct, compute_uv=False)
  np.testing.assert_allclose(spectra["fake, avg-first-last"], values / values[0], atol=1e-5)
  assert len(spectra) == 2  # without the one that fails

  (points, cosines), _ = drawn(monkeypatch, "cone_figure", analysis.draw_cone, bench)
  np.testing.assert_allclose(cosines, cosine(a, np.roll(b, len(b) // 2, axis=0)), atol=1e-6)
  assert points.shape == (len(distinct), 3)
  np.testing.assert_allclose(np.linalg.norm(points, axis=1), 1.0)
  assert (points.mean(axis=0) > 0).all()  # a large mean: a cone about the first axis
  assert points[:, 0].mean() > points[:, 1:].mean()

  numbers, _, unit = drawn(monkeypatch, "edit_distance_figure", analysis.draw_edit_distances, bench)
  assert unit == "tokens" and list(numbers) == [
    *("edit distance", "gold similarity", "BERT-induced similarity", "flow-induced similarity")
  ]


def test_word_rows(tmp_path):
  """Ranks 0 to 99 and 100 to 109; the three nearest by brute force."""
  embeddings = np.random.default_rng(0).normal(size=[130, 5])
  order = np.random.default_rng(1).permutation(130)[:110]
  vocab = [f"w{number}" for number in range(130)]
  tokenizer = types.SimpleNamespace(vocab=vocab, words=vocab, do_lower_case=True)
  encoder = types.SimpleNamespace(bert=types.SimpleNamespace(word_embeddings=lambda: embeddings), tokenizer=tokenizer)
  bench = types.SimpleNamespace(encoder=encoder, title="fake", paper_encoder="base")
  (tmp_path / "counts.txt").write_text("".join(f"w{row} {1000 - rank}\n" for rank, row in enumerate(order)))
  made = make("1", [bench], tasks=(), frequency_file=str(tmp_path / "counts.txt"))
  rows, note = made.rows, made.notes[0]
  cells = {row.name.removeprefix("fake, "): list(row.cells.values()) for row in rows}
  assert cells["mean l2-norm"][0].mean == pytest.approx(np.linalg.norm(embeddings[order[:100]], axis=1).mean())
  distances = np.linalg.norm(embeddings[:, None] - embeddings, axis=2)
  np.fill_diagonal(distances, np.inf)
  near = np.argsort(distances, axis=1)[:, :3]
  second = order[100:]
  assert cells["mean k-NN l2-distance, k=3"][1].mean == pytest.approx(
    np.mean([distances[i, near[i]].mean() for i in second])
  )
  assert cells["mean k-NN dot product, k=3"][1].mean == pytest.approx(
    np.mean([np.sort(np.delete(embeddings @ embeddings[i], i))[-3:].mean() for i in second])
  )
  assert [cell.paper for cell in cells["mean l2-norm"]] == [0.95, 1.04, 1.22, 1.45]
  assert cells["mean l2-norm"][2].reason and not cells["mean l2-norm"][2].defined
  assert note == "fake: words with a count: 100 in (0,100), 10 in [100,500), 0 in [500,5K), 0 in [5K,10K)."
