"""A run in one process: each record once, also after interruptions, with one version of the packages that tokenize."""

import importlib.metadata
import os
import pickle
import re
import sys

import numpy as np
import pytest

from bert_flow_tf import SentenceEncoder, SentenceModel
from bert_flow_tf.corpus import embedding
from bert_flow_tf.corpus.embedding import pending, run_streaming
from bert_flow_tf.corpus.job import EmbeddingJob, JobSettings
from bert_flow_tf.corpus.models import embedder_of
from bert_flow_tf.data.files.input_format import InputFormat
from bert_flow_tf.errors import ConfigError, EncoderError
from bert_flow_tf.vectors.shards import add_counters
from tests.corpus import toy
from tests.encoder import tiny
from tests.testing import rejected

FORMAT = InputFormat()


def counters_of(plan, folder):
  left, done = pending(plan, folder)
  assert not left
  return add_counters(done.values())


def test_normalized_vectors_and_their_folder(tmp_path):
  (tmp_path / "corpus.txt").write_text("a\nb\n")
  arguments = {"input": (str(tmp_path / "corpus.txt"),), "output_dir": str(tmp_path / "out")}
  EmbeddingJob(JobSettings(**arguments, normalize=True)).run(toy.EMBEDDER)
  _, vectors = toy.read_npy(tmp_path / "out")
  a, b = (toy.vector(sentence).astype(np.float64) for sentence in "ab")
  np.testing.assert_allclose(vectors, [a / np.linalg.norm(a), b / np.linalg.norm(b)], rtol=1e-6)
  with rejected(ConfigError, "output_dir", match="normalize"):
    EmbeddingJob(JobSettings(**arguments)).run(toy.EMBEDDER)


def test_ids_that_repeat_are_counted(tmp_path, caplog):
  """In a shard, over shards and files, in a run that resumes, and not where records are numbered."""
  (tmp_path / "a.csv").write_text("id,text\n7,a\n8,b\n,c\n")
  (tmp_path / "b.csv").write_text("id,text\n9,d\n7,e\n8,f\n7,g\n10,\n10,h\n")
  files = {"input": (str(tmp_path / "a.csv"), str(tmp_path / "b.csv")), "shard_size": 2}
  for output, id_column in [("ids", "id"), ("ids", "id"), ("numbers", None)]:
    caplog.clear()
    settings = JobSettings(**files, output_dir=str(tmp_path / output), column="text", id_column=id_column)
    EmbeddingJob(settings).run(toy.EMBEDDER)
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == 1 and ("ids that repeat" in warnings[0]) == (id_column is not None)
    assert ("the column id is not used" in warnings[0]) == (id_column is None)
  assert toy.read_npy(tmp_path / "ids")[0].count("7") == 3
  caplog.clear()
  job = EmbeddingJob(JobSettings(**files, output_dir=str(tmp_path / "ids"), column="text", id_column="id"))
  job.run(toy.EMBEDDER)
  assert re.search(r"id_column=id: .* 2, in 5 of 9 records, such as '7'", caplog.text)


def test_other_input_is_named(tmp_path):
  """Also where the number of files is the same."""
  for name in "abc":
    (tmp_path / name).write_text("a\n")

  def run(*names):
    files = tuple(str(tmp_path / name) for name in names)
    EmbeddingJob(JobSettings(input=files, output_dir=str(tmp_path / "out"))).run(toy.EMBEDDER)

  run("a", "b")
  for names, text in [
    ("ac", "without .*/b and with .*/c;"),
    ("a", "without .*/b;"),
    ("abc", "now with .*/c;"),
    ("ba", "order"),
  ]:
    with rejected(ConfigError, "output_dir", match=text):
      run(*names)


