"""Clients: gRPC against the served models, REST against a stand-in for the server's REST interface."""

import concurrent.futures
import io
import json
import socket
import sys
import threading

import numpy as np
import pytest

from bert_flow_tf.errors import DataError
from bert_flow_tf.serving.client import Client, ServerError, make_client, pairs_of_file
from bert_flow_tf.serving.signatures import SIGNATURES, signatures_of
from tests.serving import rest
from tests.testing import LIMIT_SECONDS, rejected

NAME = "bert_flow"


def predict(instances, signature_name):
  """Returns a score of the letters that texts share, or an embedding of their lengths; too few of odd texts."""
  rows = [tuple(instance.values()) for instance in instances]
  if ("", "short") in rows:
    return []
  if signature_name == "serving_default":
    return [[len(text), 0.5] for (text,) in rows]
  return [float(len(set(a) & set(b))) for a, b in rows]


@pytest.fixture(scope="module")
def rest_server():
  """Returns the address of a REST server of a model and its version 3."""
  server = rest.serve(predict, [f"/v1/models/{NAME}:predict", f"/v1/models/{NAME}/versions/3:predict"])
  yield f"http://localhost:{server.server_port}"
  server.shutdown()


def check_error(server, pairs=(("a", "b"),), match=None, **arguments):
  """Asserts that a request fails with an error that names the server."""
  with make_client(server, **{"model_name": NAME, **arguments}) as client, rejected(ServerError, "server", match):
    client.similarities(list(pairs))


def test_pairs_of_file(tmp_path, monkeypatch):
  path = tmp_path / "pairs.tsv"
  path.write_bytes("\ufeffone\ttwo\r\nthrée\t\n\tx".encode())
  assert pairs_of_file(str(path)) == [("one", "two"), ("thrée", ""), ("", "x")]
  monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\tb\n")))
  assert pairs_of_file("-") == [("a", "b")]


@pytest.mark.parametrize("content", [None, b"a\tb\nc\n", b"\xff\tb"], ids=["absent", "no tab", "not UTF-8"])
def test_bad_files(tmp_path, content):
  path = tmp_path / "pairs.tsv"
  if content is not None:
    path.write_bytes(content)
  with rejected(DataError, "input"):
    pairs_of_file(str(path))


@pytest.mark.parametrize("version", [None, 3])
def test_rest(rest_server, version):
  with make_client(rest_server, model_name=NAME, version=version) as client:
    assert client.similarities([("abc", "bcd"), ("é", "é"), ("", "")]) == [2.0, 1.0, 0.0]
    embeddings = client.embed(["abc", "é"])
    assert embeddings.dtype == np.float32 and embeddings.tolist() == [[3, 0.5], [1, 0.5]]
    assert client.embed([]).shape == (0, 0)


def test_a_server_is_compared_with_the_golden_rows_of_an_export(rest_server, tmp_path):
  path = tmp_path / "golden.json"
  rows = {"inputs": {"text_a": ["abc", "é"], "text_b": ["bcd", "é"]}, "outputs": {"score": [2.0, 1.001]}}
  path.write_text(json.dumps({"similarity": rows}))
  with make_client(rest_server, model_name=NAME) as client:
    assert client.check(str(path)) == (2, pytest.approx(0.001))
    path.write_text(json.dumps({"similarity": rows}).replace("1.001", "1.1"))
    with rejected(ServerError, "server"):
      client.check(str(path))
    with rejected(ServerError, "server"):  # no difference from NaN is too large
      Client("here", lambda *_: [np.nan] * 2).check(str(path))
    for content in ("{}", "[", '{"similarity": 1}'):
      path.write_text(content)
      with rejected(DataError, "golden"):
        client.check(str(path))


def test_rest_errors(rest_server):
  check_error(rest_server, model_name="other")
  check_error(rest_server, version=4)
  check_error(rest_server, [("a", "b"), ("", "short")])
  check_error("http://localhost:1", match="no server answers .Connection refused.; is it started")
  check_error("http://localhost:85O0")


def test_a_server_that_does_not_speak_http():
  ended = threading.Event()
  with socket.create_server(("localhost", 0)) as server:

    def answer():
      connection, _ = server.accept()
      connection.recv(1 << 16)
      connection.sendall(b"\x00\x00\x06\x04 no http\r\n")
      ended.wait(LIMIT_SECONDS)  # keeps the connection

    threading.Thread(target=answer, daemon=True).start()
    port = server.getsockname()[1]
    check_error(f"http://localhost:{port}", match=f"perhaps gRPC; write localhost:{port} for gRPC$")
    ended.set()


def test_grpc_with_credentials_and_with_a_channel(rest_server):
  grpc = pytest.importorskip("grpc", reason="not installed: pip install '.[serving]'")
  pytest.importorskip("tensorflow_serving.apis", reason="not installed: pip install '.[serving]'")
  import tensorflow as tf
  from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

  class Lengths(prediction_service_pb2_grpc.PredictionServiceServicer):
    """The embedding of a text is its length in bytes."""

    def Predict(self, request, context):
      texts = tf.make_ndarray(request.inputs["text"])
      embeddings = tf.make_tensor_proto([[float(len(text))] for text in texts], tf.float32)
      return predict_pb2.PredictResponse(outputs={"embedding": embeddings})

  server = grpc.server(concurrent.futures.ThreadPoolExecutor(1))
  prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(Lengths(), server)
  address = f"localhost:{server.add_secure_port('localhost:0', grpc.local_server_credentials())}"
  server.start()
  credentials = grpc.local_channel_credentials()
  with make_client(address, credentials=credentials) as client:
    assert client.embed(iter([b"\xc3\xa9", "abc"])).tolist() == [[2.0], [3.0]]
  with grpc.secure_channel(address, credentials) as channel:
    for _ in range(2):  # the client does not close it
      with make_client(address, channel=channel) as client:
        assert client.embed(["abcd"]).tolist() == [[4.0]]
  check_error(address)
  check_error("localhost:1", match="no server answers .Connection refused.; is it started")
  check_error(rest_server.removeprefix("http://"), match=f"perhaps REST; write {rest_server} for REST$")
  server.stop(None)


@pytest.mark.slow
def test_grpc(served):
  from tests.serving import exported

  texts = exported.TEXTS
  with make_client(served.server, model_name=NAME, version=1) as client:
    scores = client.similarities([*zip(texts, texts[::-1], strict=True)])
    np.testing.assert_allclose(scores, served.answers["similarity/score"], atol=1e-5)
    assert client.similarities([]) == []
    np.testing.assert_allclose(client.embed(texts), served.answers["all/embedding"], atol=1e-4)
  check_error(served.server, model_name="other")
  check_error("localhost:1")


@pytest.mark.slow
def test_warm_up_requests_are_replayed(served):
  assert served.seen["replayed"]["1"] == [name for name in signatures_of(SIGNATURES, has_flow=True) for _ in range(2)]
  assert len(served.seen["replayed"]["7"]) == 12
