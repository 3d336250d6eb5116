"""SavedModels in a process that has TensorFlow and TF Text but no project code, and the errors of `export_model`."""

import json

import numpy as np
import pytest

from tests.serving import audit, exported  # isort: skip
import tensorflow as tf  # isort: skip
from tensorflow.core.protobuf import saved_model_pb2  # isort: skip

from bert_flow_tf import Glow, SentenceModel
from bert_flow_tf.errors import CalibrationError, ConfigError, DataError
from bert_flow_tf.evaluation.metrics import cosine_similarity
from bert_flow_tf.flow.config import FlowConfig
from bert_flow_tf.serving.export import export_model
from bert_flow_tf.serving.settings import CARD, GOLDEN, METADATA, ExportError
from tests.encoder import tiny
from tests.testing import rejected, run_python

pytestmark = pytest.mark.slow

SIZES = {"dim": 256, "output_dim": 256, "latent_dim": 256, "max_seq_length": 64}


@pytest.fixture(scope="module")
def expected(served):
  """Returns the answers of the models in Python: {request/output: array}.

  A sentence has the same embedding alone and in a batch; as an example, or as ids with the server's padding.
  """
  flow = served.model.calibration.flow
  pooled = served.model.encoder.encode(exported.TEXTS, show_progress=False)
  embeddings = flow.transform(pooled).numpy()
  expected_of_ids = np.concatenate([embeddings[:3], embeddings[4:9]])
  invalid = [text.decode("utf-8", "replace") for text in exported.INVALID]
  latent = np.random.default_rng(3).normal(size=[5, flow.dim]).astype(np.float32)
  return {
    "pooled/pooled": pooled,
    "all/embedding": embeddings,
    "examples/embedding": embeddings,
    "padded ids/embedding": expected_of_ids,
    "fixed ids/embedding": expected_of_ids,
    **{f"one {i}/embedding": embeddings[i : i + 1] for i in (0, 1, 2, 3, 40)},
    "invalid/embedding": served.model.encode(invalid),
    "tiny/embedding": served.tiny.encode(["a dog", "cats b", ""], normalize_embeddings=True),
    "tiny embed_ids_fixed/embedding": served.answers["tiny embed_ids/embedding"],
    "log_prob/bits_per_dim": flow.bits_per_dim(pooled).numpy(),
    "log_prob/nats": flow.distribution.log_prob(pooled).numpy(),
    "inverse/pooled": flow.inverse(latent).numpy(),
  }


def test_the_process_has_no_project_code(served):
  assert served.seen["foreign"] == []


def test_answers_equal_the_models_in_python(served, expected):
  for name, values in expected.items():
    assert served.answers[f"{name}"].dtype == np.float32
    exported.close(served.answers[f"{name}"], values)
  latents = expected["all/embedding"]
  scores = served.answers["similarity/score"]
  np.testing.assert_allclose(scores, cosine_similarity(latents, latents[::-1]), atol=1e-5)


def test_empty_batches(served):
  sizes = {"n": 0, **SIZES}
  for signature in exported.TABLE.values():
    for name, tensor in signature.outputs.items():
      assert list(served.answers[f"empty {signature.name}/{name}"].shape) == tensor.shape(sizes)
  assert served.answers["empty tiny/embedding"].shape == (0, 4)


def test_inputs_of_different_lengths_or_too_many_are_an_error(served):
  errors = served.seen["errors"]
  assert set(errors) == set(exported.rejected())
  for name, message in errors.items():
    inputs = "ids and lengths" if "embed_ids" in name else "text_a and text_b"
    expected = f"{inputs} have different lengths"
    for part, of_part in {"length ": "not between 1 and", "many": "more than 65536 rows", "tf.Ex": "parse"}.items():
      expected = of_part if part in name else expected
    assert expected in message
  assert served.answers["one pair/score"].tolist() == pytest.approx([1.0])


def test_a_large_request_is_computed_in_parts(served):
  """The texts repeat after 15 rows, and so do the scores, wherever a part ends."""
  scores = served.answers["parts/score"]
  assert len(scores) == len(exported.MANY)
  np.testing.assert_allclose(scores, scores[np.arange(len(scores)) % 15], rtol=0, atol=1e-4)
  np.testing.assert_allclose(scores[:15], served.answers["one part/score"], rtol=0, atol=1e-4)


# Prints the growth of the process's peak memory in MiB for each of these texts of 10 MB.
_LARGE = """
import resource, sys
import tensorflow as tf, tensorflow_text
answer = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
parts = (b"word ", b"!", b" ", b"x", b"\\0", b"\\xff", b"\\xe6\\x9d\\xb1", b"a\\xcc\\x81")
texts = [part * (10**7 // len(part)) for part in parts]
answer(text=tf.constant([b"a dog", b"!"] * 30))
before = peak()
for text in texts:
  assert answer(text=tf.constant([text]))["embedding"].shape == (1, 4)
print(peak() - before)
"""


