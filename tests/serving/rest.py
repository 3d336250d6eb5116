"""TensorFlow Serving's REST interface in the row format, around a function that answers."""

import http.server
import json
import threading


class _Server(http.server.ThreadingHTTPServer):
  """A server that listens at a reserved port, too."""

  allow_reuse_port = True


class Rest(http.server.BaseHTTPRequestHandler):
  """Predict requests: {"signature_name": ..., "instances": [...]}."""

  def do_POST(self):
    """Answers a request for a model."""
    request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
    status, answer = 404, {"error": f"Servable not found for request: {self.path}"}
    if self.path in self.server.paths:
      status, answer = 200, {"predictions": self.server.predict(**request)}
    body = (json.dumps(answer, indent=4, sort_keys=True) + "\n").encode()
    self.send_response(status)
    self.send_header("Content-Type", "application/json")
    self.send_header("Content-Length", str(len(body)))
    self.end_headers()
    self.wfile.write(body)

  def log_message(self, *unused):
    """Logs nothing."""


def serve(predict, paths, port=0):
  """Starts a server of models at some paths, `predict` (instances, signature_name) -> predictions; returns it."""
  server = _Server(("localhost", port), Rest)
  server.predict, server.paths = predict, paths
  threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
  return server
