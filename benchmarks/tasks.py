"""Whole tasks, by our method and by the original's (`benchmarks/run.py --benchmark=tasks`).

Ours embeds each distinct sentence of a task once, in batches of similar length. The original runs BERT on every batch
of the fit and again for the evaluation; it pads every sentence to `max_seq_length` and embeds repeated sentences again
(docs/original.md). Both fit the same flow from the same seed with the same `Trainer`. BERT's dropout, which the
original has during the fit, is off in both, so that the scores can be compared; it would not make the original faster.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from benchmarks import measure
from bert_flow_tf.calibration.names import FLOW, parse_calibration
from bert_flow_tf.data.flow_corpus import default_epochs
from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.data.task import TaskData
from bert_flow_tf.encoder.embeddings import Embeddings
from bert_flow_tf.encoder.sentence_encoder import SentenceEncoder
from bert_flow_tf.encoder.text.word_piece import pad_batch
from bert_flow_tf.evaluation.metrics import cosine_similarity, score_pairs
from bert_flow_tf.training.fit_rows import FitSentences
from bert_flow_tf.training.fitter import Fitter
from bert_flow_tf.training.flow_fit import fit_flow, make_trainer
from bert_flow_tf.training.settings import FlowSettings

OURS, ORIGINAL = "ours", "original's method"


class PaddedEncoder:
  """The original's embedding: every sentence padded to `max_seq_length`, repeated sentences embedded again.

  The graph is that of `SentenceEncoder`, traced for this length, so that only the padding makes it slower.
  """

  def __init__(self, encoder: SentenceEncoder, pooling: str, max_seq_length: int, batch_size: int) -> None:
    self._tokenizer = encoder.tokenizer
    self._length, self._batch_size = max_seq_length, batch_size
    spec = tf.TensorSpec([None, max_seq_length], tf.int32)

    @tf.function(input_signature=[spec, spec], autograph=False)
    def embed(ids, mask):
      return encoder.pooled_batch(ids, mask, pooling, packed=False)

    # A concrete function is traced here, once, and not in the graph of each fit.
    self.embed = embed.get_concrete_function()

  def tokenize(self, sentences: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Returns ids and mask, int32 [n, max_seq_length] each."""
    longest = np.zeros([self._length], np.int32)  # makes the padding long enough; its row is dropped
    ids, mask = pad_batch([*self._tokenizer(sentences, self._length), longest], self._tokenizer.pad_id)
    return ids[:-1], mask[:-1]

  def encode(self, sentences: Sequence[str]) -> np.ndarray:
    """Returns embeddings in the order of the sentences, float32 [n, dim]."""
    ids, mask = self.tokenize(sentences)
    starts = range(0, len(ids), self._batch_size)
    batches = [(ids[at : at + self._batch_size], mask[at : at + self._batch_size]) for at in starts]
    return np.concatenate([self.embed(tf.constant(ids), tf.constant(mask)).numpy() for ids, mask in batches])


class PaddedPairs:
  """Pairs that are embedded in each step of a fit; a source for `Trainer.fit`."""

  data_of = None

  def __init__(self, encoder: PaddedEncoder, pairs: SentencePairs) -> None:
    self._encoder = encoder
    self._sides = [encoder.tokenize(side) for side in (pairs.sentences_a, pairs.sentences_b)]

  def __len__(self) -> int:
    return len(self._sides[0][0])

  def features(self, positions: tf.data.Dataset) -> tf.data.Dataset:
    """Maps a dataset of positions [batch] to one of ids and masks of both sides."""
    sides = tf.nest.map_structure(tf.constant, self._sides)
    return positions.map(lambda batch: tf.nest.map_structure(lambda side: tf.gather(side, batch), sides))

  def embed(self, features: Any, dropout_seed: Any) -> list[tf.Tensor]:
    """Embeds both sides at once: two float32 [batch, dim]."""
    del dropout_seed
    ids, mask = (tf.concat(parts, axis=0) for parts in zip(*features, strict=True))
    return tf.split(self._encoder.embed(ids, mask), 2)


def headline(task: TaskData, cosines: np.ndarray) -> float:
  """Returns the metric x 100 of the evaluated split, the weighted mean over subsets if the task has them."""
  pairs = task.splits[str(task.spec.eval_split)]
  result = score_pairs(cosines, pairs.scores, pairs.subset_names(), task.spec.metric)
  return result.get("spearman_wmean", result.get("spearman", result.get("auc")))


def evaluate(task: TaskData, embed: Callable, transform: Callable) -> tuple[float, float]:
  """Returns the headline without and with the flow, embedding the evaluated split once."""
  pairs = task.splits[str(task.spec.eval_split)]
  a, b = embed(pairs.sentences_a), embed(pairs.sentences_b)
  return headline(task, cosine_similarity(a, b)), headline(task, cosine_similarity(transform(a), transform(b)))


