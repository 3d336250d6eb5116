"""A task's sentences embedded once, and its figures from them; what the runners share beside flags."""

import dataclasses

import numpy as np
from absl import logging

import bert_flow_tf
from bert_flow_tf.evaluation import report
from bert_flow_tf.evaluation.bootstrap import bootstrap_gain
from bert_flow_tf.evaluation.figures import figures
from bert_flow_tf.evaluation.metrics import auc, correlation
from bert_flow_tf.evaluation.similarity import cosine_similarity, mean_random_cosine

# Methods in results.json and on the terminal; other calibrations stand there under their own names.
WITHOUT_FLOW, WITH_FLOW = "without_flow", "with_flow"


class Embeddings:
  """The embeddings of sentences, each distinct one once.

  Args:
    encoder: a `SentenceEncoder`.
    sets: `SentencePairs` whose sentences are embedded.
    batch_size: sentences embedded at once.
    cache: folder where embeddings are kept, or None.
    **arguments: sentence_embedding_type, max_seq_length and low_dim, as `SentenceEncoder.encode` takes them.
  """

  def __init__(self, encoder, sets, batch_size=64, cache=None, **arguments):
    sentences = (s for pairs in sets for s in (*pairs.sentences_a, *pairs.sentences_b))
    self._rows = {sentence: row for row, sentence in enumerate(dict.fromkeys(sentences))}
    self._values = encoder.encode(list(self._rows), batch_size=batch_size, cache=cache, **arguments)
    self._arguments = arguments
    self._encoder = encoder

  def have(self, pairs):
    """Whether all sentences of the pairs are among them."""
    return all(s in self._rows for s in (*pairs.sentences_a, *pairs.sentences_b))

  def of(self, sentences):
    """float32 [n, dim] of the sentences, in their order."""
    return self._values[[self._rows[sentence] for sentence in sentences]]

  def rows(self, pairs):
    """What a `Calibration` is fitted on: float32 [2 n, dim], all first sentences, then all second ones."""
    return self.of([*pairs.sentences_a, *pairs.sentences_b])

  def source(self, pairs, numbers=None, num_pairs=None):
    """`EmbeddingPairs` of sentence pairs, known by what they were computed from; the last two as there."""
    fingerprint = self._encoder.fingerprint([*pairs.sentences_a, *pairs.sentences_b], **self._arguments)
    sides = self.of(pairs.sentences_a), self.of(pairs.sentences_b)
    return bert_flow_tf.EmbeddingPairs(*sides, fingerprint, numbers, num_pairs)


def evaluate(task, embeddings, transform, splits=None):
  """Figures of every split that has gold: ({split: dict}, {split: cosines [n]}).

  Args:
    task: `TaskData`.
    embeddings: `Embeddings` of its sentences.
    transform: what is done to embeddings [n, dim] before their cosine.
    splits: names of splits; None for all.
  """
  found, cosines = {}, {}
  for split in splits or task.splits:
    pairs = task.splits[split]
    a, b = transform(embeddings.of(pairs.sentences_a)), transform(embeddings.of(pairs.sentences_b))
    cosines[split] = pair_cosines(a, b, split)
    agreement = figures_of_split(split, pairs, cosines[split], task.spec.metric)
    for name, rows, _ in parts(split, pairs):
      if name in agreement:
        found[name] = {
          **agreement[name],
          "sentences": len({*pairs.sentences_a[rows], *pairs.sentences_b[rows]}),
          "cosine_of_unpaired": 100.0 * mean_random_cosine(a[rows], b[rows]),
        }
  return found, cosines


def figures_of_split(split, pairs, similarities, metric):
  """{name of `parts`: agreement with gold} of a split's similarities [n], parts without gold left out."""
  return {
    name: figures(similarities[rows], pairs.scores[rows], subsets, metric)
    for name, rows, subsets in parts(split, pairs)
    if not np.isnan(pairs.scores[rows]).all()
  }


def pair_cosines(a, b, split):
  """Cosine of each pair, [n], of two [n, dim]; 0, as in SentEval, where an embedding is zero (no known word)."""
  zero = ~(np.any(a, axis=1) & np.any(b, axis=1))
  if zero.any():
    logging.warning("%s: %d pairs have a sentence whose embedding is zero; their similarity is 0", split, zero.sum())
  return np.where(zero, 0.0, cosine_similarity(a, b))


