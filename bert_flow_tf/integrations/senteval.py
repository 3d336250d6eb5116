"""SentEval's interface: `prepare` and `batcher` (Conneau and Kiela 2018, "SentEval: An Evaluation Toolkit")."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
  from bert_flow_tf.model import SentenceModel

Sentence = Sequence[str | bytes]  # words, or a str


class SentEvalAdapter:
  """Adapter of a model, or of a function that embeds sentences, to SentEval's engine.

      adapter = SentEvalAdapter(SentenceModel.load("exp/stsb/flow"))
      engine = senteval.engine.SE({"task_path": FOLDER}, adapter.batcher, adapter.prepare)
      engine.eval(["STS12", "STSBenchmark"])

  SentEval splits sentences at blanks. The adapter joins words by single blanks again, and an empty sentence becomes
  ".", as in SentEval's own examples. `prepare` embeds each distinct sentence of a task once, in batches of similar
  length; `batcher` looks the embeddings up.

  Args:
    model: a `SentenceModel`, or a function from a list of n str to an array [n, dim].
  """

  def __init__(self, model: "SentenceModel | Callable[[list[str]], np.ndarray]") -> None:
    self._encode: Callable[[list[str]], np.ndarray]
    if hasattr(model, "encode"):
      self._encode = model.encode
    else:
      self._encode = model
    self._rows: dict[str, int] = {}
    self._embeddings: np.ndarray | None = None

  def prepare(self, params: object, samples: Sequence[Sentence]) -> None:
    """Embeds a task's sentences.

    Args:
      params: SentEval's parameters, not used.
      samples: sequence of sentences, each a list of words, or a str.
    """
    del params
    sentences = list(dict.fromkeys(map(sentence_of, samples)))
    self._rows = {sentence: row for row, sentence in enumerate(sentences)}
    self._embeddings = None
    if sentences:
      self._embeddings = np.asarray(self._encode(sentences), np.float32)

  def batcher(self, params: object, batch: Sequence[Sentence]) -> np.ndarray:
    """Embeds a batch.

    Args:
      params: SentEval's parameters, not used.
      batch: sequence of n sentences, as `prepare` takes them.

    Returns:
      float32 array of shape [n, dim].
    """
    del params
    sentences = list(map(sentence_of, batch))
    if self._embeddings is None or not self._rows.keys() >= set(sentences):
      # An engine without `prepare`, or a task that shows it less than it embeds.
      return np.asarray(self._encode(sentences), np.float32)
    return self._embeddings[list(map(self._rows.__getitem__, sentences))]


def sentence_of(words: Sentence) -> str:
  """Joins a sentence of SentEval's, a sequence of words (str, or bytes in UTF-8), by blanks; a str stays."""
  if isinstance(words, str):
    sentence = words
  else:
    texts = [word.decode("utf-8", "replace") if isinstance(word, bytes) else str(word) for word in words]
    sentence = " ".join(texts)
  return sentence if sentence.strip() else "."
