"""Exports a static encoder and its calibration as one table of vectors, which model2vec and others read.

A static embedding is a weighted mean of rows, and a calibration such as whitening is affine: (u - shift) M is the
weighted mean of (row - shift) M, so that the calibrated table needs no code of ours.
"""

import os
import pathlib
from collections.abc import Sequence

import numpy as np

from bert_flow_tf._version import __version__
from bert_flow_tf.calibration.linear import LinearCalibration
from bert_flow_tf.calibration.low_dim import LowDim
from bert_flow_tf.calibration.step import Calibration, Normalize, Step, display_name
from bert_flow_tf.encoder.kinds import public_name
from bert_flow_tf.encoder.other.static_folder import (
  DTYPES,
  StaticTable,
  check_new_folder,
  text_tokenizer,
  write_static_model,
)
from bert_flow_tf.encoder.other.token_vectors import StaticModel
from bert_flow_tf.encoder.sentence_encoder import SentenceEncoder
from bert_flow_tf.encoder.settings import STATIC_MAX_SEQ_LENGTH
from bert_flow_tf.encoder.text.token_weights import UNIFORM
from bert_flow_tf.errors import ConfigError, EncoderError
from bert_flow_tf.model import SentenceModel
from bert_flow_tf.serving.settings import ExportError

# Tokens at the ends of a text, [CLS] and [SEP], which a table does not know.
_EDGES = 2
_CARD = """\
---
library_name: model2vec
tags:
- static-embeddings
- sentence-similarity
---
# Static embeddings of {encoder}

{dim} dimensions, {tokens:,} tokens, calibration: {calibration}. Written by bert-flow-tf {version}.

    from model2vec import StaticModel
    model = StaticModel.from_pretrained("FOLDER")
    embeddings = model.encode(["A man is eating.", "A woman reads."])

sentence-transformers (rows of float32 or float16) and bert-flow-tf, with `--model=static:FOLDER`, read it, too. An
embedding is the mean of the vectors of the tokens of a text{normalized}. Weights of tokens and the calibration are in
the vectors. A text without a known token is a vector of zeros.
"""


def export_model2vec(
  model: SentenceModel,
  folder: str | os.PathLike,
  *,
  dtype: str = "float32",
  normalize: bool = True,
  dim: int | None = None,
  encoder_name: str | None = None,
) -> pathlib.Path:
  """Writes a static encoder and its calibration as a folder of model2vec, completely or not at all.

  Cosines of the written model are those of `model`, up to float rounding, for texts with a known token. Texts without
  one are vectors of zeros, and an unknown word changes no embedding, as model2vec defines it.

  Args:
    model: a model whose encoder is static (`static:NAME`), and whose calibration is linear, or none.
    folder: a new or empty folder.
    dtype: of the vectors: "float32", "float16", or "int8" with a scale per token.
    normalize: whether embeddings are divided by their length.
    dim: number of leading directions that are kept, of a whitening, soft-whitening or tempered-whitening; None for all.
    encoder_name: name of the encoder that the vectors are from; None for the model's.

  Returns:
    The folder.

  Raises:
    ConfigError, EncoderError: an argument is not allowed, or the model is no table of vectors.
    ExportError: the folder cannot be written.
  """
  if dtype not in DTYPES:
    raise ConfigError(f"dtype={dtype}: expected {', '.join(DTYPES)}", "dtype")
  path = check_new_folder(folder, "folder")
  table = fold(model)
  if dim is not None:
    table = table._replace(rows=leading_columns(model, table.rows, dim))
  table = table._replace(normalizes=normalize)
  name = public_name(encoder_name or model.encoder.name)
  card = _CARD.format(
    encoder=name,
    dim=table.rows.shape[1],
    tokens=len(table.rows),
    calibration=model.calibration_name or "none",
    version=__version__,
    normalized=", divided by its length" if normalize else "",
  )
  try:
    write_static_model(path, table, dtype, card, name)
  except OSError as error:
    raise ExportError(f"folder={folder}: cannot be written ({error})", argument="folder") from error
  return path


