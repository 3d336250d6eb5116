"""The card of a pre-trained model, and its scores on STS-B."""

import os
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from absl import logging

from bert_flow_tf.calibration.names import make_calibration
from bert_flow_tf.data import tasks
from bert_flow_tf.data.task import TaskData
from bert_flow_tf.encoder.sentence_encoder import SentenceEncoder
from bert_flow_tf.errors import FlowError
from bert_flow_tf.evaluation.task_scores import Embeddings, evaluate
from bert_flow_tf.pretraining.settings import PretrainingSettings
from bert_flow_tf.training.calibrate import make_flow
from bert_flow_tf.training.settings import FlowSettings
from bert_flow_tf.training.sources import embedding_pairs

# As in the card of the packaged model.
_POOLINGS = ("avg", "avg-top-2", "avg-first-last")
_CALIBRATED = "avg-first-last"
_MAX_SEQ_LENGTH = 64
_FLOW_SEED = 1234

_CARD = """\
# A BERT of {layers} blocks, trained from scratch by run_pretraining.py

| | |
| --- | --- |
| architecture | BERT, {layers} blocks, {width} wide, {heads} heads, feed-forward {inner}, {positions} positions, \
{parameters:,} parameters |
| vocabulary | {pieces:,} word pieces, {case}, {vocabulary} |
| weights | `model.safetensors`, {dtype} (they load as float32), with the masked-language-model head, without a pooler |
| training | masked-language modeling, {steps:,} steps of {batch} sentences ({passes:.2f} passes), BERT's Adam with \
weight decay {decay:g}, learning rate {rate:g}, {warmup} steps of warm-up, then linear decay, dropout {dropout:g}, \
{precision}, seed {seed} |
| loss | {loss:.4f} nats for each masked piece, mean of the last 100 steps (of all steps if fewer) |
| data | {sentences:,} lines of `{corpus}`, sha256 `{sha256}` |
| made with | bert_flow_tf {package}, tensorflow {tensorflow}, transformers {transformers} |

Without a pooler, `cls` pooling is an error. The license must be one that the text's license allows. Add here what is
known about the text, above all whether it contains sentences of a task.
{figures}"""

_SCORES = """
## Scores

Spearman x 100 of the cosine with the gold score, STS-B test, `max_seq_length` {length}:

| {names} |
| {rules} |
| {values} |

Whitening and the flow (`config_l2_d3_w32`, one epoch, seed {seed}) are fitted on all sentences of STS-B, without
labels, on {pooling}.
"""


def load_task(data_dir: str) -> TaskData:
  """Loads STS-B.

  Raises:
    DataError: its files cannot be read.
  """
  return tasks.load_task("STS-B", data_dir)


def scores(folder: str | os.PathLike, data_dir: str, max_seq_length: int) -> dict[str, float]:
  """Returns {pooling and calibration: Spearman x 100 on STS-B test} of a model.

  Args:
    folder: the model's.
    data_dir: folder of STS-B, as `load_task` takes it.
    max_seq_length: positions of the model; at most 64 tokens of a sentence are used.
  """
  task = load_task(data_dir)
  encoder = SentenceEncoder.from_pretrained(str(folder))
  values = {}
  for pooling in _POOLINGS:
    if pooling == "avg-top-2" and encoder.num_hidden_layers < 2:
      continue
    arguments: dict[str, Any] = {
      "sentence_embedding_type": pooling,
      "max_seq_length": min(_MAX_SEQ_LENGTH, max_seq_length),
    }
    embeddings = Embeddings(encoder, task.splits.values(), **arguments)
    values[pooling] = _spearman(task, embeddings, lambda u: u)
  pairs = task.all_pairs()  # embeddings are those of the last pooling, _CALIBRATED
  whitening = make_calibration("whitening").fit(embeddings.rows(pairs))
  values[f"{_CALIBRATED}, whitened"] = _spearman(task, embeddings, whitening.transform)
  try:
    flow, _ = make_flow(FlowSettings(seed=_FLOW_SEED), encoder.dim(_CALIBRATED))
    flow.fit_source(embedding_pairs(embeddings, pairs))
    values[f"{_CALIBRATED} + flow"] = _spearman(task, embeddings, flow.transform)
  except FlowError as error:  # a width that the flow cannot halve
    logging.warning("the card has no score with a flow: %s", error)
  return values


def card(results: Mapping[str, Any], settings: PretrainingSettings, stsb_scores: Mapping[str, float] | None) -> str:
  """Returns the text of the card.

  Args:
    results: content of results.json.
    settings: the settings of the training.
    stsb_scores: {pooling and calibration: Spearman x 100}, or None for a card without scores.
  """
  sizes, versions = results["sizes"], results["versions"]
  vocabulary = "built from the text"
  if settings.vocab_file is not None:
    vocabulary = f"the text's most frequent of `{_name(settings.vocab_file)}`"
  return _CARD.format(
    layers=sizes["num_hidden_layers"],
    width=sizes["hidden_size"],
    heads=sizes["num_attention_heads"],
    inner=sizes["intermediate_size"],
    positions=sizes["max_position_embeddings"],
    parameters=results["parameters"],
    pieces=sizes["vocab_size"],
    case="lower-cased" if settings.do_lower_case else "cased",
    vocabulary=vocabulary,
    dtype=settings.weights_dtype,
    steps=settings.num_train_steps,
    batch=settings.train_batch_size,
    passes=results["passes"],
    decay=settings.weight_decay,
    rate=settings.learning_rate,
    warmup=settings.num_warmup_steps,
    dropout=settings.dropout,
    precision=settings.precision,
    seed=settings.seed,
    loss=results["final_loss"],
    sentences=results["corpus"]["sentences"],
    corpus=_name(results["corpus"]["file"]),
    sha256=results["corpus"]["sha256"],
    package=versions["bert_flow_tf"],
    tensorflow=versions["tensorflow"],
    transformers=versions["transformers"],
    figures="" if stsb_scores is None else _table(stsb_scores, min(_MAX_SEQ_LENGTH, settings.max_seq_length)),
  )


def _table(stsb_scores, length):
  return _SCORES.format(
    length=length,
    names=" | ".join(stsb_scores),
    rules=" | ".join(["---"] * len(stsb_scores)),
    values=" | ".join(f"{value:.2f}" for value in stsb_scores.values()),
    seed=_FLOW_SEED,
    pooling=_CALIBRATED,
  )


def _spearman(task: TaskData, embeddings: Embeddings, transform: Callable[[np.ndarray], np.ndarray]) -> float:
  split = task.spec.eval_split or "test"
  return evaluate(task, embeddings, transform, [split])[0][split]["spearman"]


def _name(path):
  return pathlib.PurePath(path).name
