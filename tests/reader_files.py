"""Files that a reader of the pages brings: data sets, encoders, text and vectors; small ones."""

import gzip
import json

import numpy as np

from tests.encoder import tiny
from tests.encoder.checkpoints import tf1_files
from tests.integrations import senteval_checkout
from tests.run_scripts import run_convert_test, tiny_data
from tests.testing import REPO, hub_folder

_LABELS = ("neutral", "contradiction", "entailment")


def write_hub(folder):
  """Writes a cache of the hub: a BERT with 16 dimensions under the names of Google's base and large."""
  _, pieces, sizes, weights = _bert()
  for name in ("base", "large"):
    cached = tiny.save_tiny(hub_folder(folder, f"bert-{name}-uncased", "main"), weights, tiny.CONFIG | sizes)
    (cached / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces))


def _bert():
  """Returns sentences, and vocabulary, sizes and weights of a BERT with 16 dimensions that knows them."""
  sentences = [sentence for pair in tiny_data.sentences() for sentence in pair]
  pieces = _word_pieces(sentences)
  sizes = {"vocab_size": len(pieces), "hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 2}
  sizes["max_position_embeddings"] = 64
  weights = {name: 0.4 * array for name, array in tiny.random_weights(tiny.CONFIG | sizes).items()}
  return sentences, pieces, sizes, weights


def write(home):
  """Writes the files into a folder that stands for the repository's root, and next to it."""
  sentences, pieces, sizes, weights = _bert()
  (home / "docs").mkdir()
  glue = home.parent / "glue_data"
  _write_glue(glue)
  tiny_data.write(glue)
  rows = [[str(i), a, b, ["entailment", "not_entailment"][i % 2]] for i, (a, b) in enumerate(tiny_data.sentences())]
  _write_table(glue / "QNLI/dev.tsv", ["index", "question", "sentence", "label"], rows)
  google = tf1_files.google_variables(weights)
  folder = home.parent / "bert_premodels/uncased_L-24_H-1024_A-16"
  tf1_files.write_google(folder, google, tf1_files.GOOGLE_CONFIG | sizes, pieces)
  _write_text(home, sentences)
  _write_vectors(home)
  _write_tf1(home)
  senteval_checkout.write(home / "SentEval", glue)


def _rows(seed):
  """Returns pairs (score 1 to 5, first sentence, second sentence)."""
  return tiny_data.scored(50, seed) + tiny_data.scored(46, seed + 10)


def _write_table(path, header, lines):
  path.parent.mkdir(parents=True, exist_ok=True)
  path.write_text("".join("\t".join(cells) + "\n" for cells in (header, *lines)), encoding="utf-8")


def _write_glue(folder):
  """Writes STS-B, MNLI and SNLI in GLUE's layout."""
  for seed, split in enumerate(("train", "dev", "test")):
    pairs = _rows(seed)
    stsb = ["index", "genre", "filename", "year", "old_index", "source1", "source2", "sentence1", "sentence2", "score"]
    cells = [[str(i), *["-"] * 6, a, b, score] for i, (score, a, b) in enumerate(pairs)]
    columns = 9 if split == "test" else 10
    _write_table(folder / f"STS-B/{split}.tsv", stsb[:columns], [row[:columns] for row in cells])
    mnli = "MNLI/train.tsv" if split == "train" else f"MNLI/{split}_matched.tsv"
    for path, others in ((f"SNLI/{split}.tsv", 6), (mnli, 7)):
      header = ["index", *(f"x{i}" for i in range(others)), "sentence1", "sentence2", "label1", "gold_label"]
      cells = [[str(i), *["-"] * others, a, b, *[_LABELS[i % 3]] * 2] for i, (_, a, b) in enumerate(pairs)]
      _write_table(folder / path, header, cells)
  gold = [["g", "f", "y", "0", score, a, b] for score, a, b in _rows(2)]
  _write_table(folder / "STS-B/sts-test.csv", gold[0], gold[1:])


def _word_pieces(sentences):
  """Returns a vocabulary that has the sentences' letters and 200 words."""
  words = [word for sentence in sentences for word in sentence.lower().replace(".", " ").split()]
  letters = sorted({letter for word in words for letter in word})
  frequent = sorted({*words}, key=words.count)[-200:]
  pieces = [*tiny.VOCABULARY[:5], ".", *letters, *(f"##{letter}" for letter in letters)]
  return pieces + [word for word in frequent if word not in pieces]


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
