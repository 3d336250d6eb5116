"""The original's checkpoints: a flow's configuration inferred from its variables, and whole models, converted.

A converted model must give the outputs that the original computed with the same weights (see `golden_files`).
"""

import json

import numpy as np
import pytest

from bert_flow_tf import SentenceEncoder, SentenceModel
from bert_flow_tf.errors import FlowError
from bert_flow_tf.flow.config import FlowConfig
from bert_flow_tf.flow.glow import Glow
from bert_flow_tf.tf1 import read, write
from bert_flow_tf.tf1.flow import make_flow, start_as_published, without_scale
from bert_flow_tf.training.calibrate import fit_calibration
from bert_flow_tf.training.siamese.objectives import Classifier
from tests.encoder import tiny
from tests.encoder.checkpoints import tf1_files
from tests.flow.cases import config
from tests.testing import below, golden_files

FLOWS = golden_files("flow")
STEP = "revnet_0/revnet_step_0"


@pytest.mark.parametrize("file", FLOWS, ids=lambda file: file.stem)
def test_golden_flows(file):
  with np.load(file) as archive:
    variables = below(archive, "initial")
    expected, dim = json.loads(str(archive["config"])), archive["a"].shape[1]
  flow = make_flow(variables)
  assert flow.config == FlowConfig.from_dict({**expected, "coupling_dropout": 0.0})
  assert (flow.dim, flow.permutation) == (dim, "reverse")
  for key, array in flow.tf1_variables().items():
    assert array.tobytes() == variables[key].tobytes(), key


def test_the_published_start_of_1x1_convolutions():
  """W = P L (U + diag(S)) is the rotation of uniform numbers, drawn step by step, and nothing else changes."""
  flow = Glow(FlowConfig(n_levels=2, depth=2, coupling_width=4, permutation=False), 16, "glorot", seed=3)
  before = flow.tf1_variables()
  start_as_published(flow, 1234)
  after = flow.tf1_variables()
  np.random.seed(1234)  # as the published code draws
  for step in (f"revnet_{level}/revnet_step_{depth}" for level in range(2) for depth in range(2)):
    P, L, U, sign, log_s = (after[f"{step}/invertible/{name}"] for name in ("P", "L", "U", "sign_S", "log_S"))
    lower, upper = np.tril(L, -1) + np.eye(len(L)), np.triu(U, 1) + np.diag(sign * np.exp(log_s))
    rotation, _ = np.linalg.qr(np.random.rand(*P.shape))
    np.testing.assert_allclose(P @ lower @ upper, rotation, atol=1e-5)
  for name, value in before.items():
    assert "invertible" in name or value.tobytes() == after[name].tobytes(), name


def test_the_scale_of_small_embeddings_becomes_a_part_of_the_flow():
  rows = (np.random.default_rng(0).normal(size=[64, 8]) * 1e-3 + 0.02).astype(np.float32)
  calibration = fit_calibration(rows, flow_model_config=config(), train_batch_size=8, show_progress=False)
  assert calibration.scale is not None
  np.testing.assert_allclose(without_scale(calibration).transform(rows), calibration.transform(rows), atol=1e-3)


@pytest.fixture
def variables():
  return Glow(config(), 8, permutation="random", seed=4).tf1_variables()


@pytest.mark.parametrize(
  "changes",
  [
    {"revnet_2": 0},
    {"revnet_9999/revnet_step_9999/x": 0},
    {"revnet_01/revnet_step_0/x": 0},
    {"revnet_3/revnet_step_0/x": 0},
    {f"{STEP}/actnorm/actnorm_center/b": None},
    {f"{STEP}/invertible/w": None},
  ],
  ids=lambda changes: next(iter(changes)),
)
def test_unknown_and_missing_variables(variables, changes):
  changed = {**variables, **{name: np.zeros(1) for name, value in changes.items() if value is not None}}
  for name in [name for name, value in changes.items() if value is None]:
    del changed[name]
  with pytest.raises(FlowError):
    make_flow(changed)


CHECKPOINTS = [file for file in golden_files("siamese") if file.stem in ("joint", "low_dim_flow", "nli_softmax")]
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{i}" for i in range(115))]