def run(benchmark: Any) -> tuple[dict[str, Any], str]:
  """Runs the tasks by both methods in turns; returns JSON values and Markdown."""
  results, fitter = [], Fitter(show_progress=False, keep_trainers=True)
  for name in benchmark.settings.tasks:
    results.append(run_task(benchmark, benchmark.task(name), fitter))
    logging.info("%s: ratio %.2f", name, results[-1]["ratio"])
  rounds = range(benchmark.settings.repeats)
  sums = {method: [sum(r["seconds"][method][i] for r in results) for i in rounds] for method in (OURS, ORIGINAL)}
  summary: dict[str, Any] = {
    "seconds": {method: measure.median(values) for method, values in sums.items()},
    "ratio": measure.median_ratio(sums[ORIGINAL], sums[OURS]),
    "tasks": results,
  }
  for key in ("without_flow", "with_flow"):
    differences = [abs(r["figures"][OURS][key] - r["figures"][ORIGINAL][key]) for r in results]
    summary[f"{key}_apart"] = max(differences)
  return summary, to_markdown(summary)


def run_task(benchmark: Any, task: TaskData, fitter: Fitter) -> dict[str, Any]:
  """Runs one task by both methods in turns; our flow is compiled once for all tasks."""
  encoder, arguments = benchmark.encoder, benchmark.pooling_arguments
  batch_size, corpus = benchmark.embedding.predict_batch_size, task.all_pairs()
  padded = PaddedEncoder(encoder, arguments["sentence_embedding_type"], arguments["max_seq_length"], batch_size)
  # Start-up that both have once a process: tracing the encoder's graph, starting its threads.
  first = list(corpus.sentences_a[:1])
  dim = padded.encode(first).shape[1]
  encoder.encode(first, batch_size=batch_size, show_progress=False, **arguments)
  epochs = task.spec.num_train_epochs or default_epochs(len(corpus))
  flow_settings = FlowSettings(flow_model_config=benchmark.config, seed=benchmark.flow.seed, num_train_epochs=epochs)
  sides = list(corpus.sentences_a), list(corpus.sentences_b)

  def ours():
    embeddings = Embeddings(encoder, [corpus], batch_size, **arguments)
    rows = FitSentences(encoder, encoder.identity(**arguments), sides, cached=[embeddings])
    (flow,) = fitter.fit([parse_calibration(FLOW)], rows, flow_settings)
    return evaluate(task, embeddings.of, flow.transform)

  def original():
    trainer = make_trainer(flow_settings, dim, show_progress=False)
    flow, _ = fit_flow(trainer, PaddedPairs(padded, corpus), epochs)
    return evaluate(task, padded.encode, flow.transform)

  methods = {OURS: lambda: measure.seconds(ours), ORIGINAL: lambda: measure.seconds(original)}
  rounds = measure.in_turns(methods, benchmark.settings.repeats)
  seconds = {method: [duration for duration, _ in results] for method, results in rounds.items()}
  figures = {}
  for method, results in rounds.items():
    figures[method] = dict(zip(("without_flow", "with_flow"), results[-1][1], strict=True))
  return {
    "task": task.spec.name,
    "pairs": len(corpus),
    "distinct_sentences": len({*corpus.sentences_a, *corpus.sentences_b}),
    "seconds": seconds,
    "figures": figures,
    "ratio": measure.median_ratio(seconds[ORIGINAL], seconds[OURS]),
  }


def to_markdown(summary: dict[str, Any]) -> str:
  """Returns the table of the result of `run`."""
  rows = []
  for result in summary["tasks"]:
    both = [result["figures"][method] for method in (OURS, ORIGINAL)]
    seconds = [f"{measure.median(result['seconds'][method]):.1f}" for method in (OURS, ORIGINAL)]
    scores = [f"{values[key]:.2f}" for key in ("without_flow", "with_flow") for values in both]
    rows.append([result["task"], result["distinct_sentences"], *seconds, f"{result['ratio']:.2f}", *scores])
  total = [f"{summary['seconds'][method]:.1f}" for method in (OURS, ORIGINAL)]
  rows.append(["all", "", *total, f"**{summary['ratio']:.2f}**", "", "", "", ""])
  header = ["task", "distinct sentences", "ours (s)", "original's (s)", "ratio"]
  header += ["without flow", "original's", "with flow", "original's"]
  return (
    f"{measure.markdown_table(header, rows)}\n\nRatio of all: {summary['ratio']:.2f}. Largest differences of scores: "
    f"{summary['without_flow_apart']:.3f} without and {summary['with_flow_apart']:.3f} with the flow.\n\n"
    "Spearman x 100 (STS-12 to STS-16: mean weighted by subset size). The seconds contain tokenization, embedding, "
    "making, compiling and fitting the flow, and evaluation. Ours compiles once for all tasks, as run_table.py does; "
    "the original's method compiles for each. They do not contain imports, loading the encoder and tracing its graph, "
    "once a process. BERT's dropout is off in both."
  )
