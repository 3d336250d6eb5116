"""bert_flow_tf/tables/beyond.py: rows beyond the paper, their means and differences, against NumPy and SciPy."""

import dataclasses

import numpy as np
import pytest
from scipy import stats

from bert_flow_tf.errors import EncoderError
from bert_flow_tf.tables import workbench
from bert_flow_tf.tables.kinds import EncoderKind
from bert_flow_tf.tables.recipe import CONTROLS, RowRecipe
from bert_flow_tf.tables.registry import TABLES
from bert_flow_tf.tables.table import Table
from tests.tables.fakes import Bench, Encoder, cosine, flow_matrix, make, make_bench, sides

TASKS = ["STS-B", "SICK-R"]
SEEDS = [1, 2]
RAW, WHITENING, FLOW = "avg-first-last", "avg-first-last, whitening", "avg-first-last, flow"


@pytest.fixture(autouse=True)
def variants(monkeypatch):
  """The variants that were loaded; an encoder's word embeddings alone cannot be."""
  loaded = []

  def change(encoder, settings, token_weights, static, precision, engine):
    loaded.append((token_weights, static, precision, engine))
    if static:
      raise EncoderError("no such encoder")
    return Encoder(token_weights)

  monkeypatch.setattr(workbench, "change_encoder", change)
  monkeypatch.setattr(workbench, "Workbench", Bench)
  return loaded


def cells_of(content):
  return {row.name.removeprefix("fake, "): row.cells for row in content.rows}


def spearman(cosines, pairs):
  return 100 * stats.spearmanr(cosines, pairs.scores)[0]


def whitened(embeddings, fitted):
  mean, covariance = fitted.mean(axis=0), np.cov(fitted.T)
  values, vectors = np.linalg.eigh(covariance)
  return (embeddings - mean) @ (vectors / np.sqrt(values))


def every_sentence(bench, tasks, embedding="avg-first-last"):
  splits = [pairs for task in tasks for pairs in bench.inputs.tasks[task].splits.values()]
  return np.concatenate([side for pairs in splits for side in sides(pairs, bench.encoder, embedding)])


def test_rows_of_an_encoder_with_one_embedding(data):
  """A SavedModel's vectors, without calibration and with those that need no tokens; marked by the former."""
  bench = make_bench(
    data, TASKS, encoder=Encoder("saved_model:use"), kind=EncoderKind.SAVED_MODEL, only_embedding="output"
  )
  content = make("beyond", [bench], SEEDS, TASKS)
  names = ["flow", "whitening", "soft-whitening", "auto"]
  fitted = [f"output, {name} ({corpus})" for corpus in ("target", "all sets") for name in names]
  cells = cells_of(content)
  assert list(cells) == ["output", *fitted]
  for name in fitted:
    for task in TASKS:
      assert cells[name][task].worse == (cells[name][task].mean < cells["output"][task].mean)
  assert any(line.startswith("fake: only the embedding that its files declare or give") for line in content.notes)


def test_rows_of_beyond(data, variants):
  bench = make_bench(data, TASKS)
  content = make("beyond", [bench], SEEDS, TASKS)
  cells = cells_of(content)
  assert content.columns == [*TASKS, "mean"] and len(cells) == 35  # 15, 11 of them again on all sets, 9 in fewer bits
  for fitted, corpus in (("target", None), ("all sets", TASKS)):
    expected = []
    for task in TASKS:
      pairs = bench.inputs.tasks[task].splits["test"]
      every = every_sentence(bench, corpus or [task])
      a, b = (whitened(side, every) for side in sides(pairs, bench.encoder, "avg-first-last"))
      expected.append(spearman(cosine(a, b), pairs))
    whitening = cells[f"{WHITENING} ({fitted})"]
    assert [whitening[task].mean for task in TASKS] == pytest.approx(expected, abs=1e-3)
    assert whitening["mean"].values == (pytest.approx(np.mean(expected), abs=1e-3),)
  flow = cells[f"{FLOW} (target)"]
  of_seeds = zip(*(flow[task].values for task in TASKS), strict=True)
  assert flow["mean"].values == tuple(pytest.approx(np.mean(values)) for values in of_seeds)
  for precision, engine in (("", ""), ("int8", ""), ("bfloat16", "openvino"), ("int8", "openvino")):
    assert variants.count(("idf", False, precision, engine)) == 1

  # A row without its encoder says why.
  static = cells["static: word-rows, idf, soft-whitening (target)"]
  assert {cell.reason for cell in static.values()} == {"no such encoder"} and not static["mean"].defined
  text = Table("beyond", "t", "m", tuple(content.columns), tuple(content.rows), tuple(content.notes)).markdown()
  assert "] no such encoder" in text and "--model=base,large" in text
  (choice,) = (note for note in content.notes if note.startswith("fake, choice of auto (all sets): "))
  assert "whitening" in choice and choice.endswith("STS-B, SICK-R.")

  # Scores that are lower than without a calibration are marked.
  marks = {}
  for row, of_row in cells.items():
    if row not in ("avg", RAW, *CONTROLS):
      marks |= {(row, task): of_row[task].mean < cells[RAW][task].mean for task in (*TASKS, "mean")}
  assert 0 < sum(marks.values()) < len(marks)
  assert all(cells[row][task].worse == lower for (row, task), lower in marks.items())
  assert not any(cell.mark for row in ("avg", RAW, *CONTROLS) for cell in cells[row].values())


