"""Golden rows: sentences or embeddings with the answers of the exported model, checked against Python."""

import json
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_flow_tf.encoder.text.word_piece import pad_batch
from bert_flow_tf.evaluation.metrics import normalized
from bert_flow_tf.io.files import write_text
from bert_flow_tf.model import SentenceModel
from bert_flow_tf.serving.served_file import CalibrationFile, IdsFile
from bert_flow_tf.serving.served_model import Functions, ServedCalibration, ServedModel
from bert_flow_tf.serving.settings import GOLDEN, SAVED_MODEL, ExportError

SENTENCES = (
  "A man is playing a guitar on the stage.",
  "Someone plays music for an audience.",
  "The weather was terrible, so we stayed at home.",
  "Crème brûlée costs 4.50€ — naïve façade, Ångström!",
  "東京 is the capital of 日本.",
  "",
  "no",
  "word " * 500,
)
_IDS = "embed_ids"
_VECTOR_ROWS = 8
# Two float32 graphs of the same operations differ by rounding only, which in int8 may be a step of a value of a row.
_TOLERANCE, _INT8_TOLERANCE = 1e-4, 0.02


def answer(functions: Functions, served: ServedCalibration) -> dict[str, dict]:
  """Returns {signature: {"inputs": {name: list}, "outputs": {name: array}}} for signatures of text, or of embeddings.

  `functions` are the signatures of a loaded SavedModel, {name: function}.
  """
  answers: dict[str, dict] = {}
  rows = _rows(served)
  if isinstance(served, ServedModel) and served.without_text:
    ids, lengths = _ids(served)
    outputs = functions[_IDS](ids=tf.constant(ids), lengths=tf.constant(lengths))
    answers[_IDS] = {"inputs": {"ids": ids.tolist(), "lengths": lengths.tolist()}, "outputs": _arrays(outputs)}
  for name, signature in served.table.items():
    inputs, tensors = {}, {}
    for index, (key, tensor) in enumerate(signature.inputs.items()):
      if tensor.is_source:
        # Rotate the rows by the input's number, so that the two inputs of a signature differ.
        inputs[key] = list(rows[index:]) + list(rows[:index])
        tensors[key] = tf.constant(inputs[key])
    if inputs:
      outputs = functions[name](**tensors)
      answers[name] = {"inputs": inputs, "outputs": _arrays(outputs)}
  return answers


def answer_of_file(
  folder: pathlib.Path, served: IdsFile | CalibrationFile
) -> tuple[dict[str, dict], np.ndarray | None]:
  """Returns the same for the file in a folder; and its embeddings before the calibration, if a step reads them."""
  rows = _rows(served)
  shown: dict[str, Any] = {}
  if isinstance(served, IdsFile):
    ids, lengths = _ids(served)
    mask = np.arange(ids.shape[1]) < lengths[:, np.newaxis]
    inputs = {"input_ids": ids.astype(np.int64), "attention_mask": mask.astype(np.int64)}
    shown["text"] = list(rows)
  else:
    inputs = {"vectors": np.asarray(rows)}
  pooled, embeddings = served.answer(folder, inputs)
  shown |= {name: values.tolist() for name, values in inputs.items()}
  return {name: {"inputs": shown, "outputs": {"embedding": embeddings}} for name in served.table}, pooled


