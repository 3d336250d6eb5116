"""SentEval's interface: `prepare` and `batcher` (Conneau and Kiela 2018, "SentEval: An Evaluation Toolkit")."""

import numpy as np


class SentEvalAdapter:
  """What SentEval's engine calls, made of a function that embeds sentences.

      adapter = SentEvalAdapter(model.encode)
      engine = senteval.engine.SE({"task_path": FOLDER}, adapter.batcher, adapter.prepare)
      engine.eval(["STS12", "STSBenchmark"])

  SentEval splits sentences at blanks. Here they are joined by single blanks again, and an empty one becomes ".", as in
  SentEval's own examples. `prepare` embeds all sentences of a task at once, each distinct one once and those of like
  length together; `batcher` then looks them up.

  Args:
    encode: list of n str -> array [n, dim]; `SentenceModel.encode`, for instance.
  """

  def __init__(self, encode):
    self._encode = encode
    self._rows, self._embeddings = {}, None

  def prepare(self, params, samples):
    """Embeds a task's sentences.

    Args:
      params: SentEval's parameters, not used.
      samples: sequence of sentences, each a list of words, or a str.
    """
    del params
    self._remember(dict.fromkeys(map(sentence_of, samples)))

  def batcher(self, params, batch):
    """Embeds a batch.

    Args:
      params: SentEval's parameters, not used.
      batch: sequence of n sentences, as those of `prepare`.

    Returns:
      float32 array of shape [n, dim].
    """
    del params
    sentences = list(map(sentence_of, batch))
    if self._embeddings is None or not all(sentence in self._rows for sentence in sentences):
      # An engine without `prepare`, or a task that shows it less than it embeds.
      return np.asarray(self._encode(sentences), np.float32)
    return self._embeddings[[self._rows[sentence] for sentence in sentences]]

  def _remember(self, sentences):
    self._rows = {sentence: row for row, sentence in enumerate(sentences)}
    self._embeddings = np.asarray(self._encode(list(self._rows)), np.float32) if self._rows else None


def sentence_of(words):
  """One sentence of SentEval's, a sequence of words (str, or bytes in UTF-8) or a str, as a str."""
  if not isinstance(words, str):
    words = " ".join(word.decode("utf-8", "replace") if isinstance(word, bytes) else str(word) for word in words)
  return words if words.strip() else "."
