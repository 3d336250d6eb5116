"""runs/siamese_*.py: checkpoints, fits of a frozen encoder, and the published files against the original's own."""

import json
import shutil

import numpy as np
import pytest

from bert_flow_tf import FlowConfig, Glow, SentenceEncoder
from bert_flow_tf.calibration.saving import calibration_sha256
from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.data.siamese_task import predicted_pairs, training_pairs
from bert_flow_tf.data.task import TaskData
from bert_flow_tf.data.tasks import KINDS, find_task, load_task
from bert_flow_tf.encoder.checkpoints.files import checkpoint_prefixes_in
from bert_flow_tf.encoder.transformer.architectures import ARCHITECTURES, BERT
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.report import result_files
from bert_flow_tf.runs import siamese_scores
from bert_flow_tf.runs.siamese_parts import checkpoint_prefix
from bert_flow_tf.runs.siamese_run import SiameseRun, write_facts
from bert_flow_tf.runs.siamese_training import SiameseTraining
from bert_flow_tf.serving.metadata import read_origin
from bert_flow_tf.tf1.checkpoint import write_checkpoint
from bert_flow_tf.tf1.training import restore, write_training_checkpoint
from bert_flow_tf.training.siamese.settings import SiameseEmbedding, SiameseSettings
from tests.testing import golden_encoder, rejected, shared
from tests.training.siamese import small_siamese
from tests.training.small import eagerly, interrupted_at


def make_flow(depth, seed):
  return Glow(FlowConfig(n_levels=1, depth=depth, coupling_width=4), 12, "glorot", seed=seed)


def test_flow_of_a_checkpoint(tmp_path, monkeypatch):
  encoder = SentenceEncoder.from_pretrained(small_siamese.save(tmp_path / "model"))
  flow = make_flow(2, 3)
  for step in (3, 10):
    write_training_checkpoint(tmp_path / "exp", step, encoder, flow, None)
  folder = str(tmp_path / "exp")
  assert checkpoint_prefix(folder) == f"{folder}/model.ckpt-10"

  def killed(prefix, variables):
    raise KeyboardInterrupt

  monkeypatch.setattr("bert_flow_tf.tf1.checkpoint.write_checkpoint", killed)  # while it replaces the latest one
  with pytest.raises(KeyboardInterrupt):
    write_training_checkpoint(tmp_path / "exp", 10, encoder, flow, None)
  assert checkpoint_prefix(folder) == f"{folder}/model.ckpt-3"
  assert (tmp_path / "exp/checkpoint").read_text().count("model.ckpt-3") == 2
  monkeypatch.setattr("bert_flow_tf.tf1.checkpoint.write_checkpoint", write_checkpoint)
  write_training_checkpoint(tmp_path / "exp", 10, encoder, flow, None)
  # The configuration comes last: where a killed process has left it, the other files are there too.
  times = [(tmp_path / "exp" / name).stat().st_mtime_ns for name in ("vocab.txt", "bert_config.json")]
  assert times == sorted(times)
  same = (f"{folder}/model.ckpt-3", str(tmp_path / "model"), "mini", "hub/name")
  assert tuple(map(checkpoint_prefix, same)) == same

  other = make_flow(2, 1)
  assert restore(checkpoint_prefix(folder), other, None) == {"flow": (24, 24)}
  for name, value in flow.tf1_variables().items():
    np.testing.assert_array_equal(value, other.tf1_variables()[name])
  with rejected(ConfigError, "flow_model_config", match="24 .* 12"):
    restore(checkpoint_prefix(folder), make_flow(1, 1), None)
  assert checkpoint_prefixes_in(folder) == ["model.ckpt-10", "model.ckpt-3"]


@pytest.fixture(scope="module")
def frozen(tmp_path_factory):
  """A function (folder, further settings) -> run of the fit of a flow without labels, and its pairs."""
  # A fit on embeddings scales small ones.
  model = small_siamese.save(tmp_path_factory.mktemp("tiny") / "model", scale=1.0)
  config = model.parent / "small.json"
  config.write_text(json.dumps({"n_levels": 1, "depth": 1, "coupling_width": 4}))
  a, b, labels = small_siamese.pairs(40)
  pairs = SentencePairs(a, b, labels)
  task = TaskData(find_task("STS-B"), {"train": pairs, "test": pairs}, "this test")
  flow = {"flow": True, "flow_loss": True, "flow_model_config": str(config)}

  def make(folder, **others):
    settings = SiameseSettings(
      **flow, num_examples=0, train_batch_size=8, num_train_epochs=2.0, save_checkpoints_steps=4, **others
    )
    embedding = SiameseEmbedding(init_checkpoint=str(model), max_seq_length=16)
    training = training_pairs(task, num_examples=0, dupe_factor=settings.dupe_factor)
    return SiameseRun(task, embedding, settings, folder, {}), training

  return make