def fold(model: SentenceModel) -> StaticTable:
  """Returns the table of a model's calibrated embeddings; raises an error if it is no table.

  Raises:
    ConfigError, EncoderError: the encoder is not static, counts [CLS] and [SEP], has a prompt, or divides means by
      their length before a calibration; or a step is not affine.
  """
  encoder = model.encoder
  if not isinstance(encoder, SentenceEncoder) or not encoder.is_static:
    mend = "distill it, or use static:NAME" if encoder.has_tokens else "use static:NAME, or distill a transformer"
    raise EncoderError(f"model={encoder.name}: its embeddings are no means of vectors of tokens; {mend}", "model")
  if any(encoder.prompt_of(role) for role in ("query", "document")):
    raise ConfigError("prompt: a table of vectors puts no text before a sentence; give prompt=''", "prompt")
  if model.calibration is not None and model.calibration.query_shift is not None:
    message = "a table has one embedding for queries and documents; fit it without queries"
    raise ConfigError(f"calibration={model.calibration_name}: {message}", "calibration")
  steps = list(model.steps)
  normalizes = isinstance(encoder.bert, StaticModel) and encoder.bert.normalizes
  if normalizes and steps:
    message = "its means are divided by their length before the calibration, which no table can do; fit it with"
    raise EncoderError(f"model={encoder.name}: {message} static_normalize=false", "model")
  tokenizer, ids = text_tokenizer(encoder.tokenizer)
  weights = token_weights_of(encoder)
  rows = encoder.bert.rows[:, : encoder.truncate_dim].astype(np.float64)[ids]
  rows = apply_affine(steps, rows) * weights[ids, np.newaxis]
  if encoder.tokenizer.unknown_id is not None:
    rows[ids == encoder.tokenizer.unknown_id] = 0
  return StaticTable(rows, tokenizer, normalizes, max_length_of(model.max_seq_length))


def token_weights_of(encoder: SentenceEncoder) -> np.ndarray:
  """Returns the weight of each token of a static encoder, float64 [vocab]; an error if a mean counts [CLS], [SEP]."""
  weights = np.ones(encoder.tokenizer.vocab_size)
  if encoder.token_weights is not None:
    weights = encoder.token_weights.table.astype(np.float64)
  if weights[list(encoder.tokenizer.special_ids[:2])].any():
    message = "counts [CLS] and [SEP], which a table of vectors does not have; use idf"
    raise ConfigError(f"token_weights={UNIFORM}: {message}", "token_weights")
  return weights


def apply_affine(steps: Sequence[Step], rows: np.ndarray) -> np.ndarray:
  """Returns rows float64 [n, dim] after affine steps; raises a ConfigError for another step."""
  for step in steps:
    if isinstance(step, LinearCalibration):
      shift, matrix = step.affine()
      rows = (rows - shift) @ matrix
    elif isinstance(step, LowDim):
      groups = step.output_dim_of(rows.shape[1])
      rows = rows.reshape(len(rows), groups, -1).mean(axis=2)
    elif not isinstance(step, Normalize) or step is not steps[-1]:
      message = "is not affine, so that no table of vectors can hold it; expected mean, sn, whitening, soft-whitening"
      raise ConfigError(f"calibration={display_name(step)}: {message}", "calibration")
  return rows


def leading_columns(model: SentenceModel, rows: np.ndarray, dim: int) -> np.ndarray:
  """Returns the first `dim` columns of calibrated rows; raises a ConfigError unless they are leading directions."""
  calibration: Calibration | None = model.calibration
  names = ("whitening", "soft-whitening", "tempered-whitening")
  if not isinstance(calibration, LinearCalibration) or calibration.method not in names or len(model.steps) > 1:
    message = "keeps the leading directions of a calibration, which whitening, soft-whitening and tempered-whitening"
    raise ConfigError(f"dim={dim}: {message} have; give one of them, without low_dim", "dim")
  if not 1 <= dim <= rows.shape[1]:
    raise ConfigError(f"dim={dim}: expected 1 to {rows.shape[1]}, the directions of {calibration.name}", "dim")
  return rows[:, :dim]


def max_length_of(max_seq_length: int) -> int | None:
  """Returns the number of tokens of a text that a table reads; None for all."""
  if max_seq_length >= STATIC_MAX_SEQ_LENGTH:
    return None
  return max_seq_length - _EDGES
