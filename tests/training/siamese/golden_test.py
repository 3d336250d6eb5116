"""Trainings of the original's own runner (see `golden_files`), reproduced by SiameseTrainer."""

import json
import types

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from bert_flow_tf import FlowConfig, Glow, SentenceEncoder
from bert_flow_tf.calibration.step import Features, apply_steps
from bert_flow_tf.calibration.step_list import steps_of_identity
from bert_flow_tf.encoder.checkpoints import tf1_names
from bert_flow_tf.encoder.transformer.architectures import bare_name
from bert_flow_tf.training.siamese.labeled_pairs import LabeledPairs
from bert_flow_tf.training.siamese.losses import SiameseLosses
from bert_flow_tf.training.siamese.objectives import VARIABLE, Classifier
from bert_flow_tf.training.siamese.settings import SiameseSettings
from bert_flow_tf.training.siamese.trainer import SiameseTrainer
from tests.encoder.checkpoints import tf1_files
from tests.testing import below, golden_files, nudged

# The file that comes with the repository is tested in every run.
FILES = [
  pytest.param(file, marks=[] if file.stem == "low_dim_flow" else pytest.mark.slow, id=file.stem)
  for file in golden_files("siamese")
  if file.stem != "forward"
]
CURVES = ("losses", "flow_losses", "grad_norms", "flow_grad_norms")
HEAD = f"loss/{VARIABLE}"
# Another order of summation, as on another CPU, changes a training as much as some ten units in the last place on every
# starting weight do. The files say what one unit does: `sensitivity`.
FACTOR = 10.0
# Where a unit of a coupling network stands at its ReLU's edge, rounding grows further on some CPUs. There, trainings
# from `nudged` weights say how far.
REPEATS = 6
ROUNDING = 2.0**-24


class Golden:
  """A file, and the encoder, flow, classifier and trainer that it describes, with its starting weights."""

  def __init__(self, file, folder):
    self.data = np.load(file)
    self.flags = json.loads(str(self.data["flags"]))
    self.sensitivity = json.loads(str(self.data["sensitivity"]))
    self.start = below(self.data, "initial")
    config = json.loads(str(self.data["bert_config"]))
    bert = {name: array for name, array in self.start.items() if name in tf1_names.bert_shapes(config)}
    words = [f"w{i}" for i in range(config["vocab_size"])]
    words[:5] = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    self.encoder = SentenceEncoder.from_pretrained(tf1_files.write_google(folder, bert, config, words))
    low_dim = self.flags["low_dim"] if self.flags["low_dim"] > 0 else None
    identity = self.encoder.identity(self.flags["sentence_embedding_type"], low_dim=low_dim)
    self.steps = steps_of_identity(identity)
    self.flow = None
    if self.flags["flow"]:
      self.flow = Glow(FlowConfig.from_dict(json.loads(str(self.data["flow_config"]))), config["hidden_size"])
      self.flow.load_tf1_variables({name: v for name, v in self.start.items() if name.startswith(tf1_names.FLOW)})
    self.classifier = None
    if str(self.data["kind"]) == "softmax":
      self.classifier = Classifier.initial(config["hidden_size"], [str(i) for i in range(int(self.data["num_labels"]))])
      self.classifier.output_weights.assign(self.start[HEAD])
    self.flags |= {name: bool(self.flags[name]) for name in ("flow", "flow_loss")}
    names = ("flow", "flow_loss", "num_examples", "l2_penalty", "train_batch_size")
    rates = ("learning_rate", "warmup_proportion", "flow_learning_rate")
    settings = SiameseSettings(**{name: self.flags[name] for name in (*names, *rates)})
    self.losses = SiameseLosses(self.encoder, identity, self.classifier, self.flow, settings)
    self.trainer = SiameseTrainer(self.losses, settings)
    self.source = self.pairs("")
    if initial := below(self.data, "after_init"):  # the flow starts from the first sentences of the first batch
      ids, _, _ = self.features(self.source, settings.train_batch_size)
      self.flow.initialize(self.losses.embed(self.source, ids))
      self.start |= initial

  def pairs(self, prefix):
    """Returns the pairs of the keys that begin with a prefix."""
    sides = []
    for side in "ab":
      rows = zip(self.data[f"{prefix}input_ids_{side}"], self.data[f"{prefix}input_mask_{side}"], strict=True)
      sides.append([ids[mask > 0].astype(np.int32) for ids, mask in rows])
    labels = self.data[f"{prefix}labels"].astype(np.float64)
    unlabeled = (labels <= -1) | (self.flags["num_examples"] == 0)
    return LabeledPairs(types.SimpleNamespace(tokenizer=Rows()), *sides, np.where(unlabeled, np.nan, labels))

  def features(self, source, size):
    """Returns token ids of both sides and targets of the first pairs."""
    return next(iter(source.features(tf.data.Dataset.range(size).batch(size))))

  def outputs(self, source, size):
    """Returns e of both sides, and the sums of both sides' bits per dimension or None, of the first pairs."""
    embeddings = [self.losses.embed(source, ids) for ids in self.features(source, size)[:2]]
    compared = [self.flow(u) for u in embeddings] if self.flow else embeddings
    bits = sum(self.flow.bits_per_dim(u) for u in embeddings) if self.flow else None
    return [apply_steps(self.steps, Features(e)).numpy() for e in compared], bits

  def variables(self):
    """Returns {variable: tf.Variable} of all weights, under the original's names."""
    bert = {tf1_names.of_keras(bare_name(w)): w for w in self.encoder.bert.weights}
    named = self.flow.named_weights() if self.flow else {}
    flow = {f"{tf1_names.FLOW}{name}": weight.weight for name, weight in named.items() if weight.original}
    head = {HEAD: self.classifier.output_weights} if self.classifier else {}
    return {**bert, **flow, **head}

  def run(self, start):
    """Returns the curves, final weights and cosines of other pairs of a training from the starting weights."""
    for name, variable in self.variables().items():
      if not name.startswith(tf1_names.FLOW):
        variable.assign(start[name])
    if self.flow:
      self.flow.load_tf1_variables({name: v for name, v in start.items() if name.startswith(tf1_names.FLOW)})
    curves = dict(zip(CURVES, self.trainer.fit(self.source, shuffle=False).losses.T, strict=True))
    others = self.pairs("eval/")
    (u, v), _ = self.outputs(others, len(others))
    cosines = np.sum(u * v, axis=1) / np.linalg.norm(u, axis=1) / np.linalg.norm(v, axis=1)
    return {**curves, "weights": self.weights(), "eval/cos_similarity": cosines}

  def weights(self):
    """Returns {variable: array} of all weights, in the original's shapes."""
    flow = self.flow.tf1_variables() if self.flow else {}
    head = {HEAD: self.classifier.output_weights.numpy()} if self.classifier else {}
    return {**self.encoder.tf1_variables(), **{f"{tf1_names.FLOW}{n}": v for n, v in flow.items()}, **head}


