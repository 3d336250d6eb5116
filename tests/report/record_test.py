"""report/record.py and page.py: a page from the files of a folder, and folders that have no page."""

import dataclasses
import json

import numpy as np
import pytest

from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.errors import ConfigError, DataError
from bert_flow_tf.evaluation.task_scores import scores_of_split
from bert_flow_tf.io import checksums
from bert_flow_tf.report import page
from bert_flow_tf.report.record import Predictions, RunRecord, TaskRecord, read_record, write_record
from tests.report.records import BETTER, WORSE, record_of, with_spectra
from tests.testing import rejected

ABOUT = {"task": "STS-B", "data": "a file", "encoder": {"name": "mini"}, "seconds": {"fitting": 0.1}}
BY_TASK = {"data": {"STS-B": "a file", "SICK-R": "another"}, "flags": {"split": None}}


def write(folder, *tasks, by_task=False, writes_predictions=True, **about):
  """Writes a run's folder and returns its page."""
  about = about or (BY_TASK if by_task else ABOUT)
  write_record(folder, RunRecord("a title", tasks, about), by_task, writes_predictions)
  return page.draw_page(folder).read_text(encoding="utf-8")


def undefined():
  """Returns the record of a method whose scores and gains are NaN."""
  pairs = SentencePairs(["a", "b\tc\n"], ["\0d", "<e> \u2028 \x85"], np.array([1.0, np.nan]))
  record = record_of(*BETTER)
  scores = scores_of_split("test", pairs, np.array([0.5, 0.25]), "correlation")
  by_method = {"test": {"without_flow": scores["test"], "with_flow": scores["test"]}}
  gain = {**record.result.gains["test"]["with_flow"], "gain": np.nan, "low": np.nan, "reason": "1 scored pair"}
  result = dataclasses.replace(record.result, scores=by_method, gains={"test": {"with_flow": gain}})
  cosines = {"without_flow": np.array([0.5, 0.25]), "with_flow": np.array([1 / 3, np.nan])}
  return TaskRecord(result, predictions=Predictions(pairs, cosines))


@pytest.mark.parametrize(
  ("tasks", "options"),
  [
    ([with_spectra(record_of(*WORSE, matches={"characters": 0.1}))], {}),
    ([with_spectra(record_of(*BETTER, gold=False, name="custom"))], {**ABOUT, "task": "custom"}),
    ([with_spectra(record_of(*BETTER)), with_spectra(record_of(*WORSE, name="SICK-R"))], {"by_task": True}),
    ([record_of(*BETTER)], {"writes_predictions": False, **ABOUT, "predictions": "a.tsv"}),
  ],
  ids=["calibrations", "without gold", "by task", "similarities"],
)
def test_a_page_shows_what_the_run_has(tmp_path, tasks, options):
  """The page of the files is the page of the numbers in memory, whatever file was made first."""
  text = write(tmp_path, *tasks, **options)
  about = read_record(tmp_path).about
  expected = []
  for task in tasks:  # a task without gold has no predictions
    expected.append(task if task.result.has_gold else dataclasses.replace(task, predictions=None))
  assert text == page.page_text(RunRecord("a title", expected, about)) and "No drawing" not in text
  assert page.draw_page(tmp_path).read_text(encoding="utf-8") == text


def test_numbers_that_are_not_defined(tmp_path):
  text = write(tmp_path, undefined(), **ABOUT)
  assert "not defined (1 scored pair)" in text and "+nan" in text
  (task,) = read_record(tmp_path).tasks
  assert np.isnan(task.result.gains["test"]["with_flow"]["low"]) and task.predictions.pairs.sentences_a[1] == "b c "
  np.testing.assert_array_equal(task.predictions.cosines["with_flow"], [1 / 3, np.nan])


def test_files_that_are_missing_or_of_another_run(tmp_path):
  """A page without the drawings of the file, and one sentence."""
  record = with_spectra(record_of(*BETTER))
  whole = write(tmp_path, record)
  # Other results, whose run was killed before it wrote the rest.
  other = tmp_path / "other"
  write(other, with_spectra(record_of(*WORSE)))
  for name, gap, drawings in (
    ("drawings.npz", "No drawing of the embeddings: drawings.npz is missing, or of another run. Version 0.1 ", 1),
    ("test_results.tsv", "No drawing of similarity and gold, and no pairs that moved: test_results.tsv is ", 2),
  ):
    content = (tmp_path / name).read_bytes()
    for replaced in (None, (other / name).read_bytes()):
      (tmp_path / name).unlink()
      if replaced is not None:
        (tmp_path / name).write_bytes(replaced)
      text = page.draw_page(tmp_path).read_text(encoding="utf-8")
      assert text.count(f"<p>{gap}") == 1 and text.count("<figure") == drawings and "Take two pairs" in text
      (tmp_path / name).write_bytes(content)
  assert page.draw_page(tmp_path).read_text(encoding="utf-8") == whole


def test_a_run_of_the_first_release(tmp_path):
  """It wrote neither drawings nor title and order."""
  text = write(tmp_path, record_of(*BETTER, matches={"characters": 0.1}))
  path = tmp_path / "results.json"
  values = json.loads(path.read_text())
  for key in ("title", "right_order", "right_order_of_string_match", checksums.KEY):
    del values[key]
  path.write_text(json.dumps(values))
  again = page.draw_page(tmp_path).read_text(encoding="utf-8")
  assert "<h1>STS-B, mini</h1>" in again and again.count("No drawing of ") == 1
  order = text[text.index("Take two pairs") : text.index(", and a string match")]
  assert order in again


def test_scores_of_a_training_alone(tmp_path):
  """The published runner's test_results.tsv is no predictions, and nothing is missing."""
  (tmp_path / "test_results.tsv").write_text("0.5\n")
  text = write(tmp_path, TaskRecord(record_of(*BETTER).result), **ABOUT, training={"step": 3})
  assert "No drawing" not in text and "<figure" not in text and "Take two pairs" not in text


def test_folders_without_a_page(tmp_path):
  cases = [(ConfigError, None), (DataError, "{"), (DataError, "[1]"), (ConfigError, "{}")]
  cases.append((DataError, '{"task": "STS-B", "results": {"test": 1}}'))
  cases.append((DataError, '{"task": "STS-B", "data": "", "results": {"test": {"sn": {"spearman": 1}}}}'))
  cases.append((DataError, '{"task": ["a"], "results": {"test": {}}}'))
  cases.append((ConfigError, '{"results": {"STS12": {}}, "senteval": {}}'))
  for error, text in cases:
    if text is not None:
      (tmp_path / "results.json").write_text(text)
    with rejected(error, "input" if error is ConfigError else None):
      page.draw_page(tmp_path)
  for text, found in (('{"results": {"test": {}}}', "no entry 'data'"), ("null", "got null")):
    (tmp_path / "results.json").write_text(text)
    with rejected(DataError, None, match=found):
      page.draw_page(tmp_path)
  assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize("name", ["results.json", "test_results.tsv", "drawings.npz"])
def test_damaged_files(tmp_path, name):
  write(tmp_path, with_spectra(record_of(*BETTER)))
  path = tmp_path / name
  content = bytearray(path.read_bytes())
  middle = content.index(b"0.") if name == "results.json" else len(content) // 2
  for damaged in (content[:middle], content[:middle] + b"\t" + content[middle + 1 :]):
    path.write_bytes(damaged)
    with rejected(DataError, None) as raised:
      page.draw_page(tmp_path)
    assert str(raised.value).startswith(f"{path}: damaged, or not ")
