"""A task's sentences embedded once, and its figures from them; what the runners share beside flags."""

import dataclasses

import numpy as np

import bert_flow_tf
from bert_flow_tf.evaluation.bootstrap import bootstrap_gain
from bert_flow_tf.evaluation.figures import figures
from bert_flow_tf.evaluation.metrics import correlation
from bert_flow_tf.evaluation.similarity import cosine_similarity, mean_random_cosine


class Embeddings:
  """The embeddings of all sentences of a task, each distinct sentence once.

  Args:
    encoder: a `SentenceEncoder`.
    task: `TaskData`.
    batch_size: sentences embedded at once.
    cache: folder where embeddings are kept, or None.
    **arguments: sentence_embedding_type, max_seq_length and low_dim, as `SentenceEncoder.encode` takes them.
  """

  def __init__(self, encoder, task, batch_size=64, cache=None, **arguments):
    sentences = [s for pairs in task.splits.values() for s in (*pairs.sentences_a, *pairs.sentences_b)]
    self._rows = {sentence: row for row, sentence in enumerate(dict.fromkeys(sentences))}
    self._values = encoder.encode(list(self._rows), batch_size=batch_size, cache=cache, **arguments)
    self._arguments = arguments
    self._encoder = encoder

  def of(self, sentences):
    """float32 [n, dim] of the sentences, in their order."""
    return self._values[[self._rows[sentence] for sentence in sentences]]

  def pairs(self, pairs):
    """`EmbeddingPairs` of sentence pairs, known by what they were computed from."""
    fingerprint = self._encoder.fingerprint([*pairs.sentences_a, *pairs.sentences_b], **self._arguments)
    return bert_flow_tf.EmbeddingPairs(self.of(pairs.sentences_a), self.of(pairs.sentences_b), fingerprint)


def evaluate(task, embeddings, transform):
  """Figures of every split that has gold: ({split: dict}, {split: cosines [n]}).

  Args:
    task: `TaskData`.
    embeddings: `Embeddings` of its sentences.
    transform: what is done to embeddings [n, dim] before their cosine.
  """
  found, cosines = {}, {}
  for split, pairs in task.splits.items():
    a, b = transform(embeddings.of(pairs.sentences_a)), transform(embeddings.of(pairs.sentences_b))
    cosines[split] = cosine_similarity(a, b)
    for name, rows, subsets in parts(split, pairs):
      if np.isnan(pairs.scores[rows]).all():
        continue
      found[name] = {
        **figures(cosines[split][rows], pairs.scores[rows], subsets, task.spec.metric),
        "sentences": len({*pairs.sentences_a[rows], *pairs.sentences_b[rows]}),
        "cosine_of_unpaired": 100.0 * mean_random_cosine(a[rows], b[rows]),
      }
  return found, cosines


def parts(split, pairs):
  """(name, slice of rows, subset names) of a split: one, or one for each task of a union such as STS-12-16."""
  names = pairs.subset_names()
  for group, subsets in pairs.groups().items():
    rows = slice(subsets[0].start, subsets[-1].stop)
    yield f"{split} {group}", rows, names[rows]
  if not pairs.groups():
    yield split, slice(None), names


def gains(task, before, after):
  """{split: paired bootstrap of the gain in Spearman}, for the split that counts, where the metric is a correlation."""
  split = task.spec.eval_split
  if split is None or task.spec.metric != "correlation":
    return {}
  pairs = task.splits[split]
  return {
    name: dataclasses.asdict(
      bootstrap_gain(before[split][rows], after[split][rows], pairs.scores[rows], subsets or None)
    )
    for name, rows, subsets in parts(split, pairs)
  }


def original_eval_results(task, embeddings, flow, cosines, steps):
  """Figures with the flow under the original's keys, correlations from -1 to 1 as there; eval_spearmanr is ours.

  Args:
    task: `TaskData`.
    embeddings: `Embeddings` of its sentences.
    flow: the fitted `Glow`.
    cosines: [n] with the flow, of the split that counts.
    steps: steps of the fit.
  """
  pairs = task.splits[task.spec.eval_split]
  found = correlation(cosines, pairs.scores)
  low, high = task.spec.scale
  squared_errors = (cosines - (pairs.scores - low) / (high - low)) ** 2
  sides = (embeddings.of(pairs.sentences_a), embeddings.of(pairs.sentences_b))
  flow_loss = float(sum(flow.bits_per_dim(side).numpy().mean() for side in sides))
  return {
    "eval_loss": float(np.nanmean(squared_errors)),
    "eval_loss_flow": flow_loss,
    "eval_loss_total": flow_loss,  # no label takes part in the fit
    "loss": flow_loss,
    "eval_pearsonr": found.pearson / 100.0,
    "eval_spearmanr": found.spearman / 100.0,
    "global_step": steps,
  }