def compare(answers: dict[str, dict], served: ServedCalibration, pooled: np.ndarray | None = None) -> dict[str, float]:
  """Compares answers with the model in Python.

  Args:
    answers: the answers.
    served: the model.
    pooled: embeddings before the calibration, if no answer has them.

  Returns:
    "pooled" and "calibrated": the largest difference, relative to the largest value, of the encoder, and of the
      calibration of the same embeddings.
    "whole": the same of the whole way, from text to calibrated embedding, in which a calibration may magnify the
      rounding of the encoder; not limited.
    "min_cosine": the smallest cosine between a row's embeddings before calibration.

  Raises:
    ExportError: an answer is not finite, or a difference is more than rounding.
  """
  for values in answers.values():
    for name, output in values["outputs"].items():
      if not np.isfinite(output).all():
        raise ExportError(f"the exported model's {name} has NaN or infinite values; encoder or calibration is damaged")
  expected = _embed_rows(served)
  if pooled is None:
    pooled = _pooled_of(answers, served, expected)
  # What is limited is each half of the way: a whitening magnifies the rounding differences of the encoder.
  embeddings = answers[next(iter(answers))]["outputs"]["embedding"]
  differences = {
    "pooled": _difference(pooled, expected),
    "calibrated": _difference(embeddings, _calibrated(served, pooled)),
  }
  tolerance = _TOLERANCE
  if served.is_int8:
    tolerance = _INT8_TOLERANCE
  for name, difference in differences.items():
    if difference > tolerance:
      raise ExportError(
        f"the exported model's {name} embeddings differ from Python's by {difference:.2g} of the largest value, "
        f"expected at most {tolerance:g}; the version is not written; {_remedy(served)}"
      )
  cosines = np.sum(normalized(pooled) * normalized(expected), axis=1)
  whole = _difference(embeddings, _calibrated(served, expected))
  return differences | {"whole": whole, "min_cosine": float(cosines.min())}


def _calibrated(served, pooled):
  """Returns the calibrated embeddings of `_rows` in Python, from embeddings before the calibration."""
  sentences = [_rows(served)] if isinstance(served.model, SentenceModel) else []
  calibrated = served.model.transform(pooled, *sentences)
  return normalized(calibrated) if served.normalize else calibrated


def _pooled_of(answers, served, expected):
  """Returns the embeddings before the calibration of a SavedModel; those of Python if it has no signature of them."""
  if "embed_pooled" in answers:
    return answers["embed_pooled"]["outputs"]["pooled"]
  if isinstance(served, ServedModel) and _IDS in answers and served.sizes["dim"]:
    ids, lengths = _ids(served)
    return served.pooled_of_ids(ids, lengths).numpy()
  return expected


def _remedy(served):
  """Returns what to do if answers differ."""
  if isinstance(served, IdsFile | CalibrationFile):
    return (
      "it is computed in float32, which is too little for a calibration that magnifies rounding, as a whitening of "
      f"directions with hardly any variance: use format={SAVED_MODEL}, or fewer directions"
    )
  return "please report this bug"


def _rows(served: ServedCalibration) -> Sequence[str] | np.ndarray:
  """Returns the sentences, or vectors for a calibration alone."""
  if isinstance(served.model, SentenceModel):
    if served.model.encoder.has_tokens:
      return SENTENCES
    # A SavedModel need not have vectors of empty and very long texts.
    return [sentence for sentence in SENTENCES if 0 < len(sentence) < 500]
  return np.random.default_rng(0).normal(size=[_VECTOR_ROWS, served.sizes["dim"]]).round(4).astype(np.float32)


def _embed_rows(served):
  """Returns the embeddings of `_rows` in Python, without a warning of the sentence that is too long on purpose."""
  if not isinstance(served.model, SentenceModel) or not served.model.encoder.has_tokens:
    return served.embed(_rows(served))
  model = served.model
  ids = model.encoder.tokenizer(SENTENCES, model.max_seq_length, warn=False)
  return model.encoder.embed_ids(ids, model.pooling)


def _ids(served):
  """Returns ids and numbers of tokens of the sentences, by the tokenizer in Python."""
  tokens = served.model.encoder.tokenizer(SENTENCES, served.sizes["max_seq_length"], warn=False)
  return pad_batch(tokens)[0], np.array(list(map(len, tokens)), np.int32)


def _arrays(outputs: dict[str, tf.Tensor]) -> dict[str, np.ndarray]:
  return {key: value.numpy() for key, value in outputs.items()}


def _difference(actual: np.ndarray, expected: np.ndarray) -> float:
  return float(np.abs(actual - expected).max() / max(np.abs(expected).max(), 1e-12))


def write_golden(folder: pathlib.Path, answers: dict[str, dict]) -> None:
  """Writes the result of `answer` as JSON, numbers rounded to 7 decimals."""
  write_text(folder / GOLDEN, json.dumps(answers, ensure_ascii=False, default=_rounded) + "\n")


def _rounded(array: np.ndarray) -> list:
  return np.asarray(array, np.float64).round(7).tolist()