def test_a_frozen_encoder_embeds_once(frozen, tmp_path, monkeypatch):
  """The fit on embeddings is that of the steps through BERT; stopped, it is resumed to the same bits."""
  latents = {}
  for through_bert in (False, True):
    run, training = frozen(tmp_path / f"whole-{through_bert}")
    if through_bert:
      monkeypatch.setattr(SiameseTraining, "_can_embed_once", lambda self: False)
    else:
      monkeypatch.setattr(SiameseTraining, "_fine_tune", None)
    run.train(training)
    monkeypatch.undo()
    assert (run.step, run.facts["steps"], run.facts["unlabelled"]) == (10, 10, 40)
    assert run.facts["encoder_sha256"] == run.facts["encoder_sha256_before"]
    latents[through_bert] = run.parts.model.encode(small_siamese.pairs(9)[0])
  np.testing.assert_allclose(latents[False], latents[True], atol=1e-3)  # steps grow rounding: 2e-4 with AVX2

  stopped, training = frozen(tmp_path / "stopped")
  with interrupted_at(4):
    stopped.train(training)
  assert checkpoint_prefixes_in(tmp_path / "stopped") == ["model.ckpt-4"]
  resumed, training = frozen(tmp_path / "stopped")
  resumed.train(training)
  assert checkpoint_prefixes_in(tmp_path / "stopped") == ["model.ckpt-10", "model.ckpt-4", "model.ckpt-8"]
  np.testing.assert_array_equal(resumed.parts.model.encode(small_siamese.pairs(9)[0]), latents[False])


def test_scores_are_of_the_evaluated_checkpoint(frozen, tmp_path):
  """A prediction of another one, in the same command, changes neither them nor what they are said to be of."""
  folder = tmp_path / "run"
  run, training = frozen(folder)
  run.train(training)
  before = json.loads((folder / "results.json").read_text())
  assert before["results"] == {} and before["task"] == "STS-B"  # until it is evaluated
  run.evaluate(["test"], 8)
  run.predict("test", "model.ckpt-4", pool=False)
  assert run.parts.model.steps_checksum != calibration_sha256(folder / "flow")
  run.write()
  results = json.loads((folder / "results.json").read_text())
  assert results["models"]["with_flow"]["calibration_sha256"] == calibration_sha256(folder / "flow")
  about = read_origin(folder / "flow")
  assert about["figures"]["test"]["with_flow"] == results["results"]["test"]["with_flow"]


def test_memory_of_gpus_grows_unless_it_is_turned_off(frozen, tmp_path, monkeypatch):
  grown = []
  monkeypatch.setattr("bert_flow_tf.training.strategies.grow_memory", lambda: grown.append(True))
  frozen(tmp_path, gpu_memory_growth=False)
  assert not grown
  frozen(tmp_path)
  assert grown


@pytest.mark.parametrize(
  ("others", "unused"),
  [({}, "_fine_tune"), ({"dupe_factor": 2}, "_fit_flow"), ({"as_published": True}, "_fit_flow")],
)
def test_the_seed_decides_the_flow(frozen, tmp_path, monkeypatch, others, unused):
  """Of a flow that is fitted on embeddings, and of flows whose every step goes through BERT."""
  monkeypatch.setattr(SiameseTraining, unused, None)
  run, training = frozen(tmp_path / "run", seed=3, permutation="random", **others)
  with eagerly():
    run.train(training)
  expected = Glow(FlowConfig(n_levels=1, depth=1, coupling_width=4), 12, permutation="random", seed=3)
  name = "revnet_0/revnet_step_0/invertible/w"  # fixed
  found = run.parts.model.calibration.flow.tf1_variables()[name]
  np.testing.assert_array_equal(found, expected.tf1_variables()[name])
  assert run.step == 10


def test_an_evaluation_needs_only_the_trained_encoder(tmp_path, capsys):
  """The one that the training started from may be gone; then its scores are left out."""
  encoder = SentenceEncoder.from_pretrained(small_siamese.save(tmp_path / "trained"))
  write_training_checkpoint(tmp_path, 3, encoder, None, None)
  write_facts(tmp_path, {"encoder_sha256_before": "0" * 64})
  embedding = SiameseEmbedding(init_checkpoint=str(tmp_path / "gone"), max_seq_length=16)
  task = load_task("sample", None, None, None, KINDS)
  run = SiameseRun(task, embedding, SiameseSettings(), tmp_path, {})
  run.evaluate(["test"], 8)
  run.write()
  assert run.step == 3 and "before training" not in capsys.readouterr().out


# One of each kind of block among the fast tests.
OTHERS = [
  pytest.param(name, marks=() if name in ("roberta", "modernbert") else pytest.mark.slow)
  for name in ARCHITECTURES
  if name != BERT
]


