"""Data sets in the format of TensorFlow Datasets, and a local server that replaces the web."""

import contextlib
import http.server
import random
import threading

import pytest
import requests


def write_tfds(root, name, version, splits):
  """Writes a data set such as "glue/stsb", {split: [example]}, in the format of TFDS, with shuffled records."""
  import tensorflow as tf
  import tensorflow_datasets as tfds

  folder = root / name / version
  folder.mkdir(parents=True)
  features = tfds.builder(name, data_dir=root).info.features
  first = name.split("/")[0]
  template = tfds.core.ShardedFileTemplate(
    data_dir=folder,
    dataset_name=first,
    filetype_suffix="tfrecord",
    template="{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}",
  )
  infos = []
  for split, rows in splits.items():
    rows = random.Random(0).sample(rows, len(rows))
    with tf.io.TFRecordWriter(str(folder / f"{first}-{split}.tfrecord-00000-of-00001")) as writer:
      for row in rows:
        writer.write(features.serialize_example(features.encode_example(row)))
    infos.append(tfds.core.SplitInfo(name=split, shard_lengths=[len(rows)], num_bytes=0, filename_template=template))
  tfds.folder_dataset.write_metadata(data_dir=folder, features=features, split_infos=infos, version=version)
  return root


def need_preparation():
  """Skips the calling test if TFDS cannot prepare a data set: 4.9.10 does not declare a package that it needs."""
  pytest.importorskip("importlib_resources")


def cut_network(monkeypatch):
  """Makes each request fail immediately."""

  def get(url, **_):
    raise requests.ConnectionError(f"HTTPSConnectionPool: {url}")

  monkeypatch.setattr(requests, "get", get)


class _Handler(http.server.BaseHTTPRequestHandler):
  def do_GET(self):
    self.server.requested.append(self.path)
    content = self.server.content.get(self.path)
    self.send_response(404 if content is None else 200)
    self.send_header("Content-Length", str(len(content or b"")))
    self.end_headers()
    # `prepared` closes the connection after the header.
    try:
      self.wfile.write(content or b"")
    except OSError:
      self.close_connection = True

  def log_message(self, *_):
    pass


@contextlib.contextmanager
def serve(monkeypatch):
  """Yields a local HTTP server with `content` {path: bytes}, the `requested` paths and its `address`."""
  with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
    server.content, server.requested = {}, []
    server.address = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    yield server
    server.shutdown()
