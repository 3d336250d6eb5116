"""Score of embeddings without labels: similarities of sentences and of mixtures, each with known shares of two."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from bert_flow_tf.errors import DataError
from bert_flow_tf.evaluation.metrics import correlation, cosine_similarity
from bert_flow_tf.progress import counted

# Sentences that are mixed, and mixtures of each. Between two draws of 600 sentences, scores differ by some 0.3.
_SENTENCES, _DRAWS = 600, 3


@dataclasses.dataclass(frozen=True)
class Mixtures:
  """Sentences, n int32 arrays [seq_len] of token ids, and m mixtures, each of two of the sentences."""

  originals: list[np.ndarray]
  mixed: list[np.ndarray]
  # int64 [m], number of the sentence that a mixture is compared with.
  rows: np.ndarray
  # float64 [m], the share that the mixture has of that sentence, 0 to 1.
  gold: np.ndarray

  def agreement(self, originals: np.ndarray, mixed: np.ndarray) -> float:
    """Returns Spearman's correlation x 100 of `gold` and the cosines of embeddings [n, dim] and [m, dim]."""
    cosines = np.nan_to_num(cosine_similarity(np.asarray(originals)[self.rows], mixed))
    return correlation(cosines, self.gold).spearman


def make_mixtures(ids: Sequence[np.ndarray], seed: int = 0, sentences: int = _SENTENCES) -> Mixtures:
  """Mixes each of some sentences, token ids int32 [seq_len] with [CLS] and [SEP], with three others."""
  # gold = W(x) / sqrt(W(a) W(m)),  W(x) = sum over the pieces v of x of ln((N + 1) / (df_v + 1))
  # for a sentence a, a mixture m of it and the pieces x that m has from a: the cosine of two bags of words, if their
  # words differ. df_v of the N sentences have piece v. Without these weights frequent words would count as much as rare
  # ones, and the score would prefer embeddings that do the same.
  pieces = [row[1:-1] for row in ids if len(row) > 2]
  if len(pieces) < 3:
    found = f"mixes sentences with each other, and got {counted(len(pieces), 'different sentence')} with words"
    raise DataError(f"calibration=auto: {found}; give 3 or more, or choose another calibration", "calibration")
  frequencies = np.bincount(np.concatenate(list(map(np.unique, pieces))))
  weights = np.log((len(pieces) + 1) / (frequencies + 1))
  longest = max(map(len, pieces))
  rng = np.random.default_rng(seed)
  sampled = list(map(pieces.__getitem__, rng.permutation(len(pieces))[:sentences]))
  first, last = ids[0][:1], ids[0][-1:]
  mixed, rows, gold = [], [], []
  for _ in range(_DRAWS):
    # Each sentence is mixed with its neighbor in a circle of all.
    circle = rng.permutation(len(sampled))
    for row, other in zip(circle, np.roll(circle, 1), strict=True):
      a, b = sampled[row], sampled[other]
      share = rng.random()
      of_a = a[rng.random(len(a)) < share]
      of_b = b[rng.random(len(b)) >= share]
      if not len(of_a) + len(of_b):
        of_a = a
      mixture = np.concatenate([of_a, of_b])[:longest]
      total = weights[a].sum() * weights[mixture].sum()
      mixed.append(np.concatenate([first, mixture, last]))
      rows.append(row)
      gold.append(weights[of_a].sum() / np.sqrt(total) if total else 0.0)
  originals = [np.concatenate([first, row, last]) for row in sampled]
  return Mixtures(originals, mixed, np.array(rows), np.array(gold))
