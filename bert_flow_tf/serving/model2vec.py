"""Exports a static encoder and its calibration as one table of vectors, which model2vec and others read.

A static embedding is a weighted mean of rows, and a calibration such as whitening is affine: (u - shift) M is the
weighted mean of (row - shift) M, so that the calibrated table needs no code of ours.
"""

import os
import pathlib
from collections.abc import Sequence

import numpy as np
from safetensors import SafetensorError

from bert_flow_tf._version import __version__
from bert_flow_tf.calibration.names import NOT_AFFINE
from bert_flow_tf.calibration.step import Normalize, Step, display_name
from bert_flow_tf.encoder.checkpoints.declared import DOCUMENT, QUERY
from bert_flow_tf.encoder.kinds import STATIC, public_name
from bert_flow_tf.encoder.other.static_folder import StaticTable, text_tokenizer, write_static_model
from bert_flow_tf.encoder.other.token_vectors import StaticModel
from bert_flow_tf.encoder.sentence_encoder import SentenceEncoder
from bert_flow_tf.encoder.settings import STATIC_MAX_SEQ_LENGTH
from bert_flow_tf.encoder.text.token_weights import UNIFORM
from bert_flow_tf.encoder.text_encoder import TextEncoder
from bert_flow_tf.errors import ConfigError, EncoderError
from bert_flow_tf.io.files import check_new_folder, owned
from bert_flow_tf.model import SentenceModel
from bert_flow_tf.serving.settings import ExportError, ExportSettings

# Tokens at the ends of a text, [CLS] and [SEP], which a table does not know.
_EDGES = 2
# Bounds the memory of rows in float64.
_ROWS_AT_ONCE = 8192
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

sentence-transformers (vectors of float32 or float16) and bert-flow-tf, with `--model=static:FOLDER`, read it, too. An
embedding is the mean of the vectors of a text's tokens{normalized}. The weights of tokens and the calibration are in
the vectors. A text without a known token has a vector of zeros.
"""


def export_model2vec(model: SentenceModel, export_dir: str | os.PathLike, settings: ExportSettings) -> pathlib.Path:
  """Writes a static encoder and its calibration as a folder of model2vec, completely or not at all.

  Cosines of the written table are those of `model`, up to float rounding, for texts of known tokens. Texts without a
  known token have vectors of zeros, and an unknown word changes no embedding, as model2vec defines it.

  Args:
    model: a model with a static encoder (`static:NAME`), and a linear calibration or none.
    export_dir: a new or empty folder.
    settings: `dtype` of the vectors, and `normalize`: whether embeddings are divided by their length.

  Returns:
    The folder.

  Raises:
    ConfigError, EncoderError: the folder is not empty, or no table gives the embeddings of the model.
    ExportError: the folder cannot be written.
  """
  path = check_new_folder(export_dir, "export_dir")
  table = fold(model)
  table = table._replace(normalizes=table.normalizes or settings.normalize)
  with owned(path, "export_dir"):
    write_table(path, table, settings.dtype, model, "export_dir")
  return path


def write_table(folder: pathlib.Path, table: StaticTable, dtype: str, model: SentenceModel, argument: str) -> None:
  """Writes the table of a model into an empty folder; raises an ExportError that names an argument if it cannot."""
  name = public_name(model.encoder.name)
  card = _CARD.format(
    encoder=name,
    dim=table.rows.shape[1],
    tokens=len(table.rows),
    calibration=table.calibration or "none",
    version=__version__,
    normalized=", divided by its length" if table.normalizes else "",
  )
  try:
    write_static_model(folder, table, dtype, card, name)
  except (OSError, SafetensorError) as error:
    raise ExportError(f"{argument}={folder}: cannot be written ({error})", argument=argument) from error


def fold(model: SentenceModel) -> StaticTable:
  """Returns the table of the calibrated embeddings of a model; raises an error if there is none.

  Raises:
    ConfigError, EncoderError: the encoder is not static, counts [CLS] and [SEP], has a prompt, or divides means by
      their length before a calibration; or a step is not affine.
  """
  encoder = model.encoder
  if not isinstance(encoder, SentenceEncoder) or not encoder.is_static:
    mend = f"use {STATIC.form}, or distill a transformer"
    raise EncoderError(f"model={encoder.name}: its embeddings are no means of vectors of tokens; {mend}", "model")
  check_no_prompt(encoder)
  if model.calibration is not None and model.calibration.query_shift is not None:
    message = "a table has one embedding for queries and documents; fit it without queries"
    raise ConfigError(f"calibration={model.calibration_name}: {message}", "calibration")
  normalizes = divides_by_lengths(encoder)
  if normalizes and model.steps:
    message = "its means are divided by their length before the calibration, which no table can do; fit it with"
    raise EncoderError(f"model={encoder.name}: {message} static_normalize=false", "model")
  tokenizer, ids = text_tokenizer(encoder.tokenizer)
  weights = token_weights_of(encoder)
  if encoder.tokenizer.unknown_id is not None:
    weights[encoder.tokenizer.unknown_id] = 0
  parts = []
  for start in range(0, len(ids), _ROWS_AT_ONCE):
    tokens = ids[start : start + _ROWS_AT_ONCE]
    rows = encoder.bert.rows[tokens, : encoder.truncate_dim].astype(np.float64)
    rows = _apply_affine(model.steps, rows) * weights[tokens, np.newaxis]
    parts.append(rows.astype(np.float32))
  rows = np.concatenate(parts)
  max_length = None
  if model.max_seq_length < STATIC_MAX_SEQ_LENGTH:
    max_length = model.max_seq_length - _EDGES
  # Of a table that is exported again, the calibration that it has already.
  calibration = model.calibration_name or encoder.declared.calibration
  return StaticTable(rows, tokenizer, normalizes, max_length, calibration)


def check_no_prompt(encoder: TextEncoder) -> None:
  """Raises a ConfigError for an encoder that puts a prompt before texts."""
  prompts = {encoder.prompt, *map(encoder.prompt_of, (QUERY, DOCUMENT))}
  given = sorted(prompts - {""})
  if given:
    message = "a table of vectors puts no text before a sentence; give an empty prompt"
    raise ConfigError(f"prompt={given[0]!r}: {message}", "prompt")


def divides_by_lengths(encoder: SentenceEncoder) -> bool:
  """Returns whether an encoder is a static model that divides means by their length."""
  return encoder.is_static and isinstance(encoder.bert, StaticModel) and encoder.bert.normalizes


def token_weights_of(encoder: SentenceEncoder) -> np.ndarray:
  """Returns the weight of each token, float64 [vocab]; raises a ConfigError if means count [CLS] and [SEP]."""
  weights = np.ones(encoder.tokenizer.vocab_size)
  if encoder.token_weights is not None:
    weights = encoder.token_weights.table.astype(np.float64)
  if weights[list(encoder.tokenizer.special_ids[:2])].any():
    message = "counts [CLS] and [SEP], which a table of vectors does not have; use idf"
    raise ConfigError(f"token_weights={UNIFORM}: {message}", "token_weights")
  return weights


def _apply_affine(steps: Sequence[Step], rows: np.ndarray) -> np.ndarray:
  """Returns rows float64 [n, dim] after affine steps; raises a ConfigError for another step."""
  for position, step in enumerate(steps, 1):
    affine = step.affine_of(rows.shape[1])
    if affine is not None:
      shift, matrix = affine
      rows = (rows - shift) @ matrix
    elif position < len(steps) or not isinstance(step, Normalize):  # which changes no cosine
      raise ConfigError(f"calibration={display_name(step)}: {NOT_AFFINE}", "calibration")
  return rows
