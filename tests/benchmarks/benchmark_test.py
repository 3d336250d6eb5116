"""benchmarks/: the methods do the same work, and the tables follow from the measurements."""

import dataclasses
import sys

import numpy as np
import pytest

from benchmarks import dedupe_rates, duplicates, hybrid, measure, serving, static, step, tasks, training_step
from benchmarks.parts import Benchmark, BenchmarkSettings
from bert_flow_tf.data.tasks import DataSettings
from bert_flow_tf.encoder.settings import EncoderSettings
from bert_flow_tf.training.settings import FlowSettings
from bert_flow_tf.vectors import find_duplicates
from tests.testing import REPO, run_python
from tests.vectors.toy_folder import needs_faiss

SENTENCES = ["a dog", "a cat", "a dog .", "b", "dogs a a b . dog cat", "a cat cats ."]


def test_methods_take_turns_and_each_ratio_is_of_one_round(monkeypatch):
  monkeypatch.setattr(measure.gc, "collect", lambda: None)  # seconds in a process of many tests
  calls, numbers = [], iter([4.0, 2.0, 30.0, 40.0, 9.0, 3.0])
  way = lambda name: lambda: (calls.append(name), next(numbers))[1]  # noqa: E731
  result = measure.in_turns({"a": way("a"), "b": way("b")}, 3)
  assert calls == ["a", "b", "b", "a", "a", "b"]
  assert measure.median_ratio(result["a"], result["b"]) == 2.0


def test_xla_pays_where_its_gain_makes_up_for_its_start():
  plain, xla = {"start_up_seconds": 5.0, "step_ms": 8.0}, {"start_up_seconds": 9.0, "step_ms": 4.0}
  assert step.break_even(plain, xla) == 1000
  assert step.break_even({"start_up_seconds": 5.0, "step_ms": 4.0}, xla) is None


def test_help_lists_the_flags_of_the_benchmark():
  page = run_python("benchmarks/run.py", "--help")
  assert page.index("This command") < page.index("--repeats=N") < page.index("\nEncoder\n")


def small(**embedding):
  settings = BenchmarkSettings(tasks=("hard-sample",), repeats=2, other_python=sys.executable)
  embedding = EncoderSettings(max_seq_length=16, predict_batch_size=64, **embedding)
  return Benchmark(settings, DataSettings(), embedding, FlowSettings(flow_model_config="config_l2_d2_w32"))


@pytest.mark.slow
def test_both_ways_of_a_task_give_the_same_scores(monkeypatch):
  """The original's way pads everything and embeds the same."""
  benchmark = small(model="mini")
  padded = tasks.PaddedEncoder(benchmark.encoder, "avg-first-last", 16, 4)
  expected = benchmark.encoder.encode(SENTENCES, max_seq_length=16, show_progress=False)
  np.testing.assert_allclose(padded.encode(SENTENCES), expected, atol=1e-4)
  task = benchmark.task("hard-sample")
  task = dataclasses.replace(task, spec=dataclasses.replace(task.spec, num_train_epochs=1.0))
  monkeypatch.setattr(benchmark, "task", lambda name: task)
  summary, text = tasks.run(benchmark)
  assert summary["without_flow_apart"] < 0.05 and summary["with_flow_apart"] < 0.6
  assert "| hard-sample |" in text


@pytest.mark.slow
def test_a_wrong_answer_of_a_server_is_counted():
  expected = np.ones([4, 3], np.float32)
  answers = lambda signature, texts: np.ones([len(texts), 3]) + (0.1 if "c" in texts else 0.0)  # noqa: E731
  assert serving.under_load(answers, ["a", "b"], expected[:2], 0.1, 2)["wrong_answers"] == 0
  assert serving.under_load(answers, ["c"], expected[:1], 0.1, 2)["wrong_answers"] > 0


@pytest.mark.slow
def test_without_model2vec_ours_is_measured_alone():
  result, text = static.run(small(model="static:mini"))
  assert list(result["answers"]) == [static.OURS] and "| ours (" in text and "is skipped: " in text


