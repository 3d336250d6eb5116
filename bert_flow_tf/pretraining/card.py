"""The card of a model that run_pretraining.py made, and its figures on STS-B."""

import pathlib

from absl import logging

import bert_flow_tf
from bert_flow_tf.calibration.spec import make_calibration
from bert_flow_tf.data import tasks
from bert_flow_tf.errors import FlowError
from bert_flow_tf.evaluation.task_figures import Embeddings, evaluate
from bert_flow_tf.training.calibrations import make_flow
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
| training | masked-language modelling, {steps:,} steps of {batch} sentences ({passes:.2f} passes), BERT's Adam with \
weight decay {decay:g}, learning rate {rate:g}, {warmup} steps of warm-up, then linear decay, dropout {dropout:g}, \
{precision}, seed {seed} |
| loss | {loss:.4f} nats a hidden piece, mean of the last 100 steps (fewer where there are fewer) |
| data | {sentences:,} lines of `{corpus}`, sha256 `{sha256}` |
| made with | bert_flow_tf {package}, tensorflow {tensorflow}, transformers {transformers} |

`cls` pooling is refused, for want of a pooler. The licence is what the text's allows. What its makers know of the text,
above all whether sentences of a task are in it, they should add here.
{figures}"""

_FIGURES = """
## Figures

Spearman x 100 of the cosine with the gold score, STS-B test, `max_seq_length` {length}:

| {names} |
| {rules} |
| {values} |

Whitening and the flow (`config_l2_d3_w32`, one epoch, seed {seed}) are fitted on all sentences of STS-B, without
labels, on {pooling}.
"""


def load_task(data_dir):
  """STS-B's `TaskData`.

  Raises:
    DataError: its files are not there.
  """
  return tasks.load_task("STS-B", data_dir)


def figures(folder, data_dir, max_seq_length):
  """{what: Spearman x 100 on STS-B test} of the model in a folder: several poolings, whitening and the flow.

  Args:
    folder: the model's.
    data_dir: as `load_task` takes it.
    max_seq_length: positions of the model; 64 tokens of a sentence count at most.
  """
  task = load_task(data_dir)
  encoder = bert_flow_tf.SentenceEncoder.from_pretrained(str(folder))
  found = {}
  poolings = [name for name in _POOLINGS if name != "avg-top-2" or encoder.num_hidden_layers > 1]
  for pooling in poolings:
    arguments = {"sentence_embedding_type": pooling, "max_seq_length": min(_MAX_SEQ_LENGTH, max_seq_length)}
    embeddings = Embeddings(encoder, task.splits.values(), **arguments)
    found[pooling] = _spearman(task, embeddings, lambda u: u)
  pairs = task.all_pairs()
  whitening = make_calibration("whitening").fit(embeddings.rows(pairs))
  found[f"{_CALIBRATED}, whitened"] = _spearman(task, embeddings, whitening.transform)
  try:
    found[f"{_CALIBRATED} + flow"] = _with_flow(task, encoder, embeddings)
  except FlowError as error:  # a width that the flow cannot halve
    logging.warning("the card has no figure with a flow: %s", error)
  return found


def _with_flow(task, encoder, embeddings):
  pairs = task.all_pairs()
  flow, _ = make_flow(FlowSettings(seed=_FLOW_SEED), encoder.dim(_CALIBRATED))
  flow.fit_source(embedding_pairs(embeddings, pairs))
  return _spearman(task, embeddings, flow.transform)


def card(about, found):
  """Text of the card.

  Args:
    about: what run_pretraining.py says of the training in results.json.
    found: {what: Spearman x 100}, or None for a card without figures.
  """
  sizes, flags, versions = about["sizes"], about["flags"], about["versions"]
  return _CARD.format(
    layers=sizes["num_hidden_layers"],
    width=sizes["hidden_size"],
    heads=sizes["num_attention_heads"],
    inner=sizes["intermediate_size"],
    positions=sizes["max_position_embeddings"],
    parameters=about["parameters"],
    pieces=sizes["vocab_size"],
    case="lower-cased" if flags["do_lower_case"] else "cased",
    vocabulary="built from the text"
    if flags["vocab_file"] is None
    else f"the text's most frequent of `{_name(flags['vocab_file'])}`",
    dtype=flags["weights_dtype"],
    steps=flags["num_train_steps"],
    batch=flags["train_batch_size"],
    passes=about["passes"],
    decay=flags["weight_decay"],
    rate=flags["learning_rate"],
    warmup=flags["num_warmup_steps"],
    dropout=flags["dropout"],
    precision=flags["precision"],
    seed=flags["seed"],
    loss=about["final_loss"],
    sentences=about["corpus"]["sentences"],
    corpus=_name(about["corpus"]["file"]),
    sha256=about["corpus"]["sha256"],
    package=versions["bert_flow_tf"],
    tensorflow=versions["tensorflow"],
    transformers=versions["transformers"],
    figures="" if found is None else _table(found, min(_MAX_SEQ_LENGTH, sizes["max_position_embeddings"])),
  )


def _table(found, length):
  return _FIGURES.format(
    length=length,
    names=" | ".join(found),
    rules=" | ".join(["---"] * len(found)),
    values=" | ".join(f"{value:.2f}" for value in found.values()),
    seed=_FLOW_SEED,
    pooling=_CALIBRATED,
  )


def _spearman(task, embeddings, transform):
  split = task.spec.eval_split
  return evaluate(task, embeddings, transform, [split])[0][split]["spearman"]


def _name(path):
  return pathlib.PurePath(path).name
