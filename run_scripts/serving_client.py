"""Asks a model server for the similarity of sentence pairs, over gRPC or REST, and prints one a line.

python serving_client.py --server=localhost:8500 --input=pairs.tsv
python serving_client.py --server=http://localhost:8501 --input=pairs.tsv

`pairs.tsv` has two sentences a line, with a tab between them; more columns are left alone.
"""

import http.client
import json
import pathlib
import sys
import urllib.error
import urllib.request

if __package__ in (None, ""):  # run as a file, from any folder
  sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from absl import flags

from bert_flow_tf.errors import BertFlowError, ConfigError, DataError
from run_scripts import common_flags

FLAGS = flags.FLAGS
_SIGNATURE = "similarity"


class ServerError(BertFlowError):
  """The server cannot be reached, refuses, or answers something else."""


def define_flags():
  """The flags of this client."""
  flags.DEFINE_string("server", "localhost:8500", "HOST:PORT of the server's gRPC, or http://HOST:PORT of its REST.")
  flags.DEFINE_string("input", None, "TSV file of sentence pairs; - for standard input.")
  flags.DEFINE_string("model_name", "bert_flow", "What the server calls the model.")
  flags.DEFINE_integer("version", None, "Version of the model; the server's choice if not given.", lower_bound=0)
  flags.DEFINE_integer("batch_size", 32, "Pairs a request.", lower_bound=1)
  flags.DEFINE_float("timeout", 30.0, "Seconds to wait for an answer.", lower_bound=0.001)


def read_pairs(path):
  """Sentence pairs of a TSV file, or of standard input for "-": list of (str, str).

  Raises:
    DataError: it cannot be read, is not UTF-8, or a line has no tab.
  """
  try:
    data = sys.stdin.buffer.read() if path == "-" else pathlib.Path(path).expanduser().read_bytes()
    lines = data.decode("utf-8-sig").split("\n")
  except (OSError, UnicodeDecodeError) as error:
    raise DataError(f"--input={path}: cannot be read ({error}), expected a UTF-8 TSV file") from error
  pairs = []
  for number, line in enumerate(lines, 1):
    columns = line.removesuffix("\r").split("\t")
    if len(columns) > 1:
      pairs.append((columns[0], columns[1]))
    elif columns != [""]:
      raise DataError(f"--input={path}, line {number}: no tab, expected two sentences with a tab between them")
  return pairs


class GrpcClient:
  """Predict over gRPC; a context manager.

  Args:
    server: "HOST:PORT".
    model_name: str.
    version: int or None.
    timeout: seconds.
  """

  def __init__(self, server, model_name, version=None, timeout=30.0):
    try:
      import grpc
      from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc
    except ImportError as error:
      raise ConfigError(
        f"gRPC needs tensorflow-serving-api ({error}): install it with pip install 'bert-flow-tf[serving]', or use "
        "REST, --server=http://HOST:PORT"
      ) from error
    import tensorflow as tf

    self._tf, self._failed, self._request = tf, grpc.RpcError, predict_pb2.PredictRequest
    self._name, self._version, self._timeout, self._server = model_name, version, timeout, server
    self._channel = grpc.insecure_channel(server, options=[("grpc.max_receive_message_length", -1)])
    self._stub = prediction_service_pb2_grpc.PredictionServiceStub(self._channel)

  def __enter__(self):
    return self

  def __exit__(self, *unused):
    self._channel.close()

  def similarities(self, pairs):
    """Scores of (str, str) pairs, a list of float.

    Raises:
      ServerError: no answer, or one that does not fit.
    """
    request = self._request()
    request.model_spec.name = self._name
    request.model_spec.signature_name = _SIGNATURE
    if self._version is not None:
      request.model_spec.version.value = self._version
    for side, name in enumerate(("text_a", "text_b")):
      texts = [pair[side].encode("utf-8", "replace") for pair in pairs]
      request.inputs[name].CopyFrom(self._tf.make_tensor_proto(texts, self._tf.string, [len(texts)]))
    try:
      response = self._stub.Predict(request, timeout=self._timeout)
    except self._failed as error:
      raise ServerError(f"--server={self._server}: {error.code().name}: {error.details()}") from error
    if "score" not in response.outputs:
      raise ServerError(f"--server={self._server}: the answer holds {list(response.outputs)}, expected score")
    return _checked(self._server, self._tf.make_ndarray(response.outputs["score"]).tolist(), pairs)


class RestClient:
  """Predict over REST; a context manager. Arguments as `GrpcClient`, the server as "http://HOST:PORT"."""

  def __init__(self, server, model_name, version=None, timeout=30.0):
    path = f"/v1/models/{model_name}" + ("" if version is None else f"/versions/{version}")
    self._server, self._url, self._timeout = server, f"{server.rstrip('/')}{path}:predict", timeout

  def __enter__(self):
    return self

  def __exit__(self, *unused):
    pass

  def similarities(self, pairs):
    """As `GrpcClient.similarities`."""
    instances = [{"text_a": a, "text_b": b} for a, b in pairs]
    body = json.dumps({"signature_name": _SIGNATURE, "instances": instances}).encode()
    try:
      request = urllib.request.Request(self._url, body, {"Content-Type": "application/json"})
      with urllib.request.urlopen(request, timeout=self._timeout) as answer:
        return _checked(self._server, json.loads(answer.read())["predictions"], pairs)
    except urllib.error.HTTPError as error:
      raise ServerError(
        f"--server={self._server}: HTTP {error.code}: {error.read().decode(errors='replace')}"
      ) from error
    except (OSError, ValueError, http.client.HTTPException) as error:  # URLError and timeouts are OSErrors
      raise ServerError(f"--server={self._server}: {error}") from error
    except (KeyError, TypeError) as error:
      raise ServerError(f"--server={self._server}: an answer without predictions, expected TF Serving's") from error


def make_client(server, **arguments):
  """The client that the form of --server asks for."""
  return (RestClient if server.startswith(("http://", "https://")) else GrpcClient)(server, **arguments)


def _checked(server, scores, pairs):
  numbers = isinstance(scores, list) and all(isinstance(score, int | float) for score in scores)
  if not numbers or len(scores) != len(pairs):
    raise ServerError(f"--server={server}: {len(pairs)} pairs asked, the answer is not as many numbers")
  return scores


def main(argv):
  """Pairs in, a line each out: score and sentences."""
  del argv
  if not FLAGS.input:
    raise ConfigError("--input is missing: a TSV file with two sentences a line, or - for standard input")
  pairs = read_pairs(FLAGS.input)
  arguments = {"model_name": FLAGS.model_name, "version": FLAGS.version, "timeout": FLAGS.timeout}
  with make_client(FLAGS.server, **arguments) as client:
    for start in range(0, len(pairs), FLAGS.batch_size):
      batch = pairs[start : start + FLAGS.batch_size]
      for score, (a, b) in zip(client.similarities(batch), batch, strict=True):
        print(f"{score:.4f}\t{a}\t{b}")


def console():
  """Entry point of the installed command."""
  define_flags()
  common_flags.run(main)


if __name__ == "__main__":
  console()
