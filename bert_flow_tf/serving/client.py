"""Clients of a model server: embeddings, and similarities of sentence pairs, over gRPC or REST."""

import http.client
import json
import pathlib
import socket
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bert_flow_tf.data.files import rows
from bert_flow_tf.data.files.input_format import MAX_RECORD_BYTES
from bert_flow_tf.data.pairs import Texts, check_pairs, check_sentences
from bert_flow_tf.errors import BertFlowError, ConfigError, DataError, install_command, naming
from bert_flow_tf.io.files import parse_json
from bert_flow_tf.serving.signatures import SIGNATURES

if TYPE_CHECKING:
  import ssl

  import grpc

# (name of a signature, one list of str per input) -> one row of numbers per text.
Ask = Callable[[str, Sequence[list[str]]], npt.ArrayLike]
# Processors and servers differ by rounding; models differ by far more.
_GOLDEN_TOLERANCE = 0.01


class ServerError(BertFlowError):
  """The server cannot be reached, reports an error or sends an unexpected answer."""

  def __init__(self, server: str, message: str):
    line = " ".join(message.split())  # servers answer with JSON in several lines
    super().__init__(f"server={server}: {line}", argument="server")


class Client:
  """Client of a model server, a context manager; `make_client` returns it.

  Args:
    server: address, for messages.
    ask: function that sends texts to a signature: (its name, one list of str per input) -> one row of numbers per text.
    close: function that ends the connection, if any.
  """

  def __init__(self, server: str, ask: Ask, close: Callable[[], None] | None = None):
    self._server, self._ask, self._close = server, ask, close

  def __enter__(self) -> "Client":
    return self

  def __exit__(self, *unused: object) -> None:
    if self._close is not None:
      self._close()

  def embed(self, texts: Texts) -> np.ndarray:
    """Returns the calibrated embeddings of n texts by one request, float32 [n, output_dim]; [0, 0] without texts.

    `texts`: any texts that `SentenceModel.encode` takes: a list of str, a string tensor, a column of Arrow, ...
    """
    return self._numbers("serving_default", [check_sentences(texts, "texts")], 2).astype(np.float32)

  def similarities(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
    """Returns the cosine of the calibrated embeddings of each pair, by one request."""
    sides = check_pairs([pair[0] for pair in pairs], [pair[1] for pair in pairs])
    return self._numbers("similarity", list(sides), 1).tolist()

  def check(self, golden: str) -> tuple[int, float]:
    """Returns the number of pairs of an export's golden.json, and how far the server's similarities are from it.

    Raises:
      DataError: the file is no golden.json with similarities.
      ServerError: a difference is more than 0.01, which rounding is not: the server has another model.
    """
    try:
      rows = parse_json(pathlib.Path(golden).expanduser().read_bytes())["similarity"]
      pairs = list(zip(rows["inputs"]["text_a"], rows["inputs"]["text_b"], strict=True))
      (expected,) = rows["outputs"].values()
      differences = np.abs(np.subtract(self.similarities(pairs), expected))
    except (AttributeError, KeyError, OSError, TypeError, ValueError) as error:
      message = f"golden={golden}: expected golden.json of an export that takes text ({error})"
      raise DataError(message, argument="golden") from error
    largest = float(differences.max(initial=0.0))
    if largest > _GOLDEN_TOLERANCE:
      message = f"the similarities differ from {golden} by {largest:.2g}; it serves another model or version"
      raise ServerError(self._server, message)
    return len(pairs), largest

  def _numbers(self, signature: str, columns: Sequence[list[str]], rank: int) -> np.ndarray:
    """Returns the output of a signature, an array with one row per text."""
    rows = len(columns[0])
    if not rows:
      return np.zeros([0] * rank)
    # The server may have another model under this name, or be no model server.
    try:
      numbers = np.asarray(self._ask(signature, columns), np.float64)
    except (TypeError, ValueError) as error:
      raise ServerError(self._server, f"the answer is not numbers ({error})") from error
    if numbers.ndim != rank or len(numbers) != rows:
      raise ServerError(self._server, f"the answer to {rows} rows has the shape {list(numbers.shape)}")
    if not np.isfinite(numbers).all():
      raise ServerError(self._server, "the answer has numbers that are not finite")
    return numbers


def make_client(server: str, model_name: str = "bert_flow", **arguments: Any) -> Client:
  """Returns a client for REST if the server is an http:// or https:// address, else for gRPC.

  Args:
    server: "HOST:PORT" of gRPC, or "http://HOST:PORT" of REST.
    model_name: name of the model on the server.
    **arguments: version, an integer; None for the server's choice. timeout, in seconds. credentials, a
      `grpc.ChannelCredentials`, or an `ssl.SSLContext` for https; None for a connection without encryption. channel, a
      `grpc.Channel` to use in place of a new one to the server; it stays open.

  Raises:
    ConfigError: gRPC's packages are not installed.
  """
  if server.startswith(("http://", "https://")):
    return _rest_client(server, model_name, **arguments)
  return _grpc_client(server, model_name, **arguments)


def _grpc_client(
  server: str,
  model_name: str,
  version: int | None = None,
  timeout: float = 30.0,
  credentials: "grpc.ChannelCredentials | None" = None,
  channel: "grpc.Channel | None" = None,
) -> Client:
  try:
    import grpc
    import tensorflow as tf
    from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc
  except ImportError as error:
    mend = f"run {install_command('serving')}, or use REST: http://HOST:PORT"
    raise ConfigError(f"server={server}: gRPC needs tensorflow-serving-api ({error}); {mend}", "server") from error
  close = None
  if channel is None:
    channel = grpc.secure_channel(server, credentials) if credentials else grpc.insecure_channel(server)
    close = channel.close
  stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)

  def ask(signature, columns):
    request = predict_pb2.PredictRequest()
    request.model_spec.name, request.model_spec.signature_name = model_name, signature
    if version is not None:
      request.model_spec.version.value = version
    for name, column in zip(SIGNATURES[signature].inputs, columns, strict=True):
      texts = [text.encode("utf-8", "replace") for text in column]
      request.inputs[name].CopyFrom(tf.make_tensor_proto(texts, tf.string, [len(texts)]))
    try:
      outputs = stub.Predict(request, timeout=timeout).outputs
    except grpc.RpcError as error:
      raise ServerError(server, _grpc_reason(server, error.code().name, error.details() or "")) from error
    (output,) = SIGNATURES[signature].outputs
    if output not in outputs:
      raise ServerError(server, f"the answer has {list(outputs)}, expected {output}")
    return tf.make_ndarray(outputs[output])

  return Client(server, ask, close)