@pytest.mark.parametrize("name", OTHERS)
@eagerly()
def test_other_models_than_bert_are_trained(tmp_path, name):
  """No checkpoint of TensorFlow 1 can hold them: a later run uses encoder/ and flow/ of the folder."""
  folder = golden_encoder(name)
  sentences = [str(text) for text in np.load(folder / "reference.npz")["sentences"]]
  pairs = SentencePairs(sentences, sentences[1:] + sentences[:1], np.linspace(0, 5, len(sentences)))
  task = TaskData(find_task("STS-B"), {"train": pairs, "test": pairs}, "this test")
  config = tmp_path / "small.json"
  config.write_text(json.dumps({"n_levels": 1, "depth": 1, "coupling_width": 4}))
  settings = SiameseSettings(flow=True, flow_loss=True, flow_model_config=str(config), train_batch_size=7)
  embedding = SiameseEmbedding(init_checkpoint=str(folder), max_seq_length=16)
  training = training_pairs(task, num_examples=settings.num_examples, dupe_factor=settings.dupe_factor)
  run = SiameseRun(task, embedding, settings, tmp_path / "run", {})
  run.train(training)
  before, after = run.facts["encoder_sha256_before"], run.facts["encoder_sha256"]
  assert before != after and not checkpoint_prefixes_in(tmp_path / "run")
  later = SiameseRun(task, embedding, settings, tmp_path / "run", {})
  later.evaluate(["test"], 8)
  assert later.parts.model.encoder.weights_checksum == after and later.step == run.step > 0
  np.testing.assert_allclose(later.parts.model.encode(sentences), run.parts.model.encode(sentences), atol=1e-5)
  with pytest.raises(ConfigError, match=r"model\.ckpt-1"):
    later.load("model.ckpt-1")
  # A flow of weights that are gone.
  shutil.rmtree(tmp_path / "run/encoder")
  with rejected(ConfigError, "model", match="run/flow was trained on"):
    later.load()


FILES = ("flow_only", "joint", "l2", "low_dim_flow", "nli_softmax", "regression", "semi")


class Classifier:
  """The original's probabilities."""

  def __init__(self, logits):
    self._probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)

  def probabilities(self, a, b):
    return self._probabilities


@pytest.mark.parametrize("name", FILES)
def test_eval_metrics_of_the_original(name):
  with np.load(shared(f"golden_siamese/{name}.npz"), allow_pickle=False) as file:
    golden = {key.removeprefix("eval/"): file[key] for key in file.files if key.startswith("eval/")}
    settings = json.loads(str(file["flags"]))
  values = siamese_scores.eval_results(
    golden["labels"].astype(np.float64),
    (golden["embedding_a"], golden["embedding_b"]),
    Classifier(golden["logits"]) if "logits" in golden else None,
    golden.get("flow_example_loss"),
    settings["num_examples"] != 0,
    settings["l2_penalty"],
    batch_size=8,
  )
  expected = {key.removeprefix("metric/"): value for key, value in golden.items() if key.startswith("metric/")}
  assert values.keys() == {*expected, "loss"}
  for key, value in expected.items():
    assert values[key] == pytest.approx(value, rel=1e-5, abs=1e-7), key
  losses = golden["per_example_loss"]
  assert values["loss"] == pytest.approx(np.mean([losses[i : i + 8].mean() for i in (0, 8, 16)]), rel=1e-5, abs=1e-7)


def test_the_penalty_counts_without_labels():
  sides = np.array([[3.0, 4.0], [0.0, 2.0]]), np.array([[1.0, 0.0], [0.0, 1.0]])
  values = siamese_scores.eval_results(np.array([1.0, np.nan]), sides, None, None, False, 0.5, batch_size=8)
  assert values["eval_loss"] == values["loss"] == pytest.approx(0.5 * (5 + 2 + 1 + 1) / 2)


def test_lines_of_the_original(tmp_path):
  compared = set()
  for case in json.loads(shared("golden_siamese/facts.json").read_text())["outputs"]:
    cosines = np.array(case["given"], np.float64)
    a = np.stack([np.ones(len(cosines)), np.zeros(len(cosines))], axis=1)
    b = np.stack([cosines, np.sqrt(1 - cosines**2)], axis=1)
    path = tmp_path / "lines"
    for file, lines in case["files"].items():
      if file.endswith("_results.tsv"):
        siamese_scores.write_cosines(path, (a, b))
      elif file.endswith("_pooled.tsv"):
        embeddings = np.array([[i + 1 / 3, -0.0, 0.125] for i in range(3)], np.float32)
        siamese_scores.write_pooled(path, (embeddings, -embeddings))
      elif file.endswith("eval_results.txt"):
        values = {"eval_loss": np.float32(1 / 3), "eval_pearsonr": np.float32(0.5), "loss": np.float32(0.25)}
        result_files.write_eval_results(tmp_path, {**values, "global_step": 7})
        (tmp_path / result_files.EVAL_FILE).rename(path)
      else:
        continue
      # facts.json has the first lines of each file.
      assert path.read_text().splitlines()[: len(lines)] == lines
      compared.add(file.rpartition("_")[2])
  assert compared == {"results.tsv", "pooled.tsv", "results.txt"}


def test_order_of_all_pairs():
  splits = {name: SentencePairs([name], [name], [1.0]) for name in ("train", "dev", "test")}
  task = TaskData(find_task("STS-B"), splits, "made up")
  assert list(predicted_pairs(task, "full").sentences_a) == ["test", "dev", "train"]
  year = TaskData(find_task("STS-12"), {"test": splits["test"]}, "made up")
  for name, count in {"full": 3, "dev": 1, "test": 1}.items():
    assert list(predicted_pairs(year, name).sentences_a) == ["test"] * count
