"""Fits on two worker processes, one of which is killed, and TF_CONFIG."""

import faulthandler
import itertools
import json
import re
import sys

import numpy as np
import pytest
import tensorflow as tf

from bert_flow_tf import SentenceEncoder
from bert_flow_tf.data.tasks import load_task
from bert_flow_tf.errors import ConfigError, TrainingError
from bert_flow_tf.flow.config import FlowConfig
from bert_flow_tf.flow.glow import Glow
from bert_flow_tf.training.flow_fit import make_trainer
from bert_flow_tf.training.settings import FlowSettings
from bert_flow_tf.training.sources import EmbeddingPairs
from bert_flow_tf.training.strategies import make_strategy
from bert_flow_tf.training.workers import Cluster, has_several_workers, is_chief, read_tf_config, worker_failures
from tests.encoder import tiny
from tests.testing import finished_python, rejected, reserved_ports
from tests.training import two_workers

CONFIG = FlowConfig(n_levels=1, depth=1, coupling_width=4)
EPOCHS = 9  # 101 steps
# At the usual 1e-3, rounding grows tenfold every 12 steps on these embeddings of 12 dimensions.
RATE = 1e-4

CALL_OFF = faulthandler.cancel_dump_traceback_later
WORKERS = {"worker": ["a:1", "b:2"]}
ADDRESSES = ('"a"', '"a:"', '":1"', '"a:b"', '"a:0"', '"a:65536"', '"http://a:1"', "1", "null", '"a:-1"')


def set_tf_config(monkeypatch, cluster, task):
  monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": task}))


def test_tf_config(monkeypatch):
  both = {"worker": ["a:1"], "chief": ["[::1]:9"]}
  for cluster, task, expected in (
    (WORKERS, {"type": "worker", "index": 1}, Cluster(("a:1", "b:2"), "b:2")),
    (WORKERS, {"type": "worker", "index": "0"}, Cluster(("a:1", "b:2"), "a:1")),
    (both, {"type": "worker", "index": 0}, Cluster(("[::1]:9", "a:1"), "a:1")),
    (both, {"type": "chief", "index": 0}, Cluster(("[::1]:9", "a:1"), "[::1]:9")),
  ):
    set_tf_config(monkeypatch, cluster, task)
    assert read_tf_config() == expected


@pytest.mark.parametrize(
  "text",
  [
    None,
    "",
    "{",
    "[]",
    "7",
    '{"cluster": {}}',
    '{"cluster": {"ps": ["a:1"], "worker": ["b:1"]}, "task": {"type": "worker", "index": 0}}',
    '{"cluster": {"worker": "a:1"}}',
    '{"cluster": {"worker": []}}',
    *(f'{{"cluster": {{"worker": [{address}]}}, "task": {{"type": "worker", "index": 0}}}}' for address in ADDRESSES),
    '{"cluster": {"worker": ["a:1"]}}',
    '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker"}}',
    '{"cluster": {"worker": ["a:1"]}, "task": {"type": "chief", "index": 0}}',
    *(f'{{"cluster": {{"worker": ["a:1"]}}, "task": {{"type": "worker", "index": {i}}}}}' for i in ("1", "-1", '"x"')),
  ],
)
def test_malformed_tf_config(text, monkeypatch):
  monkeypatch.delenv("TF_CONFIG", raising=False)
  if text is not None:
    monkeypatch.setenv("TF_CONFIG", text)
  with rejected(ConfigError, "distribution_strategy"):
    read_tf_config()


@pytest.mark.parametrize(
  ("jobs", "job", "index", "chief", "several"),
  [
    ({}, None, None, True, False),
    ({"worker": ["a:1"]}, "worker", 0, True, False),
    ({"worker": ["a:1", "b:1"]}, "worker", 0, True, True),
    ({"worker": ["a:1", "b:1"]}, "worker", 1, False, True),
    ({"chief": ["a:1"], "worker": ["b:1"]}, "chief", 0, True, True),
    ({"chief": ["a:1"], "worker": ["b:1"]}, "worker", 0, False, True),
  ],
)
def test_one_worker_is_the_chief(jobs, job, index, chief, several):
  class Strategy:
    cluster_resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
      tf.train.ClusterSpec(jobs), task_type=job, task_id=index
    )

  assert (is_chief(Strategy), has_several_workers(Strategy)) == (chief, several)


def test_lost_worker_is_one_line_where_there_are_workers():
  class Alone:
    cluster_resolver = None

  class Two:
    cluster_resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
      tf.train.ClusterSpec({"worker": ["a", "b"]})
    )

  text = "Graph execution error:\n\nDetected at node x\nCollective ops is aborted by: it left\n\t [[{{node x}}]]"
  expected = r"another worker .* \(Collective ops is aborted by: it left\)"
  with pytest.raises(TrainingError, match=expected), worker_failures(Two):
    raise tf.errors.UnavailableError(None, None, text)
  in_two_lines = "Collective ops is aborted by:\n/job:worker/task:1 left"
  expected = r"\(Collective ops is aborted by: /job:worker/task:1 left\)"
  with pytest.raises(TrainingError, match=expected), worker_failures(Two):
    raise tf.errors.UnavailableError(None, None, in_two_lines)
  with pytest.raises(TrainingError, match="two MirroredStrategies of one process"), worker_failures(Alone):
    raise tf.errors.UnavailableError(None, None, text)
  for strategy, error in ((Alone, tf.errors.UnavailableError), (Two, tf.errors.ResourceExhaustedError)):
    with pytest.raises(error), worker_failures(strategy):
      raise error(None, None, "another reason")


