"""A few sentences with what the exported model answers for them: proof at export, and a check for who serves it."""

import itertools
import json

import numpy as np
import tensorflow as tf

from bert_flow_tf.io.files import write_text
from bert_flow_tf.serving.layout import ExportError

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
# float32 through two graphs of the same ops: rounding alone may differ.
_TOLERANCE = 1e-4


def answer(folder):
  """{signature: {"inputs": {name: list}, "outputs": {name: array}}} of the SavedModel in `folder`.

  Args:
    folder: pathlib.Path.
  """
  loaded = tf.saved_model.load(str(folder))
  rotated = [*SENTENCES[1:], SENTENCES[0]]
  requests = {
    "serving_default": {"text": list(SENTENCES)},
    "embed_pooled": {"text": list(SENTENCES)},
    "similarity": {"text_a": list(SENTENCES), "text_b": rotated},
    "log_prob": {"text": list(SENTENCES)},
  }
  answers = {}
  for name, inputs in requests.items():
    if name in loaded.signatures:
      outputs = loaded.signatures[name](**{key: tf.constant(value) for key, value in inputs.items()})
      answers[name] = {"inputs": inputs, "outputs": {key: value.numpy() for key, value in outputs.items()}}
  return answers


def check(answers, encoder, calibration, options):
  """How far the SavedModel is from encoder and calibration themselves.

  The calibration is held against the SavedModel's own pooled embeddings: a whitening by small deviations would make
  much of what two batches of an encoder differ by rounding.

  Args:
    answers: of `answer`.
    encoder: `SentenceEncoder`.
    calibration: as `export_model` takes it.
    options: `metadata.Options`.

  Returns:
    {"pooled" and "calibrated": largest difference, relative to the largest number; "min_cosine": of a sentence's
    pooled embedding with the encoder's}.

  Raises:
    ExportError: they differ by more than rounding and the weights' precision; or a number is not finite.
  """
  for name, output in itertools.chain.from_iterable(of["outputs"].items() for of in answers.values()):
    if not np.isfinite(output).all():
      raise ExportError(f"the exported model's {name} holds NaN or infinity: encoder or calibration is damaged")
  pooled = answers["embed_pooled"]["outputs"]["pooled"]
  arguments = {"low_dim": options.low_dim, "show_progress": False}
  expected = encoder.encode(list(SENTENCES), options.pooling, options.max_seq_length, **arguments)
  calibrated = pooled if calibration is None else np.asarray(calibration.transform(pooled))
  if options.normalize:
    calibrated = calibrated / np.maximum(np.linalg.norm(calibrated, axis=1, keepdims=True), 1e-6)
  differences = {
    "pooled": _difference(pooled, expected),
    "calibrated": _difference(answers["serving_default"]["outputs"]["embedding"], calibrated),
  }
  for name, difference in differences.items():
    if difference > _TOLERANCE and (name == "calibrated" or options.weights_dtype == "float32"):
      raise ExportError(
        f"the exported model's {name} embeddings differ by {difference:.2g} of their largest number from those in "
        f"Python, expected at most {_TOLERANCE:g}: it is not written; this is a bug"
      )
  norms = np.linalg.norm(pooled, axis=1) * np.linalg.norm(expected, axis=1)
  return {**differences, "min_cosine": float((np.sum(pooled * expected, axis=1) / np.maximum(norms, 1e-12)).min())}


def _difference(found, expected):
  return float(np.abs(found - expected).max() / max(np.abs(expected).max(), 1e-12))


def write(path, answers):
  """Writes the answers as json."""
  values = {
    name: {
      "inputs": of["inputs"],
      "outputs": {key: np.asarray(output, np.float64).round(7).tolist() for key, output in of["outputs"].items()},
    }
    for name, of in answers.items()
  }
  write_text(path, json.dumps(values, ensure_ascii=False) + "\n")