def test_texts_of_ten_megabytes_need_little_memory(served):
  growth = run_python("-c", _LARGE, served.base / "7")
  assert float(growth) < 60  # before texts were cut, 2 million words took 130


def test_files_of_a_version(served):
  folder = served.base / "1"
  files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
  extra = "README.md golden.json metadata.json models.config monitoring.config tf_serving_warmup_requests"
  assert files == {
    "saved_model.pb",
    "fingerprint.pb",
    "batching_params.pbtxt",
    "assets/vocab.txt",
    "variables/variables.index",
    "variables/variables.data-00000-of-00001",
    *(f"assets.extra/{name}" for name in extra.split()),
  }
  encoder = served.model.encoder
  assert (folder / "assets/vocab.txt").read_text(encoding="utf-8").split("\n")[:-1] == encoder.tokenizer.vocab
  metadata = json.loads((folder / METADATA).read_text(encoding="utf-8"))
  assert metadata["encoder"]["weights_sha256"] == encoder.weights_checksum
  assert metadata["signatures"] == {name: signature.describe(SIZES) for name, signature in exported.TABLE.items()}
  assert metadata["without"] == []
  assert metadata["origin"] == {"folder": "exp/NAME/flow"}
  other = json.loads((served.base / "7" / METADATA).read_text(encoding="utf-8"))
  assert set(metadata["signatures"]) - set(other["signatures"]) == {"log_prob", "inverse"} and other["without"]
  card = (folder / CARD).read_text(encoding="utf-8")
  assert all(f"`{name}`: {signature.meaning}" in card for name, signature in exported.TABLE.items())
  golden = json.loads((folder / GOLDEN).read_text(encoding="utf-8"))["serving_default"]
  embeddings = served.model.encode(golden["inputs"]["text"])
  exported.close(np.array(golden["outputs"]["embedding"]), embeddings)
  assert not list(served.base.glob(".*"))


def test_the_signatures_of_the_saved_model_are_the_table(served):
  model = saved_model_pb2.SavedModel.FromString((served.base / "1" / "saved_model.pb").read_bytes())
  definitions = {name: value for name, value in model.meta_graphs[0].signature_def.items() if name[:2] != "__"}
  assert set(definitions) == set(exported.TABLE)

  def tensors(infos):
    shapes = {name: [size.size for size in info.tensor_shape.dim] for name, info in infos.items()}
    return {name: [tf.as_dtype(info.dtype).name, shapes[name]] for name, info in infos.items()}

  for name, signature in exported.TABLE.items():
    described = signature.describe(SIZES)
    assert tensors(definitions[name].inputs) == described["inputs"]
    assert tensors(definitions[name].outputs) == described["outputs"]


def test_a_stock_server_can_run_it(served):
  for version in (1, 7):
    assert audit.unknown_ops(served.base / str(version)) == []


@pytest.mark.parametrize(
  ("place", "settings", "error", "argument"),
  [
    ("new", {"version": 0}, ConfigError, "version"),
    ("new", {"model_name": "a/b"}, ConfigError, "model_name"),
    ("", {"version": 7}, ExportError, "version"),  # a version is never overwritten
    ("", {"version": 7, "reference": [None]}, ExportError, "version"),  # before the reference is read
    ("new", {"reference": []}, DataError, "reference"),
    ("7/saved_model.pb", {}, ConfigError, "export_dir"),
  ],
)
def test_exports_that_are_not_possible(served, place, settings, error, argument):
  before = sorted(served.base.rglob("*"))
  with rejected(error, argument):
    export_model(served.model, served.base / place, **settings)
  assert sorted(served.base.rglob("*")) == before


def test_a_reference_needs_a_flow(served, tmp_path):
  model = SentenceModel(served.tiny.encoder, None, max_seq_length=16)
  with rejected(ConfigError, "reference"):
    export_model(model, tmp_path / "base", reference=["a text"])
  assert not (tmp_path / "base").exists()


def test_a_flow_that_is_not_fitted(served, tmp_path):
  model = SentenceModel(served.tiny.encoder, Glow(FlowConfig(), 12), max_seq_length=16)
  with pytest.raises(CalibrationError):
    export_model(model, tmp_path / "base")
  assert not (tmp_path / "base").exists()


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_an_export_within_a_strategys_scope(tmp_path, precision):
  """The encoder is loaded in the scope, too; the version answers as a model from outside the scope."""
  folder = tiny.save_tiny(tmp_path / "tiny")
  arguments = {"precision": precision, "max_seq_length": 8}
  with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
    place = export_model(SentenceModel.from_pretrained(str(folder), **arguments), tmp_path / "served")
    again = SentenceModel.from_pretrained(f"saved_model:{place}").encode(["a dog", "cats . a b"])
  expected = SentenceModel.from_pretrained(str(folder), **arguments).encode(["a dog", "cats . a b"])
  np.testing.assert_allclose(again, expected, atol=1e-5)
