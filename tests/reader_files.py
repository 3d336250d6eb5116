"""Files that a reader of the pages brings: data sets, encoders, text and vectors; small ones."""

import gzip
import json

import numpy as np

from tests.encoder import tf1_files, tiny
from tests.integrations.senteval_engine_test import PACKAGE
from tests.run_scripts import readme_commands_test, run_convert_test, tiny_data
from tests.testing import REPO

_COMMIT = "1" * 40


def write_hub(folder):
  """Writes a cache of the hub: a BERT with 16 dimensions under the names of Google's base and large."""
  _, pieces, config, weights = _bert()
  for name in ("base", "large"):
    cached = folder / f"models--bert-{name}-uncased"
    (cached / "refs").mkdir(parents=True)
    (cached / "refs/main").write_text(_COMMIT)
    tiny.save_tiny(cached / "snapshots" / _COMMIT, weights, config)
    (cached / "snapshots" / _COMMIT / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces))


def _bert():
  """Returns sentences, and vocabulary, config and weights of a BERT with 16 dimensions that knows them."""
  sentences = [sentence for pair in tiny_data.sentences() for sentence in pair]
  pieces = readme_commands_test.word_pieces(sentences)
  sizes = {"vocab_size": len(pieces), "hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 2}
  config = {**tiny.CONFIG, **sizes, "max_position_embeddings": 64}
  weights = {name: 0.4 * array for name, array in tiny.random_weights(config).items()}
  return sentences, pieces, config, weights


def write(home):
  """Writes the files into a folder that stands for the repository's root, and next to it."""
  sentences = _bert()[0]
  (home / "docs").mkdir()
  glue = home.parent / "glue_data"
  readme_commands_test.write_glue(glue)
  tiny_data.write(glue)
  rows = [[str(i), a, b, ["entailment", "not_entailment"][i % 2]] for i, (a, b) in enumerate(tiny_data.sentences())]
  readme_commands_test.write_table(glue / "QNLI/dev.tsv", ["index", "question", "sentence", "label"], rows)
  readme_commands_test.write_bert(home.parent / "bert_premodels/uncased_L-24_H-1024_A-16", sentences)
  _write_text(home, sentences)
  _write_vectors(home)
  _write_tf1(home)
  senteval = home / "SentEval"
  (senteval / "senteval").mkdir(parents=True)
  for name, text in {"__init__.py": "", "sts.py": "import numpy as np\n", "engine.py": PACKAGE}.items():
    (senteval / "senteval" / name).write_text(text)
  (senteval / "data").mkdir()
  (senteval / "data/downstream").symlink_to(glue)


def _write_text(home, sentences):
  """Writes sentences a line, pairs, a table and word vectors."""
  lines = "".join(f"{sentence}\n" for sentence in sentences)
  (home / "corpus").mkdir()
  for name in ("corpus/one.txt", "mine.txt"):
    (home / name).write_text(lines)
  for name, text in {
    "corpus.txt.gz": 5 * lines,
    "wiki.txt.gz": lines,
    "rows-1.tsv.gz": "key\tsentence\n" + "".join(f"{i}\t{sentence}\n" for i, sentence in enumerate(sentences)),
  }.items():
    (home / name).write_bytes(gzip.compress(text.encode()))
  rows = [json.dumps({"text": sentence}) + "\n" for sentence in sentences]
  (home / "part-1.jsonl").write_text("".join(rows))
  (home / "pairs.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in tiny_data.sentences()[:3]))
  (home / "small.json").write_text('{"n_levels": 1, "depth": 1, "coupling_width": 4}')
  (home / "vocab.txt").write_text((REPO / "bert_flow_tf/encoder/pretrained/mini/vocab.txt").read_text())
  words = sorted({word for line in sentences for word in line.lower().split()})
  rows = np.random.default_rng(1).normal(size=[len(words), 300])
  glove = "".join(f"{word} {' '.join(map(str, row.round(3)))}\n" for word, row in zip(words, rows, strict=True))
  (home / "glove.840B.300d.txt").write_text(glove)


def _write_vectors(home):
  rng = np.random.default_rng(0)
  for name in ("a", "b", "words", "last"):
    np.save(home / f"{name}.npy", rng.normal(size=[600, 8]).astype(np.float32))


def _write_tf1(home):
  """Writes a checkpoint of the original's with a flow, and the files of its BERT."""
  sizes = {"num_hidden_layers": 2, "max_position_embeddings": 64}
  encoder = tf1_files.google_variables(tiny.random_weights(tiny.CONFIG | sizes))
  tf1_files.write_google(home / "uncased_L-12_H-768_A-12", encoder, tf1_files.GOOGLE_CONFIG | sizes)
  variables = {**encoder, **run_convert_test.flow_variables("flow"), **run_convert_test.classifier()}
  tf1_files.write_quickly(home / "exp/model.ckpt-1000", variables)
