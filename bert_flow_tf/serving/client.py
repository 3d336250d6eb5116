"""Clients of a model server: similarities of sentence pairs over gRPC or REST."""

import http.client
import json
import pathlib
import sys
import urllib.error
import urllib.request
from typing import Any

from bert_flow_tf.errors import BertFlowError, ConfigError, DataError, install_command
from bert_flow_tf.io.files import parse_json
from bert_flow_tf.serving.signatures import SIGNATURES

_SIMILARITY = SIGNATURES["similarity"]
(_SCORE,) = _SIMILARITY.outputs


class ServerError(BertFlowError):
  """The server cannot be reached, reports an error or sends an unexpected answer."""

  def __init__(self, server: str, message: str):
    super().__init__(f"server={server}: {message}", argument="server")


class GrpcClient:
  """Client over gRPC, a context manager; the server is "HOST:PORT", version None the server's choice."""

  def __init__(self, server: str, model_name: str, version: int | None = None, timeout: float = 30.0):
    try:
      import grpc
      import tensorflow as tf
      from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc
    except ImportError as error:
      mend = f"run {install_command('serving')}, or use REST: http://HOST:PORT"
      raise ConfigError(f"server={server}: gRPC needs tensorflow-serving-api ({error}); {mend}", "server") from error
    self._tf, self._rpc_error, self._request = tf, grpc.RpcError, predict_pb2.PredictRequest
    self._model_name, self._version, self._timeout, self._server = model_name, version, timeout, server
    self._channel = grpc.insecure_channel(server)
    self._stub = prediction_service_pb2_grpc.PredictionServiceStub(self._channel)

  def __enter__(self) -> "GrpcClient":
    return self

  def __exit__(self, *unused):
    self._channel.close()

  def similarities(self, pairs: list[tuple[str, str]]) -> list[float]:
    """Returns the cosine of the calibrated embeddings of each pair."""
    request = self._request()
    request.model_spec.name, request.model_spec.signature_name = self._model_name, _SIMILARITY.name
    if self._version is not None:
      request.model_spec.version.value = self._version
    for side, name in enumerate(_SIMILARITY.inputs):
      texts = [pair[side].encode("utf-8", "replace") for pair in pairs]
      request.inputs[name].CopyFrom(self._tf.make_tensor_proto(texts, self._tf.string, [len(texts)]))
    try:
      response = self._stub.Predict(request, timeout=self._timeout)
    except self._rpc_error as error:
      raise ServerError(self._server, f"{error.code().name}: {error.details()}") from error
    if _SCORE not in response.outputs:
      raise ServerError(self._server, f"the answer has {list(response.outputs)}, expected {_SCORE}")
    return _checked(self._server, self._tf.make_ndarray(response.outputs[_SCORE]).tolist(), pairs)


class RestClient:
  """Client over REST, a context manager; arguments as in `GrpcClient`, the server is "http://HOST:PORT"."""

  def __init__(self, server: str, model_name: str, version: int | None = None, timeout: float = 30.0):
    path = f"/v1/models/{model_name}"
    if version is not None:
      path += f"/versions/{version}"
    self._server, self._url, self._timeout = server, f"{server.rstrip('/')}{path}:predict", timeout

  def __enter__(self) -> "RestClient":
    return self

  def __exit__(self, *unused):
    pass

  def similarities(self, pairs: list[tuple[str, str]]) -> list[float]:
    """Returns the cosine of the calibrated embeddings of each pair."""
    instances = [dict(zip(_SIMILARITY.inputs, pair, strict=True)) for pair in pairs]
    body = json.dumps({"signature_name": _SIMILARITY.name, "instances": instances}).encode()
    try:
      request = urllib.request.Request(self._url, body, {"Content-Type": "application/json"})
      with urllib.request.urlopen(request, timeout=self._timeout) as answer:
        return _checked(self._server, parse_json(answer.read())["predictions"], pairs)
    except urllib.error.HTTPError as error:
      raise ServerError(self._server, f"HTTP {error.code}: {error.read().decode(errors='replace')}") from error
    except (OSError, ValueError, http.client.HTTPException) as error:  # URLError and timeouts are OSErrors
      raise ServerError(self._server, str(error)) from error
    except (KeyError, TypeError) as error:
      raise ServerError(self._server, "the answer has no predictions; is it a TF Serving?") from error


def make_client(server: str, **arguments) -> GrpcClient | RestClient:
  """Returns a client for REST if the server is an http:// or https:// address, else for gRPC."""
  if server.startswith(("http://", "https://")):
    return RestClient(server, **arguments)
  return GrpcClient(server, **arguments)


def read_pairs(path: str) -> list[tuple[str, str]]:
  """Reads sentence pairs from a UTF-8 TSV file, or from standard input for "-"; further columns are ignored."""
  try:
    content = sys.stdin.buffer.read() if path == "-" else pathlib.Path(path).read_bytes()
    lines = content.decode("utf-8-sig").split("\n")
  except (OSError, UnicodeDecodeError) as error:
    raise DataError(f"input={path}: cannot be read ({error}), expected a UTF-8 TSV file", argument="input") from error
  pairs = []
  for number, line in enumerate(lines, 1):
    columns = line.removesuffix("\r").split("\t")
    if len(columns) > 1:
      pairs.append((columns[0], columns[1]))
    elif columns != [""]:
      raise DataError(f"input={path}, line {number}: expected two sentences separated by a tab", argument="input")
  return pairs


def _checked(server: str, scores: Any, pairs: list[tuple[str, str]]) -> list[float]:
  """Returns the scores; they are numbers, one for each pair, unless the server is another one."""
  numbers = isinstance(scores, list) and all(isinstance(score, int | float) for score in scores)
  if not numbers or len(scores) != len(pairs):
    raise ServerError(server, f"the answer to {len(pairs)} pairs is not {len(pairs)} numbers")
  return scores
