"""Files of object stores."""

import fsspec
import numpy as np
import pytest

from bert_flow_tf.corpus.embedding import pending, run_streaming
from bert_flow_tf.corpus.index import changed_input, find_inputs
from bert_flow_tf.corpus.readers import InputFormat
from bert_flow_tf.corpus.shards import Manifest, ShardFolder
from bert_flow_tf.errors import ConfigError
from tests.corpus import toy

FORMAT = InputFormat()


def test_an_object_store(tmp_path):
  """fsspec's store in memory: input, output, manifest, restart."""
  store = fsspec.filesystem("memory")
  store.pipe({"/in/b.txt": b"one\ntwo\n", "/in/a.txt": b"three\n"})
  paths = find_inputs(["memory://in/*.txt"])
  assert paths == ["memory:///in/a.txt", "memory:///in/b.txt"]
  manifest = Manifest("memory://out", {"dim": toy.DIM})
  folder = ShardFolder("memory://out", 2, "npy", toy.DIM)
  for _ in range(2):
    with manifest.lock():
      index = manifest.begin(paths, FORMAT, 2, 1 << 20)
      run_streaming(index, folder, FORMAT, toy.Model(), toy.SETTINGS)
    manifest.write(index, {})
    store.pipe(f"/out/{folder.name(1, 'npy')}", b"cut")
  assert changed_input(index.inputs) is None and len(pending(index, folder)[0]) == 1
  assert folder.finished(0) is not None and folder.finished(1) is None
  run_streaming(index, folder, FORMAT, toy.Model(), toy.SETTINGS)
  store.get("/out", str(tmp_path / "out"), recursive=True)
  ids, vectors = toy.read_npy(tmp_path / "out")
  assert ids == ["0", "1", "2"]
  np.testing.assert_array_equal(vectors, [toy.vector(sentence) for sentence in ("three", "one", "two")])
  store.pipe("/in/a.txt", b"seven\n")
  assert changed_input(index.inputs) == paths[0]
  for path in ("no-such-scheme://a/*", "s3://bucket/*"):
    with pytest.raises(ConfigError, match=path.partition("*")[0]):
      find_inputs([path])
