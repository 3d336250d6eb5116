"""Runs run_embed with good and wrong command lines, all in one process.

Run as a module with a folder to work in, it prints json: {name of the case: {"status", "stdout", "stderr"}}.
"""

import gzip
import json
import pathlib
import sys

import numpy as np

from tests.encoder.tiny import random_weights, save_tiny
from tests.run_scripts.command_lines import run_all

SENTENCES = [" ".join(words) for words in zip("abdogcat" * 40, ["dog", "cats", "Dog.", "a b"] * 80, strict=True)]
POOLING = {"sentence_embedding_type": "avg-top-2", "max_seq_length": 9}
LOW_DIM = 2


def prepare(folder):
  """Writes the inputs, two encoders, calibrations and a SavedModel."""
  import tensorflow as tf

  import bert_flow_tf
  from bert_flow_tf.calibration.names import make_calibration

  save_tiny(folder / "model")
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
  with tf.io.TFRecordWriter(str(folder / "rows.tfrecord")) as writer:
    for number, sentence in enumerate(SENTENCES):
      features = {
        "sentence": tf.train.Feature(bytes_list=tf.train.BytesList(value=[sentence.encode()])),
        "key": tf.train.Feature(int64_list=tf.train.Int64List(value=[number])),
      }
      writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString(deterministic=True))

  class Lengths(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")])
    def embed(self, text):
      length = tf.cast(tf.strings.length(text), tf.float32)
      return {"embedding": tf.stack([length, length + 1], axis=1)}

  module = Lengths()
  tf.saved_model.save(module, str(folder / "saved/3"), {"serving_default": module.embed})
  tf.saved_model.save(tf.Module(), str(folder / "unsigned"))


def good(folder):
  """Returns {name: flags} that work, in order; the output of each is the folder of its name."""
  model = f"--model={folder}/model"
  return {
    "plain": [model, f"--input={folder}/plain.txt", "--shard_size=100", "--predict_batch_size=7"],
    "again": [model, f"--input={folder}/plain.txt", "--shard_size=100", f"--output_dir={folder}/plain"],
    "tsv": [
      f"--flow_folder={folder}/whitening",
      f"--input={folder}/rows.tsv",
      "--column=sentence",
      "--id_column=key",
    ],
    "tfrecord": [
      f"--flow_folder={folder}/whitening",
      f"--input={folder}/rows.tfrecord",
      "--column=sentence",
      "--id_column=key",
      "--output_format=tfrecord",
      "--shard_size=50",
    ],
    "bad records": [model, f"--input={folder}/packed.txt.gz,{folder}/empty.txt", "--max_record_bytes=1000"],
    "saved model": [f"--saved_model={folder}/saved/3", f"--input={folder}/plain.txt", "--predict_batch_size=9"],
  }


def bad(folder):
  """Returns {name: (flags, part of the error)}."""
  model, text = f"--model={folder}/model", f"--input={folder}/plain.txt"
  flow, tsv = f"--flow_folder={folder}/whitening", f"--input={folder}/rows.tsv"
  return {
    "no input": ([model], "--input"),
    "no output": ([model, text, "--output_dir="], "--output_dir"),
    "no such input": ([model, f"--input={folder}/absent*.txt"], "--input"),
    "an empty input": ([model, f"{text},"], "--input"),
    "no records": ([model, f"--input={folder}/empty.txt"], "error: --input"),
    "gzip cut short": ([model, f"--input={folder}/cut.txt.gz"], "cut.txt.gz"),
    "text as TFRecord": ([model, text, "--input_format=tfrecord", "--column=a"], "plain.txt"),
    "two kinds": ([model, f"{text},{folder}/rows.tsv"], "--input_format"),
    "tsv without a column": ([model, tsv], "--column"),
    "column of text": ([model, text, "--input_format=text", "--column=2"], "--column"),
    "id of text": ([model, text, "--id_column=2"], "--id_column"),
    "header of text": ([model, text, "--noheader"], "--header"),
    "no such column": ([model, tsv, "--column=text"], "rows.tsv, line 1"),
    "column 0": ([model, tsv, "--column=0"], "--column=0"),
    "a name without a header": ([model, tsv, "--column=text", "--noheader"], "--column=text"),
    "header of tfrecord": ([model, f"--input={folder}/rows.tfrecord", "--column=a", "--header"], "--header"),
    "empty column": ([model, tsv, "--column="], "--column"),
    "shard of 0": ([model, text, "--shard_size=0"], "shard_size"),
    "cache": ([model, text, f"--cached_dir={folder}/cache"], "--cached_dir"),
    "unknown model": (["--model=gpt", text], "--model=gpt|gpt"),
    "no such flow": ([f"--flow_folder={folder}/absent", text], "error: --flow_folder"),
    "an empty flow": (["--flow_folder=", text], "--flow_folder"),
    "the flow of another encoder": ([flow, f"--model={folder}/other", text], "weights_sha256"),
    "another pooling": ([flow, "--max_seq_length=10", text], "max_seq_length"),
    "dimensions that do not fit": (
      [flow, "--sentence_embedding_type=concat-top-2", "--allow_other_encoder", text],
      "12 dimensions",
    ),
    "another low_dim": ([flow, "--low_dim=-1", text], "low_dim 2, now None"),
    "no calibration for another encoder": ([model, text, "--allow_other_encoder"], "--allow_other_encoder"),
    "two models": ([model, f"--saved_model={folder}/saved/3", text], "--model"),
    "no SavedModel": ([f"--saved_model={folder}/model", text], "--saved_model"),
    "SavedModel above": ([f"--saved_model={folder}/saved", text], f"{folder}/saved/3"),
    "SavedModel without a signature": ([f"--saved_model={folder}/unsigned", text], "--saved_model"),
    "another run's folder": ([model, text, f"--output_dir={folder}/plain"], "shard_size 100, now 16384"),
    "another model's folder": (
      [f"--model={folder}/other", text, "--shard_size=100", f"--output_dir={folder}/plain"],
      "embedder.weights_sha256",
    ),
    "no output folder": ([model, text, f"--output_dir={folder}/model"], "--output_dir"),
    "output is a file": ([model, text, f"--output_dir={folder}/plain.txt"], "--output_dir"),
    "options without a runner": ([model, text, "--beam_options=direct_num_workers=2"], "--beam_options"),
    "no Beam": ([model, text, "--runner=DirectRunner"], "pip install '.[beam]'"),
    "an object store": ([model, "--input=gs://bucket/*.txt"], "gcsfs"),
  }


def main(folder):
  """Runs every case, without Beam."""
  from run_scripts import run_embed

  folder = pathlib.Path(folder)
  prepare(folder)
  run_embed.define_flags()
  sys.modules["apache_beam"] = None  # as if it were not installed
  lines = {name: [f"--output_dir={folder}/{name}", *flags] for name, flags in good(folder).items()}
  lines |= {name: [f"--output_dir={folder}/refused", *flags] for name, (flags, _) in bad(folder).items()}
  # The tiny encoder has 16 positions, fewer than the flag's default asks for.
  short = ["--max_seq_length=9"]
  lines = {name: [*(short if "--model=" in "".join(flags) else []), *flags] for name, flags in lines.items()}
  found = run_all(run_embed.main, lines)
  import bert_flow_tf

  encoder = bert_flow_tf.SentenceEncoder.from_pretrained(folder / "model")
  np.savez(
    folder / "expected.npz",
    plain=encoder.encode(SENTENCES, max_seq_length=9),
    pooled=encoder.encode(SENTENCES, **POOLING),
  )
  print(json.dumps(found))


if __name__ == "__main__":
  main(sys.argv[1])
