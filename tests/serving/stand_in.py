"""A model server for the commands of the pages: gRPC as `prediction_service`, and TensorFlow Serving's REST format.

    python -m tests.serving.stand_in BASE NAME GRPC_PORT REST_PORT

serves the newest version in BASE, prints a line when it is ready, and ends with its standard input.
"""

import http.server
import json
import os
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import prediction_service
import tensorflow_text  # noqa: F401 (its ops)


class Rest(http.server.BaseHTTPRequestHandler):
  """Predict requests in the row format: {"signature_name": ..., "instances": [...]}."""

  def do_POST(self):
    """Answers a request for the model."""
    request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
    if self.path == f"/v1/models/{self.server.model_name}:predict":
      self._send(200, {"predictions": self._predict(**request)})
    else:
      self._send(404, {"error": f"Servable not found for request: {self.path}"})

  def _predict(self, instances, signature_name="serving_default"):
    expected = self.server.model.signatures[signature_name].inputs
    rows = [row if isinstance(row, dict) else dict.fromkeys(expected, row) for row in instances]
    inputs = {}
    for name in expected:
      column = [row[name] for row in rows]
      inputs[name] = [text.encode() for text in column] if isinstance(column[0], str) else column
    outputs = {name: array.tolist() for name, array in self.server.model.run(signature_name, inputs).items()}
    if len(outputs) == 1:
      return next(iter(outputs.values()))
    return [dict(zip(outputs, row, strict=True)) for row in zip(*outputs.values(), strict=True)]

  def _send(self, status, answer):
    body = (json.dumps(answer, indent=4, sort_keys=True) + "\n").encode()
    self.send_response(status)
    self.send_header("Content-Type", "application/json")
    self.send_header("Content-Length", str(len(body)))
    self.end_headers()
    self.wfile.write(body)

  def log_message(self, *unused):
    """Logs nothing."""


def main(base, name, grpc_port, rest_port):
  """Runs the server; see the module's docstring."""
  grpc_server, _, service = prediction_service.serve(base, name, port=grpc_port)
  rest = http.server.ThreadingHTTPServer(("localhost", int(rest_port)), Rest)
  rest.model_name, rest.model = name, service.models[max(service.models)]
  threading.Thread(target=rest.serve_forever, daemon=True).start()
  print("ready", flush=True)
  sys.stdin.read()
  rest.shutdown()
  grpc_server.stop(None)


if __name__ == "__main__":
  main(*sys.argv[1:])