def test_a_run_resumes(tmp_path):
  sentences = [f"sentence {i}" for i in range(95)]
  plan, folder = toy.corpus(tmp_path, sentences)
  seen = []

  def stop_at_43(texts):
    seen.extend(texts)
    if "sentence 43" in texts:
      raise KeyboardInterrupt

  with pytest.raises(KeyboardInterrupt):
    run_streaming(plan, folder, FORMAT, toy.Model(stop_at_43), toy.SETTINGS)
  assert len(pending(plan, folder)[1]) == 4
  os.truncate(os.path.join(folder.folder, folder.name(1, "npy")), 50)
  before = {name: os.stat(os.path.join(folder.folder, name)).st_mtime_ns for name in os.listdir(folder.folder)}
  again = []
  run_streaming(plan, folder, FORMAT, toy.Model(again.extend), toy.SETTINGS)
  assert again == sentences[10:20] + sentences[40:]
  after = {name: os.stat(os.path.join(folder.folder, name)).st_mtime_ns for name in os.listdir(folder.folder)}
  finished = [name for name in before if "00001-of" not in name]
  assert len(finished) == 12 and all(before[name] == after[name] for name in finished)
  np.testing.assert_array_equal(toy.read_npy(folder.folder)[1], [toy.vector(sentence) for sentence in sentences])


def test_a_sentence_without_a_vector_is_a_bad_record(tmp_path, monkeypatch):
  monkeypatch.setattr(embedding, "WINDOW", 8)
  sentences = [f"sentence {i}" for i in range(95)]
  for row in (0, 17, 18, 94):
    sentences[row] = "no vector"
  plan, folder = toy.corpus(tmp_path, sentences, shard_records=50)
  run_streaming(plan, folder, FORMAT, toy.Model(), toy.SETTINGS)
  ids, vectors = toy.read_npy(folder.folder)
  assert ids == [str(i) for i in range(1, 96) if i not in (1, 18, 19, 95)]
  np.testing.assert_array_equal(vectors, [toy.vector(sentences[int(name) - 1]) for name in ids])
  assert counters_of(plan, folder)["bad (no vector)"] == 4
  keys = [line for path in sorted(tmp_path.glob("out/*.unread.txt")) for line in path.read_text().splitlines()]
  assert len(set(keys)) == len(keys) == len(ids)  # each sentence has another number
  letters = [line for path in sorted(tmp_path.glob("out/dead-letter-*")) for line in path.read_text().splitlines()]
  assert [line.split("\t")[1:3] for line in letters] == [[line, "no vector"] for line in ("1", "18", "19", "95")]
  assert "its embedding is not finite" in letters[0]


def test_a_model_that_fails_stops_the_run(tmp_path):
  plan, folder = toy.corpus(tmp_path, ["no vector"] * 100, shard_records=100)
  with pytest.raises(EncoderError, match="not finite"):
    run_streaming(plan, folder, FORMAT, toy.Model(), toy.SETTINGS)
  assert os.listdir(folder.folder) == []


def test_another_version_is_rejected(tmp_path, monkeypatch):
  package = "tokenizers"
  (tmp_path / "corpus.txt").write_text("a dog\na cat\n")
  encoder = SentenceEncoder.from_pretrained(str(tiny.save_tiny(tmp_path / "model")))
  model = SentenceModel(encoder, max_seq_length=9)
  load = pickle.dumps(embedder_of(model).load)

  def run():
    settings = JobSettings(input=(str(tmp_path / "corpus.txt"),), output_dir=str(tmp_path / "out"))
    return EmbeddingJob(settings).run(embedder_of(model))

  assert (run().records, run().records) == (2, 0)
  installed = importlib.metadata.version
  monkeypatch.setattr(importlib.metadata, "version", lambda name: "9.8.7" if name == package else installed(name))
  with rejected(ConfigError, "output_dir", match=package):
    run()
  with pytest.raises(EncoderError, match=package):
    pickle.loads(load)()


def test_parquet_needs_pyarrow(tmp_path, monkeypatch):
  monkeypatch.setitem(sys.modules, "pyarrow", None)
  for name in ("a.parquet", "a.txt"):
    (tmp_path / name).write_text("one\n")
  wrong = {"input": {"input": (f"{tmp_path}/a.parquet",), "column": "text"}}
  wrong["output_format"] = {"input": (f"{tmp_path}/a.txt",), "output_format": "parquet"}
  for argument, settings in wrong.items():
    with rejected(ConfigError, argument, match="pyarrow"):
      EmbeddingJob(JobSettings(output_dir=f"{tmp_path}/out", **settings))
