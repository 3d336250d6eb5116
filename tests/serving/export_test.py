"""The SavedModel, proven in a process that has TensorFlow and TF Text alone, and the refusals of `export_model`."""

import concurrent.futures
import json
import time

import numpy as np
import pytest

from tests.serving import exported

import grpc  # isort: skip
from tensorflow_serving.apis import (  # isort: skip
  get_model_metadata_pb2,
  predict_pb2,
  prediction_service_pb2_grpc,
)
import tensorflow as tf  # isort: skip

from bert_flow_tf.calibration.spec import make_calibration
from bert_flow_tf.errors import BertFlowError
from bert_flow_tf.evaluation.similarity import cosine_similarity
from bert_flow_tf.serving import audit
from bert_flow_tf.serving.export import export_model
from bert_flow_tf.serving.layout import ExportLayout
from run_scripts import serving_client

pytestmark = pytest.mark.slow

KINDS = ("c", "v1")


@pytest.fixture(scope="module")
def served():
  return exported.served()


@pytest.fixture(scope="module")
def expected(served):
  """What the Python model gives, {output: array}."""
  pooled = served.encoder.encode(exported.TEXTS, show_progress=False)
  latents = served.flow.transform(pooled).numpy()
  latent = np.random.default_rng(3).normal(size=[5, served.flow.dim]).astype(np.float32)
  return {
    "pooled/pooled": pooled,
    "all/embedding": latents,
    "log_prob/bits_per_dim": served.flow.bits_per_dim(pooled).numpy(),
    "log_prob/nats": served.flow.distribution.log_prob(pooled).numpy(),
    "inverse/pooled": served.flow.inverse(latent).numpy(),
  }


def close(found, expected):
  """1e-5, relative to the largest number."""
  np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


def test_the_process_knew_tensorflow_alone(served):
  assert served.seen["foreign"] == []
  assert served.seen["xla_is_refused"]


@pytest.mark.parametrize("kind", KINDS)
def test_vectors_are_those_of_the_python_model(served, expected, kind):
  for name, values in expected.items():
    assert served.answers[f"{kind}/{name}"].dtype == np.float32
    close(served.answers[f"{kind}/{name}"], values)
  latents = expected["all/embedding"]
  scores = served.answers[f"{kind}/similarity/score"]
  np.testing.assert_allclose(scores, cosine_similarity(latents, latents[::-1]), atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_of_one_is_the_batch_of_64(served, kind):
  every = served.answers[f"{kind}/all/embedding"]
  assert len(every) == 64
  for i in (0, 1, 2, 3, 40):
    close(served.answers[f"{kind}/one {i}/embedding"][0], every[i])


@pytest.mark.parametrize("kind", KINDS)
def test_no_rows_give_no_rows(served, kind):
  shapes = {key.removeprefix(f"{kind}/no "): value.shape for key, value in served.answers.items() if "/no " in key}
  shapes = {key: shape for key, shape in shapes.items() if not key.startswith(("c/", "v1/"))}
  dim = served.flow.dim
  assert shapes == {
    "serving_default/embedding": (0, dim),
    "embed_pooled/pooled": (0, dim),
    "embed_ids/embedding": (0, dim),
    "similarity/score": (0,),
    "log_prob/bits_per_dim": (0,),
    "log_prob/nats": (0,),
    "inverse/pooled": (0, dim),
    "tiny/embedding": (0, 4),
  }


def test_bytes_that_are_not_utf_8(served):
  sentences = [one.decode("utf-8", "replace") for one in exported.INVALID]
  expected = served.flow.transform(served.encoder.encode(sentences, show_progress=False)).numpy()
  for kind in KINDS:
    close(served.answers[f"{kind}/invalid/embedding"], expected)


@pytest.mark.parametrize("kind", KINDS)
def test_the_servers_own_padding_changes_nothing(served, kind):
  every = served.answers[f"{kind}/all/embedding"]
  close(served.answers[f"{kind}/padded ids/embedding"], np.concatenate([every[:3], every[4:9]]))


@pytest.mark.parametrize("kind", KINDS)
def test_the_other_version_half_precision_and_unit_length(served, kind):
  found = served.answers[f"{kind}/tiny/embedding"]
  pooled = served.tiny_encoder.encode(["a dog", "cats b", ""], max_seq_length=16, show_progress=False)
  expected = served.whitening.transform(pooled)
  np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, rtol=1e-6)
  cosines = cosine_similarity(found, expected)
  assert found.shape == (3, 4) and (cosines > 0.99).all() and (cosines < 1 - 1e-9).any()