class Rows:
  """The tokenizer of these tests: their files hold token ids."""

  pad_id = 0

  def __call__(self, rows, max_seq_length):
    return rows


def assert_close(actual, expected, name, rtol=1e-5, scale=None):
  """Compares with the largest value, and with the rounding of terms of size `scale` that cancel."""
  bound = rtol * np.abs(expected).max() + (0.0 if scale is None else 8 * ROUNDING * scale)
  assert np.abs(actual - expected).max() <= bound, name


@pytest.fixture(scope="module", params=FILES)
def golden(request, tmp_path_factory):
  return Golden(request.param, tmp_path_factory.mktemp("golden") / "bert")


def test_first_batch(golden):
  """Outputs and gradients of the first batch. Key biases have none: there, the terms cancel."""
  weights = golden.weights()
  for name, expected in below(golden.data, "after_init").items():
    np.testing.assert_allclose(weights[name], expected, rtol=1e-5, atol=1e-6, err_msg=name)
  size = golden.flags["train_batch_size"]
  embeddings, bits = golden.outputs(golden.source, size)
  first = below(golden.data, "first")
  for side, e in zip("ab", embeddings, strict=True):
    assert_close(e, first[f"embedding_{side}"], side)
  if bits is not None:
    assert_close(bits, first["flow_example_loss"], "flow_example_loss")
  with tf.GradientTape(persistent=True) as tape:
    losses = golden.losses(golden.source, golden.features(golden.source, size), tf.constant([1, 2]))
  assert losses[0].numpy() == pytest.approx(float(first["loss"]), rel=1e-5)
  for loss, kind in zip(losses, ("grad", "flow_grad"), strict=True):
    expected, variables = below(golden.data, kind), golden.variables()
    largest = max((np.abs(array).max() for array in expected.values()), default=0.0)
    gradients = tape.gradient(loss, [variables[name] for name in expected])
    for (name, array), gradient in zip(expected.items(), gradients, strict=True):
      assert_close(tf.convert_to_tensor(gradient).numpy().reshape(array.shape), array, name, scale=largest)


def test_training(golden):
  """The whole training: a CPU whose rounding moves it further than the file says must show that rounding alone does."""
  data, steps = golden.data, int(golden.data["num_train_steps"])
  run, expected = golden.run(golden.start), {name: data[name] for name in CURVES if name in data.files}
  moved, changed = json.loads(str(data["moved"])), below(golden.data, f"after_{steps}_steps")
  for name in set(run["weights"]) - set(moved):
    assert run["weights"][name].tobytes() == golden.start[name].tobytes(), name
  if "eval/cos_similarity" in data.files:
    expected |= {"eval/cos_similarity": data["eval/cos_similarity"]}

  def differences(one, other, weights):
    way = np.concatenate([np.ravel(weights[name] - golden.start[name]) for name in moved])
    off = np.concatenate([np.ravel(one["weights"][name] - weights[name]) for name in moved])
    ratios = {f"after_{steps}_steps": np.linalg.norm(off) / np.linalg.norm(way)}
    for name in expected:
      scale = np.maximum(np.abs(other[name]), 1e-30) if name in CURVES else np.ones([])
      ratios[name] = np.max(np.abs(one[name] - other[name]) / scale)
    return ratios

  found = differences(run, expected, changed)
  far = [name for name, difference in found.items() if difference > FACTOR * golden.sensitivity[name]]
  rng = np.random.default_rng(0)
  repeats = [golden.run(nudged(golden.start, rng)) for _ in range(REPEATS if far else 0)]
  spread = [differences(repeat, run, run["weights"]) for repeat in repeats]
  for name in far:
    assert found[name] <= 2.0 * max(ratios[name] for ratios in spread), name
  if "eval/metric/eval_pearsonr" in data.files:
    pearson = stats.pearsonr(run["eval/cos_similarity"], data["eval/labels"]).statistic
    rounding = np.abs(run["eval/cos_similarity"] - data["eval/cos_similarity"]).max()
    assert pearson == pytest.approx(float(data["eval/metric/eval_pearsonr"]), abs=float(1e-6 + 10 * rounding))
