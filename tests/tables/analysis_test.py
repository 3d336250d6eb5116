"""bert_flow_tf/tables/analysis.py and figures.py: Tables 1 and 6, words, edit distances and isotropy."""

import math
import re
import sys
import types

import numpy as np
import pytest
from rapidfuzz.distance import Levenshtein
from scipy import stats
from scipy.spatial import distance
from sklearn.neighbors import NearestNeighbors
from tokenizers import pre_tokenizers

from bert_flow_tf.data.tasks import load_task
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.evaluation.figures import inline_svg, spectrum_figure
from bert_flow_tf.tables import analysis, figures
from bert_flow_tf.tables.analysis import edit_distances, frequency_groups
from bert_flow_tf.tables.plan import Plan
from bert_flow_tf.tables.request import TableRequest
from tests.tables.fakes import Encoder, cosine, flow_matrix, make, make_bench, sides
from tests.testing import rejected, shared


@pytest.mark.parametrize("unit", ["tokens", "characters"])
def test_lexical_rows(data, unit):
  bench = make_bench(data, ["STS-B"])
  pairs = bench.inputs.tasks["STS-B"].splits["dev"]
  a, b = sides(pairs, bench.encoder, "avg-first-last")
  split = {"tokens": lambda text: re.findall(r"\w+|[^\w\s]+", text.lower()), "characters": list}[unit]
  edits = [Levenshtein.distance(split(x), split(y)) for x, y in zip(pairs.sentences_a, pairs.sentences_b, strict=True)]
  flows = [cosine((a - 4) @ flow_matrix(seed), (b - 4) @ flow_matrix(seed)) for seed in (1, 2)]
  content = make("6", [bench], edit_unit=unit)
  rows, (note,) = content.rows, content.notes
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
  draw(TableRequest("figure", Plan(seed=1, **plan), [bench], ("STS-B",), [1]), bench)
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
  """Ranks 0 to 99 and 100 to 109."""
  embeddings = np.random.default_rng(0).normal(size=[130, 5])
  order = np.random.default_rng(1).permutation(130)[:110]
  vocab = [f"w{number}" for number in range(130)]
  tokenizer = types.SimpleNamespace(vocab=vocab, words=vocab, do_lower_case=True)
  matrix = types.SimpleNamespace(numpy=lambda: embeddings)
  encoder = types.SimpleNamespace(bert=types.SimpleNamespace(word_embeddings=matrix), tokenizer=tokenizer)
  bench = types.SimpleNamespace(encoder=encoder, title="fake", paper_encoder="base")
  (tmp_path / "counts.txt").write_text("".join(f"w{row} {1000 - rank}\n" for rank, row in enumerate(order)))
  content = make("1", [bench], tasks=(), frequency_file=str(tmp_path / "counts.txt"))
  rows, note = content.rows, content.notes[0]
  cells = {row.name.removeprefix("fake, "): list(row.cells.values()) for row in rows}
  for column, group in enumerate(frequency_groups(embeddings, order, ((0, 100), (100, 110)), (3,))):
    assert {name: cells[name][column].mean for name in group} == pytest.approx(group)
  assert [cell.paper for cell in cells["mean l2-norm"]] == [0.95, 1.04, 1.22, 1.45]
  assert cells["mean l2-norm"][2].reason and not cells["mean l2-norm"][2].defined
  assert note == "fake: words with a count: 100 in (0,100), 10 in [100,500), 0 in [500,5K), 0 in [5K,10K)."


def _line(*places):
  """Embeddings on a line."""
  return np.array(places, np.float64)[:, None]


ROOT = math.sqrt(2)
# (embeddings, rows by frequency, mean l2-norm, {k: mean distance}, {k: mean dot product})
BY_HAND = {
  "a neighbor without a rank": (_line(0, 10, 1), [0, 1], 5.0, {1: (1 + 9) / 2}, {1: (0 + 10) / 2}),
  "no other word": (_line(0, 10), [0, 1], 5.0, {1: 10.0}, {1: 0.0}),
  "equal words": (_line(5, 5, 9) - 7, [0, 1], 2.0, {1: 0.0, 2: 2.0}, {1: 4.0, 2: 0.0}),
  "fewer words than neighbors": (np.eye(4)[:3], [0, 1, 2], 1.0, {2: ROOT, 3: math.nan}, {2: 0.0, 3: math.nan}),
  "one word": (np.eye(4)[:1], [0], 1.0, {1: math.nan}, {1: math.nan}),
}


DISTANCE, PRODUCT = "mean k-NN l2-distance, k={}", "mean k-NN dot product, k={}"


