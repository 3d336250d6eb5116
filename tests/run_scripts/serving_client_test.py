"""run_scripts/serving_client.py: files and REST; gRPC is in tests/serving/export_test.py, where a server runs."""

import http.server
import io
import json
import socket
import threading

import pytest

from bert_flow_tf.errors import DataError
from run_scripts import serving_client


class Rest(http.server.BaseHTTPRequestHandler):
  """TF Serving's REST form of predict: the score is the number of letters that a pair shares."""

  def do_POST(self):
    asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
    known = self.path in ("/v1/models/bert_flow:predict", "/v1/models/bert_flow/versions/3:predict")
    pairs = [(one["text_a"], one["text_b"]) for one in asked["instances"]]
    answer = {"predictions": [float(len(set(a) & set(b))) for a, b in pairs]}
    if ("", "short") in pairs:
      answer["predictions"].pop()
    body = json.dumps(answer if known else {"error": "Servable not found"}).encode()
    self.send_response(200 if known and asked["signature_name"] == "similarity" else 404)
    self.send_header("Content-Length", str(len(body)))
    self.end_headers()
    self.wfile.write(body)

  def log_message(self, *unused):
    pass


@pytest.fixture(scope="module")
def rest():
  server = http.server.ThreadingHTTPServer(("localhost", 0), Rest)
  threading.Thread(target=server.serve_forever, daemon=True).start()
  yield f"http://localhost:{server.server_port}"
  server.shutdown()


def test_read_pairs(tmp_path, monkeypatch):
  path = tmp_path / "pairs.tsv"
  path.write_bytes("\ufeffone\ttwo\r\n\nthrée\t\t5\n\tx".encode())
  assert serving_client.read_pairs(str(path)) == [("one", "two"), ("thrée", ""), ("", "x")]
  stdin = io.TextIOWrapper(io.BytesIO(b"a\tb\n"))
  monkeypatch.setattr("sys.stdin", stdin)
  assert serving_client.read_pairs("-") == [("a", "b")]


@pytest.mark.parametrize(
  ("content", "message"),
  [(None, "cannot be read"), (b"a\tb\nc\n", "line 2: no tab"), (b"\xff\tb", "expected a UTF-8 TSV file")],
)
def test_bad_files(tmp_path, content, message):
  path = tmp_path / "pairs.tsv"
  if content is not None:
    path.write_bytes(content)
  with pytest.raises(DataError, match=message):
    serving_client.read_pairs(str(path))


def test_rest(rest):
  for version in (None, 3):
    with serving_client.make_client(rest, model_name="bert_flow", version=version) as client:
      assert client.similarities([("abc", "bcd"), ("é", "é"), ("", "")]) == [2.0, 1.0, 0.0]


def test_server_that_does_not_speak_http():
  with socket.create_server(("localhost", 0)) as server:
    threading.Thread(target=lambda: server.accept()[0].sendall(b"\x00\x00\x06\x04 no http\r\n"), daemon=True).start()
    for address in (f"http://localhost:{server.getsockname()[1]}", "http://localhost:85O0"):
      client = serving_client.make_client(address, model_name="bert_flow")
      with pytest.raises(serving_client.ServerError, match=f"--server={address}"):
        client.similarities([("a", "b")])


def test_rest_errors(rest):
  cases = [
    ({"server": rest, "model_name": "other"}, "HTTP 404: .*Servable not found"),
    ({"server": rest, "model_name": "bert_flow", "version": 4}, "HTTP 404"),
    ({"server": "http://localhost:1", "model_name": "bert_flow"}, "refused"),
  ]
  for arguments, message in cases:
    with serving_client.make_client(**arguments) as client, pytest.raises(serving_client.ServerError, match=message):
      client.similarities([("a", "b")])
  with (
    serving_client.make_client(rest, model_name="bert_flow") as client,
    pytest.raises(serving_client.ServerError, match="2 pairs asked"),
  ):
    client.similarities([("a", "b"), ("", "short")])
