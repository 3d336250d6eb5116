"""run_scripts/run_eval.py: right and wrong command lines."""

import re

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import roc_auc_score

from bert_flow_tf import FlowConfig, Glow, SentenceEncoder, SentenceModel, evaluate_retrieval
from bert_flow_tf.calibration.names import make_calibration
from bert_flow_tf.calibration.saving import load_calibration
from bert_flow_tf.calibration.step_list import as_calibration
from bert_flow_tf.data.beir import load_beir
from bert_flow_tf.data.tasks import load_task
from tests.integrations import senteval_checkout
from tests.run_scripts import tiny_data
from tests.run_scripts.command_lines import check_rejected, check_succeeded
from tests.run_scripts.results import mean_cosine, read_json, read_predictions
from tests.runs.small_runs import write_beir

pytestmark = pytest.mark.slow
RUNNER = "eval"
ARGUMENTS = {"sentence_embedding_type": "avg", "max_seq_length": 32, "low_dim": 4}


def prepare(folder):
  tiny_data.write(folder / "data")
  senteval_checkout.write(folder / "SentEval", folder / "data")
  (folder / "pairs.tsv").write_text("one\ttwo\nthree\tfour\n")
  write_beir(folder / "beir")
  queries = write_beir(folder / "twice") / "queries.jsonl"
  queries.write_text(queries.read_text() + '{"_id": "q0", "text": "x"}\n')
  write_files(folder)
  save(folder)


def save(folder):
  """Saves the calibrations that the command lines name, and the embeddings of the pairs."""
  encoder = SentenceEncoder.from_pretrained("mini")
  sentences = [sentence for pair in tiny_data.sentences() for sentence in pair]
  rows = encoder.encode(sentences, ARGUMENTS["sentence_embedding_type"], ARGUMENTS["max_seq_length"])
  flow = Glow(FlowConfig(n_levels=1, depth=1), rows.shape[1], seed=1)
  flow.initialize(rows)
  calibrations = {f"exp/{name}": make_calibration(name).fit(rows) for name in ("whitening-8", "sn", "mean")}
  calibrations |= {"exp/flow": as_calibration(flow), "another/flow": as_calibration(flow)}
  for name, calibration in calibrations.items():
    calibration.encoder = None if name == "exp/mean" else encoder.identity(**ARGUMENTS).to_dict()
    calibration.save(folder / name)
  other = make_calibration("sn").fit(rows)
  for name, change in {"damaged": {"low_dim": "x"}, "gone": {"name": "gone/model", "weights_sha256": "0" * 64}}.items():
    other.encoder = {**encoder.identity(**ARGUMENTS).to_dict(), **change}
    other.save(folder / name)
  np.savez(folder / "embeddings.npz", sentences=sentences, rows=rows)


def write_files(folder):
  """Writes files for --predictions."""
  gold = [row[0] for row in tiny_data.scored(tiny_data.PAIRS, 2)]
  lines = [f"{0.01 * i * i % 1:.4f}" for i in range(tiny_data.PAIRS)]
  table = ["gold\tmine", *(f"{score}\t{line}" for score, line in zip(gold, lines, strict=True))]
  texts = {
    "lines.txt": lines,
    "table.tsv": table,
    "labels.tsv": ["gold\tmine", "1\t0.5", "0\t0.5", "nan\tnan", "1\t0.9", "0\t0.1"],
    "few.txt": lines[:-1],
    "word.txt": [*lines[:3], "high", *lines[4:]],
    "underscore.txt": [*lines[:3], "1_5", *lines[4:]],
    "gap.txt": [*lines[:3], "", *lines[3:]],
    "nan.txt": [*lines[:3], "nan", *lines[4:]],
    "othergold.tsv": [*table[:3], "0.5\t0.5", *table[4:]],
    "ragged.tsv": [*table[:3], "1\t0.5\t0.5", *table[4:]],
    "noheader.tsv": table[1:],
    "nomethod.tsv": ["index\tgold\tsentence1\tsentence2", "0\t1\ta\tb"],
    "headeronly.tsv": table[:1],
    "nogold.tsv": ["gold\tmine", "nan\t0.5", "nan\t0.4"],
    "empty.txt": [],
  }
  for name, text in texts.items():
    (folder / name).write_text("".join(f"{line}\n" for line in text))
  (folder / "binary.txt").write_bytes(b"\xff\xfe\x00")


