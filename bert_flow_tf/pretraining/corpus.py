"""The text of a pre-training: sentences, vocabulary, token ids."""

import hashlib
import json
import os
import pathlib

import numpy as np
from absl import logging

from bert_flow_tf.data.lines import lines
from bert_flow_tf.encoder.tokenizer import SentenceTokenizer
from bert_flow_tf.errors import ConfigError, DataError, naming
from bert_flow_tf.io import files
from bert_flow_tf.pretraining import vocabulary
from bert_flow_tf.pretraining.settings import PretrainingSettings
from bert_flow_tf.progress import Progress, counted

CHECKPOINTS = "checkpoints"
_VOCABULARY_FILE = "vocabulary.json"
_TOKENIZED_AT_ONCE = 16384


@naming("corpus")
def read_corpus(path: str) -> tuple[list[str], str]:
  """Reads a text of one sentence a line, without its blank lines.

  Returns:
    The sentences, and the hexadecimal sha256 of their text.

  Raises:
    DataError: the file cannot be read, or has no sentence.
  """
  sentences = [line for _, line in lines(os.path.expanduser(path), empty="skip") if line.strip()]
  if not sentences:
    raise DataError(f"corpus={path}: the file has no sentence", argument="corpus")
  digest = hashlib.sha256()
  for sentence in sentences:
    digest.update(f"{sentence}\n".encode())
  logging.info("%s: %s", path, counted(len(sentences), "sentence"))
  return sentences, digest.hexdigest()


def make_vocabulary(
  folder: pathlib.Path, settings: PretrainingSettings, sentences: list[str], checksum: str
) -> list[str]:
  """Returns the word pieces: those that an earlier run saved in the folder, or new ones, which it saves.

  Args:
    folder: folder of the training.
    settings: the settings.
    sentences: the text.
    checksum: sha256 of the text.

  Raises:
    ConfigError: the folder is another training's, or vocab_size is too small.
    DataError: vocab_file cannot be read.
  """
  path = folder / _VOCABULARY_FILE
  source = None if settings.vocab_file is None else os.path.expanduser(settings.vocab_file)
  identity = {
    "corpus_sha256": checksum,
    "vocab_size": settings.vocab_size,
    "do_lower_case": settings.do_lower_case,
    "vocab_file_sha256": None,
  }
  if source is not None:
    pieces = vocabulary.read_vocabulary(source)
    identity["vocab_file_sha256"] = hashlib.sha256("\n".join(pieces).encode()).hexdigest()
  if path.exists():
    pieces, differing = _read_saved(path, identity)
    if not differing:
      return pieces
    if (folder / CHECKPOINTS).exists():
      raise ConfigError(
        f"output_dir={folder}: the folder belongs to another training ({differing}); choose another folder, or remove "
        "this one",
        argument="output_dir",
      )
  if source is None:
    pieces = vocabulary.build_vocabulary(sentences, settings.vocab_size, settings.do_lower_case)
  else:
    pieces = vocabulary.choose_vocabulary(source, sentences, settings.vocab_size, settings.do_lower_case)
  files.write_text(path, json.dumps({**identity, "pieces": pieces}) + "\n")
  return pieces


def _read_saved(path, identity):
  """Returns the saved pieces, and the first difference from the identity, or None."""
  try:
    saved = files.read_json(path)
    pieces = saved.pop("pieces")
    differing = [
      f"{key} {saved[key]} in the folder, {identity[key]} now" for key in identity if saved[key] != identity[key]
    ]
  except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
    raise ConfigError(
      f"output_dir={path.parent}: {path.name} is damaged ({error!r}); remove the folder", argument="output_dir"
    ) from error
  return pieces, next(iter(differing), None)


def tokenize(
  folder: pathlib.Path, settings: PretrainingSettings, pieces: list[str], sentences: list[str]
) -> tuple[list[np.ndarray], SentenceTokenizer]:
  """Writes vocab.txt and tokenizes the sentences.

  Returns:
    The token ids of each sentence that has any, int32 [seq_len] with [CLS] and [SEP], and the tokenizer.

  Raises:
    ConfigError: the sentences are fewer than a batch.
  """
  path = folder / "vocab.txt"
  files.write_text(path, "".join(f"{piece}\n" for piece in pieces))
  tokenizer = SentenceTokenizer(path, settings.do_lower_case)
  ids = []
  with Progress(len(sentences), what="tokenizing") as progress:
    for start in range(0, len(sentences), _TOKENIZED_AT_ONCE):
      chunk = sentences[start : start + _TOKENIZED_AT_ONCE]
      ids += [row for row in tokenizer(chunk, settings.max_seq_length) if len(row) > 2]
      progress.update(len(chunk))
  if len(ids) < settings.train_batch_size:
    raise ConfigError(
      f"train_batch_size={settings.train_batch_size}: expected at most the number of sentences, {len(ids)}",
      argument="train_batch_size",
    )
  return ids, tokenizer
