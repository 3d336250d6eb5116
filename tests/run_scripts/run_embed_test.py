"""run_scripts/run_embed.py with right and wrong command lines."""

import gzip
import importlib.util
import json
import re
import sys

import numpy as np
import pytest
import tensorflow as tf

from bert_flow_tf.calibration.saving import load_calibration
from tests.corpus.toy import read_npy
from tests.encoder.checkpoints import keras_hub_test
from tests.encoder.tiny import random_weights, save_tiny
from tests.run_scripts.command_lines import check_rejected, check_succeeded, run_all

pytestmark = pytest.mark.slow
RUNNER = "embed"
HAS_PARQUET = importlib.util.find_spec("pyarrow") is not None
SENTENCES = [" ".join(words) for words in zip("abdogcat" * 40, ["dog", "cats", "Dog.", "a b"] * 80, strict=True)]
POOLING = {"sentence_embedding_type": "avg-top-2", "max_seq_length": 9}
LOW_DIM = 2


def prepare(folder):
  import bert_flow_tf
  from bert_flow_tf.calibration.names import make_calibration

  sys.modules["apache_beam"] = None  # as if it were not installed
  save_tiny(folder / "model")
  arrays = keras_hub_test.arrays_of("BertBackbone", keras_hub_test.reference("BertBackbone"))
  keras_hub_test.write_preset(folder / "preset", "BertBackbone", arrays, tokenizer=False)
  save_tiny(folder / "other", random_weights(seed=1))
  encoder = bert_flow_tf.SentenceEncoder.from_pretrained(folder / "model")
  calibration = make_calibration("whitening-4").fit(encoder.encode(SENTENCES, **POOLING))
  calibration.encoder = encoder.identity(**POOLING, low_dim=LOW_DIM).to_dict()
  calibration.save(folder / "whitening")

  (folder / "plain.txt").write_text("".join(f"{sentence}\n" for sentence in SENTENCES))
  (folder / "empty.txt").write_text("")
  (folder / "packed.txt.gz").write_bytes(gzip.compress(b"a dog\n\nb\xff cat\na cat\n" + b"a" * 2000 + b"\n"))
  (folder / "cut.txt.gz").write_bytes(gzip.compress((folder / "plain.txt").read_bytes())[:-20])
  rows = "".join(f"{number}\tx\t{sentence}\n" for number, sentence in enumerate(SENTENCES))
  (folder / "rows.tsv").write_text("key\tmore\tsentence\n" + rows)
  (folder / "rows.csv").write_text("key,sentence\n" + "".join(f'{i},"{text}"\n' for i, text in enumerate(SENTENCES)))
  (folder / "rows.jsonl").write_text('{"sentence": "a dog", "key": 1}\n')
  (folder / "pairs.tsv").write_text("a dog\ta cat\n")
  for name in ("rows.parquet", "rows.tfrecord"):
    (folder / name).write_bytes(b"")

  class Lengths(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")])
    def embed(self, text):
      length = tf.cast(tf.strings.length(text), tf.float32)
      return {"embedding": tf.stack([length, length + 1], axis=1)}

  module = Lengths()
  tf.saved_model.save(module, str(folder / "saved/3"), {"serving_default": module.embed})
  tf.saved_model.save(tf.Module(), str(folder / "unsigned"))


def right(folder):
  """The tiny encoder has 16 positions, fewer than the flag's default asks for."""
  model, text = [f"--model={folder}/model", "--max_seq_length=9"], f"--input={folder}/plain.txt"
  flow = [f"--flow_folder={folder}/whitening", "--column=sentence", "--id_column=key"]
  packed = f"--input={folder}/packed.txt.gz,{folder}/empty.txt"
  lines = {
    "plain": [*model, text, "--shard_size=100", "--predict_batch_size=7"],
    "again": [*model, text, "--shard_size=100", f"--output_dir={folder}/plain"],
    "tsv": [*flow, f"--input={folder}/rows.tsv"],
    "csv": [flow[0], "--id_column=key", f"--input={folder}/rows.csv", "--output_format=jsonl", "--shard_size=50"],
    "tfrecord": [*flow, f"--input={folder}/rows.tsv", "--output_format=tfrecord", "--shard_size=50"],
    "bad records": [*model, packed, "--max_record_bytes=1000"],
    "vocabulary": [f"--model={folder}/preset", f"--vocab_file={folder}/model/vocab.txt", text, "--max_seq_length=9"],
    "saved model": [f"--saved_model={folder}/saved/3", text, "--predict_batch_size=9"],
    "same model": [f"--model=saved_model:{folder}/saved/3", text, f"--output_dir={folder}/saved model"],
    "whole name": [f"--saved_model=saved_model:{folder}/saved/3", text, f"--output_dir={folder}/saved model"],
  }
  if HAS_PARQUET:
    lines["parquet"] = [*flow, f"--input={folder}/rows.csv", "--output_format=parquet", "--shard_size=50"]
  return {name: [f"--output_dir={folder}/{name}", *flags] for name, flags in lines.items()}


def always(folder):
  return [f"--output_dir={folder}/refused"]


def finish(folder):
  import bert_flow_tf
  from run_scripts import run_embed

  encoder = bert_flow_tf.SentenceEncoder.from_pretrained(folder / "model")
  plain, pooled = encoder.encode(SENTENCES, max_seq_length=9), encoder.encode(SENTENCES, **POOLING)
  preset = bert_flow_tf.SentenceEncoder.from_pretrained(folder / "preset", vocab_file=folder / "model/vocab.txt")
  np.savez(folder / "expected.npz", plain=plain, pooled=pooled, preset=preset.encode(SENTENCES, max_seq_length=9))
  (folder / "latin.txt").write_bytes(b"\xe9\n\n")
  paths = [f"--model={folder}/model", f"--input={folder}/latin.txt", f"--output_dir={folder}/latin"]
  return run_all(run_embed.main, {"nothing": [*paths, "--max_seq_length=9", "--input_format=text"]})


@pytest.fixture(scope="module")
def expected(ran):
  """Returns the embeddings without and with the calibration."""
  with np.load(ran[0] / "expected.npz") as archive:
    plain, pooled, preset = archive["plain"], archive["pooled"], archive["preset"]
  whitened = load_calibration(ran[0] / "whitening").transform(pooled)
  return {"plain": plain, "preset": preset, "whitened": whitened.reshape(len(whitened), LOW_DIM, -1).mean(axis=2)}


def test_command_lines(ran):
  check_succeeded(ran, right)
  check_rejected(ran, RUNNER)
  assert not (ran[0] / "refused").exists()


def test_text_to_npy(ran, expected):
  folder, found = ran
  ids, vectors = read_npy(folder / "plain")
  assert ids == [str(i) for i in range(1, len(SENTENCES) + 1)]
  np.testing.assert_allclose(vectors, expected["plain"], atol=1e-5)
  assert len(list((folder / "plain").glob("shard-*-of-00004.npy"))) == 4
  assert re.search(r"^ +embedded +320$", found["plain"]["stdout"], re.MULTILINE)
  assert "records per second" in found["plain"]["stdout"] and "per second" not in found["again"]["stdout"]
  manifest = json.loads((folder / "plain/manifest.json").read_text())
  assert manifest["complete"] and manifest["counters"] == {"read": 320, "embedded": 320, "skipped (empty)": 0, "bad": 0}


def test_tsv_with_a_calibration_that_names_the_encoder(ran, expected):
  ids, vectors = read_npy(ran[0] / "tsv")
  assert ids == [str(i) for i in range(len(SENTENCES))]
  np.testing.assert_allclose(vectors, expected["whitened"], atol=1e-4)


def test_csv_to_json_lines(ran, expected):
  paths = sorted((ran[0] / "csv").glob("shard-*.jsonl"))
  rows = [json.loads(line) for path in paths for line in path.read_text().splitlines()]
  assert len(paths) == 7 and [row["id"] for row in rows] == [str(i) for i in range(len(SENTENCES))]
  np.testing.assert_allclose([row["embedding"] for row in rows], expected["whitened"], atol=1e-4)


@pytest.mark.skipif(not HAS_PARQUET, reason="pyarrow is not installed")
def test_csv_to_parquet(ran, expected):
  from pyarrow import parquet

  paths = sorted((ran[0] / "parquet").glob("shard-*.parquet"))
  table = parquet.read_table(paths)
  assert len(paths) == 7 and table["id"].to_pylist() == [str(i) for i in range(len(SENTENCES))]
  assert str(table.schema.field("embedding").type) == "fixed_size_list<element: float>[2]"
  np.testing.assert_allclose(table["embedding"].to_pylist(), expected["whitened"], atol=1e-4)


def test_tsv_to_tfrecord(ran, expected):
  spec = {"id": tf.io.FixedLenFeature([], tf.string), "embedding": tf.io.FixedLenFeature([2], tf.float32)}
  paths = sorted(str(path) for path in (ran[0] / "tfrecord").glob("shard-*.tfrecord"))
  found = [tf.io.parse_single_example(record, spec) for record in tf.data.TFRecordDataset(paths)]
  assert len(paths) == 7 and [one["id"].numpy() for one in found] == [b"%d" % i for i in range(len(SENTENCES))]
  np.testing.assert_allclose([one["embedding"].numpy() for one in found], expected["whitened"], atol=1e-4)


def test_bad_records(ran):
  folder, found = ran
  ids, vectors = read_npy(folder / "bad records")
  assert ids == ["1", "4"] and vectors.shape == (2, 12)
  lines = (folder / "bad records/dead-letter-00000-of-00001.tsv").read_text().splitlines()
  assert [line.split("\t")[1:3] for line in lines] == [["3", "not UTF-8"], ["5", "too long"]]
  out = found["bad records"]["stdout"]
  assert all(
    re.search(rf"^ +{re.escape(name)} +1$", out, re.MULTILINE) for name in ("skipped (empty)", "bad (too long)")
  )
  assert "dead-letter-*" in out
  # No record is a sentence.
  nothing = found["nothing"]
  assert nothing["status"] == 1 and (folder / "latin/dead-letter-00000-of-00001.tsv").exists()
  assert "latin.txt: no record was embedded (2 read, 1 bad, 1 empty)" in nothing["stderr"].splitlines()[-1]
  assert f"bad (not UTF-8): {folder}/latin/dead-letter-*.tsv has file" in nothing["stderr"].splitlines()[-1]


def test_a_preset_without_a_tokenizer(ran, expected):
  np.testing.assert_allclose(read_npy(ran[0] / "vocabulary")[1], expected["preset"], atol=1e-5)


def test_a_saved_model(ran):
  """Both names of the flag make the same folder, which a second run resumes."""
  assert "per second" in ran[1]["saved model"]["stdout"]
  for name in ("same model", "whole name"):
    assert "per second" not in ran[1][name]["stdout"]
  vectors = read_npy(ran[0] / "saved model")[1]
  np.testing.assert_array_equal(vectors, [[len(sentence), len(sentence) + 1] for sentence in SENTENCES])
