"""The sentences of SNLI and MNLI, "flow (NLI)" in the paper: a corpus to fit a flow on, without gold."""

import os
import pathlib

import numpy as np

from bert_flow_tf.data import tfds_source
from bert_flow_tf.data.custom import read_corpus
from bert_flow_tf.data.lines import count
from bert_flow_tf.data.nli_sets import INCOMPLETE_LINES_ALLOWED, MNLI, SNLI
from bert_flow_tf.data.pairs import SPLITS, SentencePairs
from bert_flow_tf.data.readers import read_table
from bert_flow_tf.data.sources import exists, likely_data_dir
from bert_flow_tf.errors import ConfigError, DataError

# The paper's setting for a flow fitted on these sentences.
LEARNING_RATE = 2e-5
NUM_TRAIN_EPOCHS = 0.15

# As the published code: SNLI's train, dev and test all count as training data, of MNLI the train split alone.
_SETS = ((MNLI, ("train",)), (SNLI, SPLITS))
_PATTERN = "SNLI/{train,dev,test}.tsv and MNLI/train.tsv"


def load_corpus(
  name: str | os.PathLike,
  data_dir: str | os.PathLike | None = None,
  tfds_data_dir: str | os.PathLike | None = None,
) -> tuple[SentencePairs, str]:
  """Loads a corpus for fitting alone.

  Args:
    name: "nli" for the sentences of SNLI and MNLI, or a file, as `bert_flow_tf.data.custom.read_corpus` takes it.
    data_dir: for "nli", folder with SNLI/{train,dev,test}.tsv and MNLI/train.tsv, as far as they are there; None
      to take both from TensorFlow Datasets.
    tfds_data_dir: TensorFlow Datasets' folder; None for its default.

  Returns:
    The pairs, none of them with gold, and a description of where they came from.

  Raises:
    ConfigError: the name or a folder is empty.
    DataError: the data is missing, malformed or cannot be downloaded.
  """
  for what, path in (("the corpus's name", name), ("data_dir", data_dir), ("tfds_data_dir", tfds_data_dir)):
    if path is not None and not os.fspath(path):
      raise ConfigError(f"{what} is empty; expected 'nli' or a path")
  if str(name).lower() != "nli":
    pairs = read_corpus(os.path.expanduser(name))
    return pairs, f"{count(len(pairs), 'pair')} of {name}"
  if data_dir is not None:
    return _read_files(os.path.expanduser(data_dir))
  return _read_tfds(tfds_data_dir and os.path.expanduser(tfds_data_dir))


def _read_files(data_dir: str) -> tuple[SentencePairs, str]:
  """Reads the files that are there; pairs without an agreed label are text like others."""
  parts, missing, notes = [], [], []
  for file in (nli_set.files[split] for nli_set, splits in _SETS for split in splits):
    path = pathlib.Path(data_dir) / file
    if not exists(path, data_dir):
      missing.append(file)
      continue
    pairs, broken = read_table(path, ("sentence1", "sentence2"), incomplete=INCOMPLETE_LINES_ALLOWED)
    parts.append(pairs)
    if broken:
      notes.append(f"{count(broken, 'malformed line')} of {file} left out")
  if not parts:
    raise DataError(
      f"{pathlib.Path(data_dir) / 'SNLI'} and MNLI beside it have no pairs; --data_dir={data_dir} must hold "
      f"{_PATTERN}, in GLUE's layout" + likely_data_dir(data_dir, "SNLI", "train.tsv")
    )
  if missing:
    notes.insert(0, f"without {', '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not there")
  pairs = SentencePairs.concatenate(parts)
  return pairs, ", ".join([f"{len(pairs)} pairs of SNLI and MNLI in {data_dir}", *notes])


def _read_tfds(tfds_data_dir: str | None) -> tuple[SentencePairs, str]:
  """Reads what TFDS has prepared; its MNLI lacks the pairs without an agreed label."""
  parts, sources = [], []
  for nli_set, splits in _SETS:
    builder = nli_set.prepare(tfds_data_dir, _PATTERN)
    for split in splits:
      stored = nli_set.tfds_splits[split]
      premises, hypotheses = tfds_source.read_split(builder, stored, ("premise", "hypothesis"))
      parts.append(SentencePairs(premises, hypotheses, np.full(len(premises), np.nan)))
    sources.append(f"{builder.info.full_name} in {builder.data_dir_root}")
  return SentencePairs.concatenate(parts), f"TensorFlow Datasets {' and '.join(sources)}"