def parts(split, pairs):
  """(name, slice of rows, subset names) of a split, before it those of each task of a union such as STS-12-16."""
  names = pairs.subset_names()
  for group, subsets in pairs.groups().items():
    rows = slice(subsets[0].start, subsets[-1].stop)
    yield f"{split} {group}", rows, names[rows]
  yield split, slice(None), names


def gains(task, cosines):
  """{split: {method: paired bootstrap of its gain in Spearman, or in AUC where that is the metric}}.

  Args:
    task: `TaskData`.
    cosines: {method: {split: [n]}}. The gain is over `WITHOUT_FLOW`, or over the first where that is not among them.
  """
  split = task.spec.eval_split
  if split is None:
    return {}
  first = WITHOUT_FLOW if WITHOUT_FLOW in cosines else next(iter(cosines))
  pairs, before = task.splits[split], cosines[first][split]
  auc_alone = {"metric": "auc"} if task.spec.metric == "auc" else {}

  def gain(after, rows, subsets):
    subsets = None if auc_alone else subsets or None
    found = bootstrap_gain(before[rows], after[rows], pairs.scores[rows], subsets, **auc_alone)
    return {**dataclasses.asdict(found), "over": first}

  return {
    name: {method: gain(after[split], rows, subsets) for method, after in cosines.items() if method != first}
    for name, rows, subsets in parts(split, pairs)
  }


def by_split(found):
  """{split: {method: figures}} of {method: (figures by split, cosines)}."""
  splits = next(iter(found.values()))[0]
  return {split: {method: figures[split] for method, (figures, _) in found.items()} for split in splits}


def say(results, intervals, seconds):
  """Prints the table and the gains' intervals; says in the log why a figure is NaN.

  Args:
    results: {split: {method: figures}}.
    intervals: {split: {method: gain}}, as `gains` gives them.
    seconds: {what: seconds}.
  """
  print(report.table(results, seconds) if results else f"seconds: {report.spent(seconds)}")
  for split, methods in intervals.items():
    for method, gain in methods.items():
      by = "" if list(methods) == [WITH_FLOW] else f" by {method.replace('_', ' ')}"
      by += f" over {gain['over'].replace('_', ' ')}" if gain["over"] != WITHOUT_FLOW else ""
      interval = f"{100 * gain['level']:.0f}% interval {gain['low']:+.2f} to {gain['high']:+.2f}"
      unknown = f"no interval: {gain['reason']}" if gain["reason"] else ""
      figure = "AUC" if gain["metric"] == "auc" else "Spearman"
      print(f"gain in {figure} on {split}{by}: {gain['gain']:+.2f}, {unknown or interval}")
  if not results:
    logging.info("no gold scores: there is nothing to evaluate")
  for split, methods in results.items():
    for method, found in methods.items():
      if found["reason"]:
        logging.warning("no figure on %s %s: %s", split, method.replace("_", " "), found["reason"])


def original_agreement(metric, similarities, gold):
  """Agreement of all pairs of a split under the original's keys, from -1 to 1; eval_spearmanr and eval_auc are ours.

  Args:
    metric: of the `TaskSpec`.
    similarities: [n].
    gold: [n].
  """
  if metric == "auc":
    return {"eval_auc": auc(similarities, gold).auc / 100.0}
  found = correlation(similarities, gold)
  return {"eval_pearsonr": found.pearson / 100.0, "eval_spearmanr": found.spearman / 100.0}


def original_eval_results(task, embeddings, flow, cosines, steps):
  """Figures with the flow under the original's keys; see `original_agreement`.

  Args:
    task: `TaskData`.
    embeddings: `Embeddings` of its sentences.
    flow: the fitted `Glow`.
    cosines: [n] with the flow, of the split that counts.
    steps: steps of the fit.
  """
  pairs = task.splits[task.spec.eval_split]
  low, high = task.spec.scale
  squared_errors = (cosines - (pairs.scores - low) / (high - low)) ** 2
  sides = (embeddings.of(pairs.sentences_a), embeddings.of(pairs.sentences_b))
  flow_loss = float(sum(flow.bits_per_dim(side).numpy().mean() for side in sides))
  return {
    "eval_loss": float(np.nanmean(squared_errors)),
    "eval_loss_flow": flow_loss,
    "eval_loss_total": flow_loss,  # no label takes part in the fit
    "loss": flow_loss,
    **original_agreement(task.spec.metric, cosines, pairs.scores),
    "global_step": steps,
  }