@pytest.mark.parametrize("name", BY_HAND)
def test_by_hand(name):
  embeddings, order, norm, distances, products = BY_HAND[name]
  (group,) = frequency_groups(embeddings, order, groups=[(0, len(order))], neighbors=tuple(distances))
  expected = {"mean l2-norm": norm}
  for k in distances:
    expected |= {DISTANCE.format(k): distances[k], PRODUCT.format(k): products[k]}
  assert group == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize("piece", [1, 1000, 1 << 22])
def test_against_scikit_learn(monkeypatch, piece):
  """Groups of different sizes, one without words."""
  monkeypatch.setattr(analysis, "_PIECE", piece)
  rng = np.random.default_rng(0)
  embeddings = (rng.normal(size=(600, 12)) + 3).astype(np.float32)
  order = rng.permutation(600)[:90]  # argpartition sorts short rows
  groups = ((0, 10), (10, 60), (50, 80), (90, 99))
  *result, empty = frequency_groups(embeddings, order, groups, (1, 9, 30))
  assert all(map(math.isnan, empty.values()))
  exact = embeddings.astype(np.float64)
  near = NearestNeighbors(n_neighbors=31, algorithm="brute").fit(exact)
  for group, (first, end) in zip(result, groups[:3], strict=True):
    rows = order[first:end]
    distances, others = near.kneighbors(exact[rows])
    assert (others[:, 0] == rows).all()  # each word itself
    products = exact[rows] @ exact.T
    products[np.arange(len(rows)), rows] = -np.inf
    products = np.sort(products, axis=1)[:, ::-1]
    assert group["mean l2-norm"] == pytest.approx(np.linalg.norm(exact[rows], axis=1).mean(), rel=1e-12)
    for k in (1, 9, 30):
      assert group[DISTANCE.format(k)] == pytest.approx(distances[:, 1 : k + 1].mean(), rel=1e-9)
      assert group[PRODUCT.format(k)] == pytest.approx(products[:, :k].mean(), rel=1e-9)


def test_near_words_far_from_the_origin():
  rng = np.random.default_rng(0)
  embeddings = rng.normal(size=(40, 3)) * 1e-4 + 1e5
  expected = np.sort(distance.cdist(embeddings, embeddings), axis=1)[:, 1:4].mean()
  (group,) = frequency_groups(embeddings, range(40), groups=[(0, 40)], neighbors=(3,))
  assert group[DISTANCE.format(3)] == pytest.approx(expected, rel=1e-9)


def test_tokens_by_hand():
  pairs = {
    ("I like this restaurant.", "i DISLIKE this  restaurant !"): 2,
    ("a well-known man", "a well known man"): 1,
    ('He said: "no."', "he said no"): 3,  # the last two marks are one token
    ("don't", "do not"): 3,
    ("", "four"): 1,
    ("", " "): 0,
    ("a b c", "b c a"): 2,
    ("\ud800", ""): 1,
  }
  distances = edit_distances(*zip(*pairs, strict=True))
  assert distances.dtype == np.int64 and distances.tolist() == list(pairs.values())


def test_tokens_are_those_of_the_tokenizers_package_and_give_the_papers_gold_score():
  """Table 6's gold row is -24.61."""
  pairs = load_task("STS-B", shared("data")).splits["dev"]
  split = pre_tokenizers.Whitespace().pre_tokenize_str
  expected = []
  for pair in zip(pairs.sentences_a, pairs.sentences_b, strict=True):
    a, b = ([token for token, _ in split(sentence.lower())] for sentence in pair)
    expected.append(Levenshtein.distance(a, b))
  assert edit_distances(pairs.sentences_a, pairs.sentences_b).tolist() == expected
  assert 100 * stats.spearmanr(expected, pairs.scores).statistic == pytest.approx(-24.61, abs=0.5)


def test_characters_by_hand():
  pairs = {
    ("kitten", "sitting"): 3,
    ("I like this restaurant", "I dislike this restaurant"): 3,
    ("", "four"): 4,
    ("", ""): 0,
    ("Cat", "cat"): 1,
    ("a b", "a  b"): 1,
    ("ab", "ba"): 2,  # no transposition, as Damerau's distance has it
    ("caf\u00e9", "cafe\u0301"): 2,  # composed or not: code points as they are
    ("\U0001f600", "x"): 1,
    ("\ud800", ""): 1,
  }
  assert edit_distances(*zip(*pairs, strict=True), "characters").tolist() == list(pairs.values())
  assert edit_distances([], []).shape == (0,)


def test_without_rapidfuzz(monkeypatch):
  monkeypatch.setitem(sys.modules, "rapidfuzz.distance", None)
  with rejected(ConfigError, None, match="rapidfuzz"):
    edit_distances(["a"], ["b"])


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
  spectra = {"before": np.array([1.0, 0.1, 1e-8]), "after": np.array([1.0, 0.9, 0.0])}  # two sentences
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
