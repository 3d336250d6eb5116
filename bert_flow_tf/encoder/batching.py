"""Embedding of token ids in batches of similar length."""

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from bert_flow_tf.encoder.tokenizer import pad_batch
from bert_flow_tf.errors import EncoderError
from bert_flow_tf.progress import Progress

# Tokens of a step on a CPU. One constant, as it decides the rounding of some embeddings (a product of few rows adds up
# in another order). From 512 to 2048 tokens the CPU time differs by 2%; 384 take up to 4% more, 128 up to 13% (384, 768
# and 1024 wide; oneDNN with AVX2, AVX512 and AVX512-BF16).
_CPU_TOKENS = 768


def embed_in_batches(
  embed: Callable[[np.ndarray, np.ndarray], tf.Tensor],
  ids: Sequence[np.ndarray],
  dim: int,
  batch_size: int,
  pad_id: int,
  progress: Progress,
) -> np.ndarray:
  """Embeds token ids, the longest first, so that a batch that is too large fails at once.

  Args:
    embed: function of ids and mask, int32 [batch, seq_len], that returns float32 [batch, dim].
    ids: n int32 arrays of shape [seq_len].
    dim: size of the embeddings.
    batch_size: largest number of sentences in a step.
    pad_id: id of [PAD].
    progress: counter of the embedded sentences.

  Returns:
    float32 array of shape [n, dim], in the order of `ids`.
  """
  embeddings = np.empty([len(ids), dim], np.float32)
  order = np.argsort([-len(row) for row in ids], kind="stable")
  on_cpu = not tf.config.list_logical_devices("GPU")
  start = 0
  while start < len(ids):
    count = min(batch_size, max(1, _CPU_TOKENS // len(ids[order[start]]))) if on_cpu else batch_size
    chosen = order[start : start + count]
    start += count
    embeddings[chosen] = embed(*pad_batch([ids[i] for i in chosen], pad_id)).numpy()
    progress.update(len(chosen))
  return embeddings


def check_finite(embeddings: np.ndarray, sentences: np.ndarray, name: str) -> None:
  """Raises an error unless embeddings are finite.

  Args:
    embeddings: float32 array of shape [n, dim].
    sentences: numbers of their sentences, array of shape [n], for the message.
    name: name of the encoder, for the message.

  Raises:
    EncoderError: an embedding is not finite.
  """
  finite = np.isfinite(embeddings).all(axis=1)
  if not finite.all():
    raise EncoderError(
      f"sentence {sentences[~finite][0]} (counted from 0): its embedding by '{name}' is not finite, as for "
      f"{(~finite).sum()} distinct sentences; the model's weights are damaged or overflow"
    )