def test_lines_are_repeated_with_numbers(tmp_path):
  (tmp_path / "lines.txt").write_text("a dog\n\na cat\n")
  assert duplicates.read_lines(str(tmp_path / "lines.txt"), 5) == ["a dog", "a cat", "a dog 2", "a cat 3", "a dog 4"]


def test_a_pair_of_which_both_are_kept_is_missed():
  rows = np.array([[1, 0], [1, 0.01], [0, 1], [1, 0.02]])
  kept = {"all": np.ones(4, bool), "right": np.array([True, False, True, False])}
  assert duplicates.missed_pairs(rows, kept, 4) == ({"all": 3, "right": 0}, 3)


@needs_faiss
@pytest.mark.slow
def test_without_semhash_our_near_duplicates_are_measured_alone(tmp_path):
  (tmp_path / "lines.txt").write_text("".join(f"a dog and {number} cats\n" for number in range(40)))
  benchmark = small(model="static:mini")
  settings = dataclasses.replace(benchmark.settings, repeats=1, corpus=str(tmp_path / "lines.txt"), lines=100, part=50)
  result, text = duplicates.run(Benchmark(settings, DataSettings(), benchmark.embedding, benchmark.flow))
  assert list(result["answers"]) == [duplicates.OURS] and "| ours (" in text and result["missed"] == {"ours": 0}


@pytest.mark.slow
def test_a_training_step_computes_the_same_without_padding(tmp_path):
  benchmark = small(model="mini")
  settings = dataclasses.replace(benchmark.settings, repeats=1, training_steps=1, baseline=str(REPO))
  benchmark = Benchmark(settings, DataSettings(), benchmark.embedding, benchmark.flow)
  result, text = training_step.run(benchmark)
  assert {values["method"] for values in result["methods"]} == {"packed", "padded", "baseline"}
  losses = [float(line.split("|")[5]) for line in text.splitlines() if "pairs |" in line]
  np.testing.assert_allclose(losses[:3], losses[0], atol=1e-5)
  assert "Padding: " in text


def test_rates_of_dedupe_count_lost_groups_and_found_copies(tmp_path):
  header = "rec_id, given_name, surname, street_number, address_1, suburb\n"
  path = tmp_path / "dataset1.csv"
  path.write_text(f"{header}rec-7-org, ann, hall, 1, high street, \nrec-7-dup-0, ann, hal, 1, high street, kew\n")
  assert dedupe_rates.read_people([path]) == (["ann hall 1 high street", "ann hal 1 high street kew"], ["7", "7"])
  texts, numbers = dedupe_rates.with_copies([*SENTENCES, "a dog"])
  assert texts[:6] == SENTENCES and numbers == [*map(str, range(6)), "0", "5"]
  assert all(abs(len(copy) - len(texts[int(row)])) == 1 for copy, row in zip(texts[6:], numbers[6:], strict=True))
  # The second record is found, the third is a copy of another person, who is lost with it.
  found = find_duplicates(np.eye(2)[[0, 0, 0, 1]], 0.9)
  assert dedupe_rates.rates(found, ["a", "a", "b", "c"]) == ["4", "1 of 3", "100.0 %", "1 of 2"]


def test_each_query_is_asked_of_both_indexes_in_turns():
  calls = []

  class Index:
    def __init__(self, name):
      self.name = name

    def search(self, embedding, top_k, texts):
      calls.append((self.name, int(embedding[0]), texts))

  seconds = hybrid.ask_each(
    {name: Index(name) for name in ("vectors", "hybrid")}, np.arange(3)[:, None], ["a", "b", "c"]
  )
  assert calls == [
    *[("vectors", 0, None), ("hybrid", 0, ["a"])],
    *[("hybrid", 1, ["b"]), ("vectors", 1, None)],
    *[("vectors", 2, None), ("hybrid", 2, ["c"])],
  ]
  assert {name: len(values) for name, values in seconds.items()} == {"vectors": 3, "hybrid": 3}