def _rest_client(
  server: str,
  model_name: str,
  version: int | None = None,
  timeout: float = 30.0,
  credentials: "ssl.SSLContext | None" = None,
) -> Client:
  path = f"/v1/models/{model_name}"
  if version is not None:
    path += f"/versions/{version}"
  url = f"{server.rstrip('/')}{path}:predict"

  def ask(signature, columns):
    names = list(SIGNATURES[signature].inputs)
    instances = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    body = json.dumps({"signature_name": signature, "instances": instances}).encode()
    try:
      request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
      with urllib.request.urlopen(request, timeout=timeout, context=credentials) as answer:
        return parse_json(answer.read())["predictions"]
    except urllib.error.HTTPError as error:
      raise ServerError(server, f"HTTP {error.code}: {error.read().decode(errors='replace')}") from error
    except (OSError, http.client.HTTPException) as error:  # URLError and timeouts are OSErrors
      raise ServerError(server, _rest_reason(server, error)) from error
    except (KeyError, TypeError, ValueError) as error:
      raise ServerError(server, f"the answer has no predictions ({error}); is it a TF Serving?") from error

  return Client(server, ask)


def _grpc_reason(server, code, details):
  """Returns what a failed call means: the details are long, and of gRPC's insides where no server answers."""
  if "Failed parsing HTTP/2" in details:
    return f"no gRPC on this port, perhaps REST; write http://{server} for REST"
  if code == "UNAVAILABLE" and details.startswith(("failed to connect", "errors resolving", "DNS resolution failed")):
    return _no_server(details.rpartition(": ")[2].rstrip("]"))
  return f"{code}: {details}"


def _rest_reason(server, error):
  """Returns what a failed request means."""
  reason = getattr(error, "reason", error)  # of a URLError
  if isinstance(reason, http.client.BadStatusLine) and not isinstance(reason, http.client.RemoteDisconnected):
    return f"no HTTP on this port, perhaps gRPC; write {server.partition('://')[2].rstrip('/')} for gRPC"
  if isinstance(reason, ConnectionRefusedError | socket.gaierror):
    return _no_server(reason.strerror)
  return str(reason)


def _no_server(reason):
  return f"no server answers ({reason}); is it started, at this address?"


@naming("input")
def pairs_of_file(path: str, max_record_bytes: int = MAX_RECORD_BYTES) -> list[tuple[str, str]]:
  """Returns the sentence pairs of a file, or of standard input for "-"; see `find_format`."""
  return [(a, b) for a, b in rows.read_pairs(path, max_bytes=max_record_bytes).texts]