def test_controls_and_characters_beside_a_calibration(data, tmp_path):
  """The cosine is the mean of that of the calibration and that of the string match, whatever it is fitted on."""
  bench = make_bench(data, TASKS)
  corpus = tmp_path / "general.txt"
  corpus.write_text(
    "".join(f"{sentence} So.\n" for sentence in bench.inputs.tasks["SICK-R"].splits["test"].sentences_a)
  )
  content = make("beyond", [bench], SEEDS, TASKS, corpus=str(corpus))
  cells, pairs = cells_of(content), bench.inputs.tasks["STS-B"].splits["test"]
  assert any(note.startswith("(corpus): ") for note in content.notes)
  of_whitening = cells[f"{WHITENING} (corpus)"]["STS-B"].mean
  gains = make("gains", [bench], SEEDS, TASKS, corpus=str(corpus))
  assert any(note.startswith("(corpus): ") for note in gains.notes)
  gain = cells_of(gains)[f"{WHITENING} over characters (corpus)"]["STS-B"]
  assert gain.interval and gain.mean == pytest.approx(of_whitening - cells["characters"]["STS-B"].mean)

  ids = [bench.encoder.tokenizer(side, 64) for side in (pairs.sentences_a, pairs.sentences_b)]
  match = bench.encoder.characters.cosines(*ids)
  for control in CONTROLS:
    assert cells[control]["STS-B"].mean == pytest.approx(spearman(match, pairs))
  recipe = RowRecipe("mix", "soft-whitening", token_weights="idf")
  beside = dataclasses.replace(recipe, calibration="soft-whitening+characters")
  expected = (bench.cosines("STS-B", recipe)[0] + match) / 2
  np.testing.assert_allclose(bench.cosines("STS-B", beside)[0], expected, atol=1e-6)


def test_gains(data, tmp_path):
  """The difference is that of Table beyond; its interval is that of both seeds' resamples, drawn one by one."""
  bench = make_bench(data, TASKS, tmp_path)
  scores, content = cells_of(make("beyond", [bench], SEEDS, TASKS)), make("gains", [bench], SEEDS, TASKS)
  gains, name = cells_of(content), f"{FLOW} over {WHITENING} (target)"
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
  for over, is_match in (("over whitening and the flow", False), ("over characters", True)):
    rows = [row for name_of_row, row in gains.items() if (" over characters" in name_of_row) == is_match]
    intervals = [cell.interval for row in rows for cell in row.values() if cell.interval]
    above, below = sum(low > 0 for low, _ in intervals), sum(high < 0 for _, high in intervals)
    counts = f"{above} are wholly above 0 (▲) and {below} wholly below 0 (▼)."
    assert f"fake: of {len(intervals)} intervals {over}, {counts}" in content.notes
  cell = gains[name]["STS-B"]
  assert cell.interval == pytest.approx(tuple(np.percentile(resampled, [2.5, 97.5])), abs=1e-6)
  assert gains[name]["mean"].interval == () and gains[name]["mean"].text() == f"{gains[name]['mean'].mean:+.2f}"
  over_match = gains[f"{FLOW} over characters (target)"]["STS-B"]
  matched = scores["characters"]["STS-B"].mean
  assert over_match.mean == pytest.approx(scores[f"{FLOW} (target)"]["STS-B"].mean - matched)
  assert over_match.interval[0] < over_match.mean < over_match.interval[1]
  assert sum(" over characters (all sets)" in row for row in gains) == 11
  compared = [row for row in gains if row.endswith(f" over {FLOW} (target)")]
  assert compared == [f"mix, idf, flow over {FLOW} (target)", f"mix, idf, flow+soft-whitening over {FLOW} (target)"]

  # They are computed from the stored cosines.
  again = make_bench(data, TASKS, tmp_path)
  assert (
    cells_of(make("gains", [again], SEEDS, TASKS))[name] == gains[name] and again.fits == again.encoder.encoded == 0
  )


def test_tables_with_qnli_say_that_the_word_frequencies_have_seen_it():
  for name in ("beyond", "gains"):
    for tasks, is_noted in ((["STS-B", "QNLI"], True), (["STS-B"], False)):
      notes = make(name, [], tasks=tasks).notes
      assert any("QNLI" in note for note in notes) == is_noted


def test_ablation(data):
  content = make("ablation", [make_bench(data, ["STS-B"])], SEEDS)
  assert content.columns == ["STS-B"] and len({row.name for row in content.rows}) == len(content.rows) == 14
  assert "fake, recipe: mix, idf, soft-whitening (target)" in [row.name for row in content.rows]
  assert TABLES["ablation"].columns(("STS-B",)) == ("STS-B",)