def test_what_is_written(served):
  layout = ExportLayout.of(served.base, 1)
  files = {path.relative_to(layout.folder).as_posix() for path in layout.folder.rglob("*") if path.is_file()}
  extra = ("README.md", "golden.json", "metadata.json", "models.config", "tf_serving_warmup_requests")
  assert files == {
    "saved_model.pb",
    "fingerprint.pb",
    "batching_params.pbtxt",
    "assets/vocab.txt",
    "variables/variables.index",
    "variables/variables.data-00000-of-00001",
    *(f"assets.extra/{name}" for name in extra),
  }
  assert layout.vocabulary.read_text(encoding="utf-8").split("\n")[:-1] == served.encoder.tokenizer.vocab
  described = json.loads(layout.metadata.read_text(encoding="utf-8"))
  assert described["encoder"]["weights_sha256"] == served.encoder.weights_checksum
  assert described["signatures"]["embed_ids"]["inputs"] == {"ids": ["int32", [-1, -1]], "lengths": ["int32", [-1]]}
  assert described["ops_not_known_to_tensorflow_2.12"] == [] and described["without"] == []
  assert described["origin"] == {"folder": "exp/NAME/flow"}
  other = json.loads(ExportLayout.of(served.base, 7).metadata.read_text(encoding="utf-8"))
  assert set(described["signatures"]) - set(other["signatures"]) == {"log_prob", "inverse"} and other["without"]
  golden = json.loads(layout.golden.read_text(encoding="utf-8"))["serving_default"]
  sentences = golden["inputs"]["text"]
  close(
    np.array(golden["outputs"]["embedding"]),
    served.flow.transform(served.encoder.encode(sentences, show_progress=False)).numpy(),
  )
  assert not list(served.base.glob(".*"))


def test_nothing_that_a_stock_server_lacks(served, tmp_path):
  for version in (1, 7):
    assert audit.check_servable(ExportLayout.of(served.base, version).folder) == []
  module = tf.Module()
  module.call = tf.function(lambda x: x + 1.0, [tf.TensorSpec([], tf.float32)], jit_compile=True)
  tf.saved_model.save(module, str(tmp_path / "compiled"))
  with pytest.raises(BertFlowError, match="must be compiled by XLA"):
    audit.check_servable(tmp_path / "compiled")


def stub(served):
  return prediction_service_pb2_grpc.PredictionServiceStub(grpc.insecure_channel(served.server))


def request(sentences, signature="serving_default", version=None, name=exported.NAME):
  asked = predict_pb2.PredictRequest()
  asked.model_spec.name, asked.model_spec.signature_name = name, signature
  if version:
    asked.model_spec.version.value = version
  asked.inputs["text"].CopyFrom(tf.make_tensor_proto(sentences, tf.string, [len(sentences)]))
  return asked