def right(folder):
  data = f"--data_dir={folder}/data"
  tasks = ["--task=stsb,SICK-R,STS-12-16", data, f"--cached_dir={folder}/cache"]
  exp = f"{folder}/exp"
  return {
    "several tasks": [*tasks, f"--flow_folder={exp}/flow,{exp}/whitening-8,{exp}/sn", f"--output_dir={folder}/several"],
    "two flows": ["--task_name=STS-B", data, f"--flow_folder={exp}/flow,{folder}/another/flow", "--split=dev"],
    "no identity": [
      *("--task=STS-B", data, f"--flow_folder={exp}/mean", "--model=mini", f"--output_dir={folder}/no_identity"),
      *("--sentence_embedding_type=avg", "--max_seq_length=32", "--low_dim=4"),
    ],
    "insisted": [
      *("--task=STS-B", data, f"--flow_folder={exp}/sn", "--max_seq_length=64", "--allow_other_encoder"),
      f"--output_dir={folder}/insisted",
    ],
    "bare": ["--task=STS-B", data, "--low_dim=4", f"--output_dir={folder}/bare"],
    "table": [f"--predictions={folder}/table.tsv", f"--output_dir={folder}/table"],
    "lines": [f"--predictions={folder}/lines.txt", "--task=STS-B", data, f"--output_dir={folder}/lines"],
    "written": [f"--predictions={folder}/several/STS-12-16/test_results.tsv", "--task=STS-12-16", data],
    "senteval": [
      *(f"--senteval={folder}/SentEval", "--senteval_trusted", f"--output_dir={folder}/senteval"),
      "--senteval_tasks=STS12,STS14",
      *(f"--flow_folder={exp}/flow,{exp}/whitening-8,{exp}/sn", f"--cached_dir={folder}/cache"),
    ],
    "beir": [f"--beir={folder}/beir", f"--flow_folder={exp}/whitening-8,{exp}/sn", f"--output={folder}/search"],
    "labels": [f"--predictions={folder}/labels.tsv", "--metric=auc", f"--output_dir={folder}/labels"],
  }


def test_command_lines(ran):
  check_succeeded(ran, right)
  check_rejected(ran, RUNNER)


@pytest.fixture(scope="module")
def rows(ran):
  """Returns {sentence: its embedding before low_dim, by the arguments that the calibrations were saved with}."""
  with np.load(ran[0] / "embeddings.npz") as archive:
    return dict(zip(archive["sentences"].tolist(), archive["rows"].astype(np.float64), strict=True))


def test_scores_of_a_search(ran):
  folder, found = ran
  scores = read_json(folder / "search/results.json")["results"]["beir"]["test"]
  task = load_beir(folder / "beir")
  model = SentenceModel.load(folder / "exp/sn")
  expected = evaluate_retrieval(model, task.documents, task.queries, task.qrels).mean
  assert {name: scores["sn"][name] for name in expected} == {name: pytest.approx(expected[name]) for name in expected}
  assert (folder / "search/beir/test_results.sn.trec.gz").exists() and (folder / "search/report.html").exists()
  rows = [line.split()[:2] for line in found["beir"]["stdout"].splitlines()]
  assert ["sn", f"{expected['ndcg@10']:.2f}"] in rows


@pytest.mark.parametrize("name", ["STS-B", "SICK-R"])
def test_cosines_are_those_of_the_saved_calibrations(ran, rows, name):
  """The encoder, its pooling and lengths were named by the folders alone."""
  columns = read_predictions(ran[0] / "several" / name)
  methods = list(columns)[2:-2]
  assert methods == ["without_flow", "with_flow", "whitening-8", "sn"]
  a, b = (np.array([rows[sentence] for sentence in columns[side]]) for side in ("sentence1", "sentence2"))
  expected = [mean_cosine(a, b)]
  for folder in ("flow", "whitening-8", "sn"):
    calibration = load_calibration(ran[0] / "exp" / folder)
    expected.append(mean_cosine(calibration.transform(a), calibration.transform(b)))
  for method, cosines in zip(methods, expected, strict=True):
    np.testing.assert_allclose(np.array(columns[method], float), cosines, atol=2e-4, err_msg=method)


def test_figures_of_several_tasks(ran):
  folder, found = ran
  results = read_json(folder / "several/results.json")
  assert list(results["results"]) == ["STS-B", "SICK-R", "STS-12-16"]
  for name in ("STS-B", "SICK-R"):
    columns = read_predictions(folder / "several" / name)
    gold = np.array(columns["gold"], float)
    assert list(results["results"][name]) == ["test"]
    for method, figures in results["results"][name]["test"].items():
      cosines = np.array(columns[method], float)
      assert figures["spearman"] == pytest.approx(100 * stats.spearmanr(cosines, gold)[0], abs=1e-9)
      row = rf"^{name} test +40 +Spearman .* {figures['spearman']:.2f}( |$)"
      assert re.search(row, found["several tasks"]["stdout"], re.MULTILINE)
  assert re.search(
    r"^gain in Spearman on SICK-R test by whitening-8: [+-]", found["several tasks"]["stdout"], re.MULTILINE
  )
  assert results["gain"]["STS-B"]["test"].keys() == {"with_flow", "whitening-8", "sn"}
  assert results["encoder"]["name"] == "mini" and results["encoder"]["max_seq_length"] == 32
  assert results["calibrations"]["with_flow"] == {"name": "flow", "folder": str(folder / "exp/flow")}
  assert len(list((folder / "cache").iterdir())) == 1  # the sentences of all tasks at once