class Converted:
  """A training's last checkpoint, as the original's Saver writes it, and the folders made of it."""

  def __init__(self, file, folder):
    with np.load(file) as archive:
      self.data = {key: archive[key] for key in archive.files}
    self.flags = json.loads(str(self.data["flags"]))
    self.variables = below(self.data, "initial") | below(self.data, "after_40_steps")
    slots = tf1_files.adam_slots({name: self.variables[name] for name in json.loads(str(self.data["trainable"]))})
    saved = {**self.variables, **slots, "global_step": np.array(40, np.int64)}
    config = json.loads(str(self.data["bert_config"]))
    tf1_files.write_google(folder / "original", saved, config, WORDS, "model.ckpt-40")
    self.low_dim = self.flags["low_dim"] if self.flags["low_dim"] > 0 else None
    self.folder = folder / "converted"
    checkpoint = str(folder / "original/model.ckpt-40")
    self.pooling = {"sentence_embedding_type": self.flags["sentence_embedding_type"], "max_seq_length": 16}
    read.write_folders(checkpoint, str(self.folder), **self.pooling, low_dim=self.low_dim)

  def model(self, engine):
    """Returns the converted model."""
    if self.flags["flow"]:
      return SentenceModel.load(self.folder / "flow", engine=engine)
    return SentenceModel(SentenceEncoder.from_pretrained(self.folder / "encoder", engine=engine), **self.pooling)

  def embeddings(self, encoder, side):
    """Returns the embeddings of the 20 evaluated sentences of a side, before the flow."""
    ids, mask = (self.data[f"eval/input_{name}_{side}"].astype(np.int32) for name in ("ids", "mask"))
    return tiny.embed_padded(encoder, ids, mask, self.flags["sentence_embedding_type"])


@pytest.fixture(scope="module", params=CHECKPOINTS, ids=lambda file: file.stem)
def converted(request, tmp_path_factory):
  return Converted(request.param, tmp_path_factory.mktemp("tf1"))


def assert_close(actual, expected):
  assert actual.shape == expected.shape
  assert np.abs(actual - expected).max() <= 1e-5 * np.abs(expected).max()


def test_outputs_are_the_originals(converted, engine):
  model = converted.model(engine)
  u = {side: converted.embeddings(model.encoder, side) for side in "ab"}
  e = {side: model.transform(rows) for side, rows in u.items()}
  assert model.identity.low_dim == converted.low_dim
  for side in "ab":
    assert_close(e[side], converted.data[f"eval/embedding_{side}"])
  norms = np.linalg.norm(e["a"], axis=1) * np.linalg.norm(e["b"], axis=1)
  assert_close(np.sum(e["a"] * e["b"], axis=1) / norms, converted.data["eval/cos_similarity"])
  if converted.flags["flow"]:
    flow = model.calibration.flow
    assert flow.dim == 32  # its full width, whatever low_dim is
    bits = flow.bits_per_dim(np.concatenate([u["a"], u["b"]])).numpy()
    assert_close(bits[:20] + bits[20:], converted.data["eval/flow_example_loss"])
  if str(converted.data["kind"]) == "softmax":
    weights = Classifier.load(converted.folder / "classifier").output_weights.numpy()
    features = np.concatenate([e["a"], e["b"], np.abs(e["a"] - e["b"])], axis=1)
    assert_close(features @ weights.T, converted.data["eval/logits"])


def test_the_erf_form_of_gelu_comes_back(tmp_path, caplog):
  hugging_face = SentenceEncoder.from_pretrained(tiny.save_tiny(tmp_path / "hf", tiny.random_weights()))
  write.write_model(str(tmp_path / "hf"), str(tmp_path / "google/model.ckpt-1"))
  assert "hidden_act is gelu" in caplog.text
  google = SentenceEncoder.from_pretrained(str(tmp_path / "google"))
  assert google.deciding_settings == hugging_face.deciding_settings
  found, expected = (encoder.encode(["a dog", "b"], max_seq_length=16) for encoder in (google, hugging_face))
  np.testing.assert_array_equal(found, expected)