def test_grpc_predict_two_versions_metadata_and_errors(served):
  server = stub(served)
  answer = server.Predict(request(exported.TEXTS, version=1))
  close(tf.make_ndarray(answer.outputs["embedding"]), served.answers["v1/all/embedding"])
  latest = server.Predict(request(["a dog"]))
  assert latest.model_spec.version.value == 7 and tf.make_ndarray(latest.outputs["embedding"]).shape == (1, 4)
  asked = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
  asked.model_spec.name, asked.model_spec.version.value = exported.NAME, 1
  signatures = get_model_metadata_pb2.SignatureDefMap()
  server.GetModelMetadata(asked).metadata["signature_def"].Unpack(signatures)
  assert set(signatures.signature_def) == {*served.seen["replayed"]["1"], "__saved_model_init_op"}
  for name, definition in signatures.signature_def.items():
    if name == "__saved_model_init_op":
      continue
    assert not any(name.endswith("_bytes") for name in [*definition.inputs, *definition.outputs])
    for info in [*definition.inputs.values(), *definition.outputs.values()]:
      assert info.tensor_shape.dim[0].size == -1
  for bad, code in [
    (request(["a"], version=3), grpc.StatusCode.NOT_FOUND),
    (request(["a"], name="other"), grpc.StatusCode.NOT_FOUND),
    (request(["a"], signature="none"), grpc.StatusCode.INVALID_ARGUMENT),
    (request(["a"], signature="similarity", version=1), grpc.StatusCode.INVALID_ARGUMENT),
  ]:
    with pytest.raises(grpc.RpcError) as error:
      server.Predict(bad)
    assert error.value.code() == code


def test_the_client(served):
  texts = exported.TEXTS
  arguments = {"server": served.server, "model_name": exported.NAME, "version": 1}
  with serving_client.make_client(**arguments) as client:
    scores = client.similarities([*zip(texts, texts[::-1], strict=True)])
    np.testing.assert_allclose(scores, served.answers["v1/similarity/score"], atol=1e-5)
    assert client.similarities([]) == []
  for other, message in [
    ({"model_name": "other"}, "NOT_FOUND: Servable not found"),
    ({"server": "localhost:1"}, "UNAVAILABLE"),
  ]:
    with serving_client.make_client(**{**arguments, **other}) as client, pytest.raises(BertFlowError, match=message):
      client.similarities([("a", "b")])


def test_the_warm_up_file_is_replayed(served):
  expected = ["embed_ids", "embed_pooled", "inverse", "log_prob", "serving_default", "similarity"]
  assert sorted(set(served.seen["replayed"]["1"])) == expected and len(served.seen["replayed"]["1"]) == 12
  assert len(served.seen["replayed"]["7"]) == 8


def test_32_clients_lose_and_mix_up_nothing(served):
  server, texts = stub(served), [*exported.TEXTS[:2], *exported.TEXTS[3:]]
  expected = np.delete(served.answers["v1/all/embedding"], 2, axis=0)
  until = time.monotonic() + 2.0

  def client(number):
    rng, count = np.random.default_rng(number), 0
    while time.monotonic() < until:
      chosen = rng.choice(len(texts), rng.integers(1, 4))
      answer = server.Predict(request([texts[i] for i in chosen], version=1), timeout=60)
      close(tf.make_ndarray(answer.outputs["embedding"]), expected[chosen])
      count += 1
    return count

  with concurrent.futures.ThreadPoolExecutor(32) as clients:
    counts = list(clients.map(client, range(32)))
  assert min(counts) > 0


def test_refusals(served, tmp_path):
  encoder, base = served.tiny_encoder, tmp_path / "base"
  before = sorted(served.base.rglob("*"))
  cases = [
    ({"base_dir": served.base, "version": 7}, "version 7 is there and is never overwritten"),
    ({"version": 0}, "--version=0: expected a whole number from 1"),
    ({"weights_dtype": "int8"}, "--weights_dtype=int8: expected one of float32, float16, bfloat16"),
    ({"model_name": "a/b"}, "--model_name=a/b"),
    ({"max_seq_length": 2}, "max_seq_length=2"),
    ({"low_dim": 5}, "low_dim=5"),
    ({"sentence_embedding_type": "max"}, "sentence_embedding_type=max"),
    ({"calibration": make_calibration("whitening")}, "not fitted"),
    ({"calibration": served.flow}, "takes embeddings of 256 dimensions, found 12"),
    ({"calibration": "flow"}, "found str"),
    ({"base_dir": served.base / "7" / "saved_model.pb"}, "cannot be made or read"),
  ]
  for arguments, message in cases:
    with pytest.raises(BertFlowError, match=message):
      export_model(**{"encoder": encoder, "calibration": None, "base_dir": base, "max_seq_length": 16, **arguments})
  assert not base.exists() or not list(base.iterdir())
  assert sorted(served.base.rglob("*")) == before
