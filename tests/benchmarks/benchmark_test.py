"""benchmarks/: the methods do the same work, and the tables follow from the measurements."""

import dataclasses
import json
import subprocess
import sys

import numpy as np
import pytest

from benchmarks import measure, serving, static, step, tasks
from bert_flow_tf.data.tasks import load_task
from bert_flow_tf.encoder.sentence_encoder import SentenceEncoder
from bert_flow_tf.flow.config import FlowConfig
from tests.testing import REPO

SENTENCES = ["a dog", "a cat", "a dog .", "b", "dogs a a b . dog cat", "a cat cats ."]


def test_methods_take_turns_and_each_ratio_is_of_one_round():
  calls, numbers = [], iter([4.0, 2.0, 30.0, 40.0, 9.0, 3.0])
  way = lambda name: lambda: (calls.append(name), next(numbers))[1]  # noqa: E731
  result = measure.in_turns({"a": way("a"), "b": way("b")}, 3)
  assert calls == ["a", "b", "b", "a", "a", "b"]
  assert measure.median_ratio(result["a"], result["b"]) == 2.0
  assert measure.verdict(3.0, 3.0) == ">= 3: met" and measure.verdict(5.1, 5.0, at_most=True) == "<= 5: missed"


def test_xla_pays_where_its_gain_makes_up_for_its_start():
  medians = {step.PLAIN: {"start_up_seconds": 5.0, "step_ms": 8.0}, step.XLA: {"start_up_seconds": 9.0, "step_ms": 4.0}}
  assert step.break_even(medians) == 1000
  assert step.break_even({**medians, step.PLAIN: {"start_up_seconds": 5.0, "step_ms": 4.0}}) is None


@pytest.mark.slow
def test_both_ways_of_a_task_give_the_same_scores():
  """The original's way pads everything and embeds the same."""
  task, encoder = load_task("hard-sample"), SentenceEncoder.from_pretrained("mini")
  padded = tasks.PaddedEncoder(encoder, "avg-first-last", 16, 4)
  expected = encoder.encode(SENTENCES, max_seq_length=16, show_progress=False)
  np.testing.assert_allclose(padded.encode(SENTENCES), expected, atol=1e-4)
  task = dataclasses.replace(task, spec=dataclasses.replace(task.spec, num_train_epochs=1.0))
  config = FlowConfig.from_json_file("config_l2_d2_w32")
  result = tasks.run_task(task, encoder, config, 1, "avg-first-last", 32, 64, 1)
  summary = tasks.summarize([result, result])
  assert summary["without_flow_apart"] < 0.05 and summary["with_flow_apart"] < 0.6
  assert "| hard-sample |" in tasks.to_markdown(summary)


@pytest.mark.slow
def test_a_wrong_answer_of_a_server_is_counted():
  expected = np.ones([4, 3], np.float32)
  answers = lambda signature, texts: np.ones([len(texts), 3]) + (0.1 if "c" in texts else 0.0)  # noqa: E731
  assert serving.under_load(answers, ["a", "b"], expected[:2], 0.1, 2)["wrong_answers"] == 0
  assert serving.under_load(answers, ["c"], expected[:1], 0.1, 2)["wrong_answers"] > 0


@pytest.mark.slow
def test_without_model2vec_ours_is_measured_alone():
  result = static.run(SentenceEncoder.from_pretrained("static:mini"), SENTENCES, 16, 1, sys.executable)
  assert static.OURS in result["sentences_per_second"] and "| ours (" in static.to_markdown(result)


@pytest.mark.slow
def test_main_writes_what_it_prints(tmp_path):
  (tmp_path / "small.json").write_text('{"n_levels": 1, "depth": 1, "coupling_width": 4}')
  small = [f"--flow_model_config={tmp_path}/small.json", "--dim=8", "--steps=30", "--repeats=1"]
  command = [sys.executable, "benchmarks/run.py", "--benchmark=step", *small, f"--output_dir={tmp_path}/out"]
  done = subprocess.run(command, cwd=REPO, capture_output=True, text=True, timeout=300)
  assert done.returncode == 0, done.stderr[-2000:]
  assert (tmp_path / "out/step.md").read_text() + "\n" == done.stdout
  assert json.loads((tmp_path / "out/step.json").read_text())["dim"] == 8
