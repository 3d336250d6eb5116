"""Shape of embeddings: cosines of random pairs, and singular values."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.evaluation import figures
from bert_flow_tf.evaluation.isotropy import sample, singular_spectrum
from bert_flow_tf.evaluation.metrics import random_pair_cosines
from bert_flow_tf.evaluation.task_scores import Encode


@dataclasses.dataclass(frozen=True)
class Spectra:
  """Shape of the embeddings of a task's sentences.

  Attributes:
    random_pairs: {method: percentage of the cosines of random pairs in each of `figures.BINS`, float64 [80]}.
    pairs: {method: percentage of the cosines of the task's pairs, float64 [80]}.
    singular_values: {method: singular values by the largest, falling, float64 [k]}.
  """

  random_pairs: Mapping[str, np.ndarray]
  pairs: Mapping[str, np.ndarray]
  singular_values: Mapping[str, np.ndarray]

  def arrays(self) -> dict[str, np.ndarray]:
    """Returns {name: array}, from which `of` makes this object again."""
    arrays = {
      "random_pairs": np.array(list(self.random_pairs.values())),
      "pairs": np.array(list(self.pairs.values())),
    }
    for number, values in enumerate(self.singular_values.values()):
      arrays[f"singular_values/{number}"] = values
    return arrays

  @classmethod
  def of(cls, methods: Sequence[str], arrays: Mapping[str, np.ndarray], prefix: str = "") -> "Spectra":
    """Returns the object of methods, in their order, and of arrays whose names begin with a prefix."""
    random_pairs = dict(zip(methods, arrays[f"{prefix}random_pairs"], strict=True))
    pairs = dict(zip(methods, arrays[f"{prefix}pairs"], strict=True))
    singular_values = {}
    for number, method in enumerate(methods):
      singular_values[method] = arrays[f"{prefix}singular_values/{number}"]
    return cls(random_pairs, pairs, singular_values)


def measure_spectra(pairs: SentencePairs, encoders: Mapping[str, Encode], cosines: Mapping[str, np.ndarray]) -> Spectra:
  """Returns the shape of the embeddings by each method of a sample of pairs, whose cosines are {method: [n]}."""
  random_pairs, of_pairs, singular_values = {}, {}, {}
  for method, encode in encoders.items():
    a, b = encode(sample(pairs.sentences_a)), encode(sample(pairs.sentences_b))
    random_pairs[method] = figures.percentages(random_pair_cosines(a, b))
    of_pairs[method] = figures.percentages(cosines[method])
    singular_values[method] = singular_spectrum(sample(np.concatenate([a, b])))
  return Spectra(random_pairs, of_pairs, singular_values)