def test_workers_that_cannot_be_joined(monkeypatch):
  """This process has used TensorFlow; the timer that would end it later is switched off."""
  called_off = []
  monkeypatch.setattr(faulthandler, "cancel_dump_traceback_later", lambda: called_off.append(CALL_OFF()))
  set_tf_config(monkeypatch, WORKERS, {"type": "worker", "index": 0})
  assert tf.constant(0).device
  with rejected(TrainingError, None):
    read_tf_config().join(60)
  assert called_off == [None]


@pytest.mark.slow
@pytest.mark.parametrize("index", [0, 1])
def test_a_worker_ends_if_another_one_never_joins(index):
  """TensorFlow itself waits without a limit."""
  code = "from bert_flow_tf.training.strategies import make_strategy; make_strategy('multi_worker_mirrored', 5)"
  with reserved_ports(2) as ports:
    done = finished_python("-c", code, status=1, **two_workers.environment(ports, index))
  assert "Traceback" not in done.stderr
  assert f"waiting for localhost:{ports[1 - index]}" in done.stderr and "ends in 5 seconds" in done.stderr


def test_a_strategy_is_rejected_before_it_starts(monkeypatch):
  monkeypatch.setenv("TF_CONFIG", "{")
  with rejected(ConfigError, "distribution_strategy"):
    make_strategy("multi_worker_mirrored")


def flags(folder, index):
  """Flags of run_flow.py, the experiment's folder each worker's own."""
  values = {
    "task": "hard-sample",
    "distribution_strategy": "multi_worker_mirrored",
    "model": folder / "tiny",
    "max_seq_length": 16,
    "flow_model_config": folder / "flow.json",
    "num_train_epochs": EPOCHS,
    "flow_learning_rate": RATE,
    "save_checkpoints_steps": 10,
    "output_parent_dir": folder / str(index),
    "exp_name": "e",
  }
  return [f"--{name}={value}" for name, value in values.items()]


def single_process(folder):
  """Fits the same in this process alone; returns losses [steps] and the flow."""
  encoder = SentenceEncoder.from_pretrained(folder / "tiny")
  task = load_task("hard-sample")
  pairs = task.fitting_pairs(use_full=True)
  sides = [encoder.encode(side, max_seq_length=16) for side in (pairs.sentences_a, pairs.sentences_b)]
  settings = FlowSettings(flow_model_config=CONFIG, flow_learning_rate=RATE, num_train_epochs=EPOCHS)
  trainer = make_trainer(settings, encoder.dim(), show_progress=False)
  return trainer.fit(EmbeddingPairs(*sides), EPOCHS).losses, trainer.flow


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
  """Kills worker 1, upon which the chief ends by itself; returns the folder and what both printed."""
  folder = tmp_path_factory.mktemp("killed")
  tiny.save_tiny(folder / "tiny")
  (folder / "flow.json").write_text(json.dumps(CONFIG.to_dict()))
  module = [sys.executable, "-m", "tests.training.two_workers"]
  with two_workers.started(lambda index: [*module, *flags(folder, index)]) as processes:
    said = list(itertools.takewhile(lambda line: line != "saved\n", processes[0].stdout))
    processes[1].kill()
    (stdout, *others), killed = two_workers.finish(processes)
  return folder, [("".join(said) + stdout, *others), killed]


@pytest.mark.slow
def test_workers_that_were_started_to_different_ends(killed):
  for stdout, _, _ in killed[1]:
    assert stdout.startswith("the workers of TF_CONFIG differ in flow_learning_rate, seed: give each the same")


@pytest.mark.slow
def test_killed_worker_stops_the_others(killed):
  folder, ((_, stderr, status), _) = killed
  assert status == 1 and "Traceback" not in stderr
  (line,) = re.findall("^error: .*", stderr, re.MULTILINE)
  assert line.startswith("error: another worker of TF_CONFIG has stopped or cannot be reached (")
  assert "it resumes from the last checkpoint" in line
  assert not (folder / "0/e/results.json").exists()


@pytest.mark.slow
def test_same_command_goes_on_and_ends_as_one_process_alone(killed):
  """The same global batch: the same losses and weights to float rounding, though a worker was killed on the way.

  A gradient is the sum of two halves here and one sum there, and every step adds to that.
  """
  folder, _ = killed
  command = [sys.executable, "run_scripts/run_flow.py"]
  with two_workers.started(lambda index: [*command, *flags(folder, index)]) as processes:
    outputs = two_workers.finish(processes)
  for _, stderr, status in outputs:
    assert status == 0 and "Traceback" not in stderr, stderr[-4000:]
  (chief, stderr, _), (other, _, _) = outputs
  assert "uncalibrated  flow" in chief and other == ""
  resumed_at = int(re.search(r"resumed at step (\d+) of 101 from ", stderr)[1])
  assert 10 <= resumed_at < 101

  assert (folder / "0/e/results.json").exists() and not (folder / "1").exists()
  expected, reference = single_process(folder)
  two_workers.check_losses(two_workers.losses_in_events(folder / "0/e/tensorboard"), expected)
  flow = Glow.load(folder / "0/e/flow")
  for weight, other in zip(flow.weights, reference.weights, strict=True):
    np.testing.assert_allclose(weight, other, atol=1e-4, err_msg=weight.name)
