"""A model server for the commands of the pages: gRPC as `prediction_service`, and TensorFlow Serving's REST format.

    python -m tests.serving.stand_in BASE NAME GRPC_PORT REST_PORT

serves the newest version in BASE, prints a line when it is ready, and ends with its standard input.
"""

import functools
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import prediction_service
import rest
import tensorflow_text  # noqa: F401 (its ops)


def predict(model, instances, signature_name="serving_default"):
  """Returns the answer to rows, each a dict or the value of the only input."""
  expected = model.signatures[signature_name].inputs
  rows = [row if isinstance(row, dict) else dict.fromkeys(expected, row) for row in instances]
  inputs = {name: [row[name] for row in rows] for name in expected}
  outputs = {name: array.tolist() for name, array in model.run(signature_name, inputs).items()}
  if len(outputs) == 1:
    return next(iter(outputs.values()))
  return [dict(zip(outputs, row, strict=True)) for row in zip(*outputs.values(), strict=True)]


def main(base, name, grpc_port, rest_port):
  """Runs the server; see the module's docstring."""
  grpc_server, _, service = prediction_service.serve(base, name, port=grpc_port)
  answer = functools.partial(predict, service.models[max(service.models)])
  rest_server = rest.serve(answer, [f"/v1/models/{name}:predict"], int(rest_port))
  print("ready", flush=True)
  sys.stdin.read()
  rest_server.shutdown()
  grpc_server.stop(None)


if __name__ == "__main__":
  main(*sys.argv[1:])