def test_subsets_of_a_union(ran):
  """The mean over subsets, by SciPy from the files of gold."""
  folder, found = ran
  columns = read_predictions(folder / "several/STS-12-16")
  pairs = load_task("STS-12-16", folder / "data").splits["test"]
  results = read_json(folder / "several/results.json")["results"]["STS-12-16"]
  assert list(results) == [*(f"test STS-{year}" for year in range(12, 17)), "test"]
  for year, subsets in {**pairs.groups(), "": pairs.subsets}.items():
    for method, figures in results[f"test {year}".strip()].items():
      cosines, gold = np.array(columns[method], float), pairs.scores
      parts = [slice(subset.start, subset.stop) for subset in subsets]
      each = [100 * stats.spearmanr(cosines[part], gold[part])[0] for part in parts]
      sizes = [part.stop - part.start for part in parts]
      assert figures["spearman_wmean"] == pytest.approx(np.average(each, weights=sizes))

  def without_cosine(text):
    """Returns the rows that a file of similarities has too, without the task's name, with single spaces."""
    lines = [" ".join(line.split()).removeprefix("STS-12-16 ") for line in text.splitlines()]
    return [line for line in lines if line.startswith("test STS-1") and "mean cosine" not in line]

  again = without_cosine(found["written"]["stdout"])
  assert again == without_cosine(found["several tasks"]["stdout"]) and len(again) == 20


def test_senteval_agrees(ran):
  """The figures of the same pairs; words are joined by single blanks there, which no word piece sees."""
  folder, _ = ran
  found, expected = (read_json(folder / name / "results.json")["results"] for name in ("senteval", "several"))
  for year in ("12", "14"):
    for method, figures in expected["STS-12-16"][f"test STS-{year}"].items():
      same = found[f"STS{year}"][f"STS{year} all"][method]
      for key in ("spearman_wmean", "spearman_mean", "pearson_wmean"):
        assert same[key] == pytest.approx(figures[key], abs=0.2)


def test_names_that_repeat_are_numbered(ran):
  """The same flow twice: the same figures, on the split asked for."""
  header, _, row, *_ = ran[1]["two flows"]["stdout"].splitlines()
  assert re.split("  +", header)[3:] == ["uncalibrated", "flow 1", "flow 2"]
  cells = re.split("  +", row)
  assert cells[:2] == ["dev", "40"] and cells[4] == cells[5] != cells[3]


def test_folder_without_identity_is_taken_with_an_explicit_encoder(ran, rows):
  columns = read_predictions(ran[0] / "no_identity/STS-B")
  a, b = (np.array([rows[sentence] for sentence in columns[side]]) for side in ("sentence1", "sentence2"))
  mean = np.mean(list(rows.values()), axis=0)
  np.testing.assert_allclose(np.array(columns["mean"], float), mean_cosine(a - mean, b - mean), atol=1e-4)


def test_other_encoder_if_allowed(ran):
  """64 tokens in place of 32 are applied; no sentence is that long, so that the figures stay."""
  folder, _ = ran
  found, expected = (read_json(folder / name / "results.json") for name in ("insisted", "several"))
  assert found["encoder"]["max_seq_length"] == 64
  same = [of["results"]["STS-B"]["test"]["sn"]["spearman"] for of in (found, expected)]
  assert same[0] == pytest.approx(same[1], abs=1.0)


def test_bare_encoder(ran):
  folder, found = ran
  results = read_json(folder / "bare/results.json")
  assert list(results["results"]["STS-B"]["test"]) == ["without_flow"] and results["calibrations"] == {}
  assert results["encoder"]["sentence_embedding_type"] == "avg-first-last" and results["encoder"]["low_dim"] == 4
  assert "change" not in found["bare"]["stdout"] and "gain" not in found["bare"]["stdout"]


def test_file_of_similarities(ran):
  """With gold in it and without: the same figure, which is SciPy's."""
  folder, found = ran
  cosines = np.loadtxt(folder / "lines.txt")
  gold = load_task("STS-B", folder / "data").splits["test"].scores
  expected = 100 * stats.spearmanr(cosines, gold)[0]
  lines, table = (read_json(folder / name / "results.json")["results"] for name in ("lines", "table"))
  assert lines["STS-B"]["test"]["similarity"]["spearman"] == pytest.approx(expected)
  assert table["table.tsv"]["test"]["mine"]["spearman"] == pytest.approx(expected)
  assert re.search(rf"^test +40 +Spearman +{expected:.2f}$", found["lines"]["stdout"], re.MULTILINE)
  assert not (folder / "lines/STS-B").exists()


def test_auc_of_labels(ran):
  """A tie across the labels, and a pair without one."""
  figures = read_json(ran[0] / "labels/results.json")["results"]["labels.tsv"]["test"]["mine"]
  assert figures["auc"] == pytest.approx(100 * roc_auc_score([1, 0, 1, 0], [0.5, 0.5, 0.9, 0.1])) == 87.5
  assert figures["pairs"] == 4
