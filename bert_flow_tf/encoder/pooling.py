"""Pooling of BERT's hidden states to a sentence embedding, by `sentence_embedding_type`.

A way to pool is a function in `KINDS`; its names stand in `POOLINGS` and nowhere else: the allowed values, the flag's
help and the meaning of other programs' names derive from them. It pools tensors, or NumPy arrays without TensorFlow.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from bert_flow_tf.encoder.array_functions import functions_for
from bert_flow_tf.errors import ConfigError

if TYPE_CHECKING:
  import numpy as np
  import tensorflow as tf

  Array: TypeAlias = "tf.Tensor | np.ndarray"

WORD_ROWS = "word-rows"
# Pooling of encoders that give vectors themselves; no BERT has it.
OUTPUT = "output"
# Pooling of encoders whose files declare none.
DEFAULT_POOLING = "avg-first-last"
_SHARE = 0.6
# Parameters of names: N is a number of blocks, S a share, which may be left out.
_PARAMETERS = {"-N": "-([1-9][0-9]*)", "-S": r"(?:-(0\.[0-9]{1,4}))?"}


class _Batch(NamedTuple):
  """Input of a pooling: outputs of its blocks and rows of the word embeddings, float32 [batch, seq_len, hidden]."""

  states: list[Array]
  weights: Array
  pooled_output: Array | None
  word_rows: Array | None
  share: float


class _PoolingRule(NamedTuple):
  """Meaning of a `sentence_embedding_type`."""

  # Key of `KINDS`.
  kind: str
  # (number of the model's blocks, N) -> numbers of the pooled blocks.
  blocks: Callable[[int, int], tuple[int, ...]]
  help: str = ""
  # Names in folders of sentence-transformers.
  declared: tuple[str, ...] = ()
  # Whether N is the last digit alone, as in the published code: `avg-last-12` is `avg-last-2`.
  last_digit: bool = False


def _no_blocks(last: int, n: int) -> tuple[int, ...]:
  return ()


def _last_block(last: int, n: int) -> tuple[int, ...]:
  return (last,)


def _top_blocks(last: int, n: int) -> tuple[int, ...]:
  """Returns the last n blocks, the last one first."""
  return tuple(range(last, last - n, -1))


def _published_blocks(last: int, n: int) -> tuple[int, ...]:
  """Returns the blocks -i of the published code for i = 0..n-1, where -0 is 0: the first, the last, ..."""
  return (1, *_top_blocks(last, n - 1))


def _weighted_mean(states, weights):
  """Returns the weighted mean over the positions, float32 [batch, hidden]; 0 if all weights are 0."""
  tf = functions_for(states)
  states, weights = tf.cast(states, tf.float32), tf.cast(weights, tf.float32)
  total = tf.reduce_sum(weights, axis=1, keepdims=True)
  return tf.math.divide_no_nan(tf.reduce_sum(states * tf.expand_dims(weights, -1), axis=1), total)


def _mean(batch: _Batch) -> Array:
  tf = functions_for(batch.states[0])
  return tf.add_n([_weighted_mean(states, batch.weights) for states in batch.states]) / len(batch.states)


def _concat(batch: _Batch) -> Array:
  tf = functions_for(batch.states[0])
  return tf.concat([_weighted_mean(states, batch.weights) for states in batch.states], axis=-1)


def _max(batch: _Batch) -> Array:
  tf = functions_for(batch.states[0])
  is_token = tf.expand_dims(batch.weights, -1) > 0
  return tf.reduce_max(tf.where(is_token, tf.cast(batch.states[0], tf.float32), tf.float32.min), axis=1)


def _words(batch: _Batch) -> Array:
  return _weighted_mean(batch.word_rows, batch.weights)


def _mix(batch: _Batch) -> Array:
  """Returns share * w / |w| + (1 - share) * m / |m| of the words' mean w and the blocks' mean m."""
  return batch.share * _unit(_words(batch)) + (1.0 - batch.share) * _unit(_mean(batch))


def _unit(rows):
  tf = functions_for(rows)
  return tf.math.divide_no_nan(rows, tf.norm(rows, axis=1, keepdims=True))


KINDS: dict[str, Callable[[_Batch], Array]] = {
  "mean": _mean,
  "concat": _concat,
  "cls": lambda batch: batch.pooled_output,
  "token": lambda batch: batch.states[0][:, 0],
  "max": _max,
  "words": _words,
  "mix": _mix,
}
POOLINGS = {
  "avg": _PoolingRule("mean", _last_block, declared=("mean", "mean_tokens")),
  "avg-first-last": _PoolingRule("mean", lambda last, n: (1, last), "= avg-last-2"),
  "avg-last-N": _PoolingRule(
    "mean", _published_blocks, "the published code's: the first block and the last N-1", last_digit=True
  ),
  # The published code tests for the prefix `avg-last-` first.
  "avg-last-concat-N": _PoolingRule("mean", _published_blocks, "= avg-last-N", last_digit=True),
  "avg-last-last-N": _PoolingRule("mean", lambda last, n: (last + 1 - n,), "the block -N", last_digit=True),
  "avg-top-N": _PoolingRule("mean", _top_blocks, "the last N blocks"),
  "concat-top-N": _PoolingRule("concat", _top_blocks),
  "cls": _PoolingRule("cls", _no_blocks, "the pooled output"),
  "cls-token": _PoolingRule("token", _last_block, declared=("cls", "cls_token")),
  "max": _PoolingRule("max", _last_block, "the maximum over the tokens", declared=("max", "max_tokens")),
  WORD_ROWS: _PoolingRule("words", _no_blocks, "the word embeddings alone"),
  "mix-S": _PoolingRule("mix", _last_block, "S word-rows + (1 - S) avg, each divided by its length; mix = mix-0.6"),
}
_HELP = [f"{name} ({values.help})" if values.help else name for name, values in POOLINGS.items()]
ALLOWED = ", ".join(_HELP)
# {pooling in 1_Pooling/config.json: our name}
DECLARED_NAMES = {theirs: name for name, values in POOLINGS.items() for theirs in values.declared}


@dataclasses.dataclass(frozen=True)
class Pooling:
  """Pooling of hidden states, resolved for a model's number of blocks.

  `blocks`: numbers of the transformer's blocks, from 1; also their indices in transformers' `hidden_states`, whose 0 is
  the embedding layer. `share`: share of the words in a mix.
  """

  name: str
  kind: str
  blocks: tuple[int, ...]
  num_hidden_layers: int
  share: float = 1.0

  @property
  def identity(self) -> tuple[str | int | float, ...]:
    """Values that decide an embedding: ("mean", 1, 4), ("mix", 4, 0.6)."""
    if self.kind == "mix":
      return (self.kind, *self.blocks, self.share)
    return (self.kind, *self.blocks)

  @property
  def reads_words(self) -> bool:
    """True if the word embeddings themselves are pooled."""
    return self.kind in ("words", "mix")

  def dim(self, hidden_size: int, word_size: int | None = None) -> int:
    """Returns the size of the embedding for hidden states of `hidden_size` and word embeddings of `word_size`."""
    if self.kind == "words" and word_size is not None:
      return word_size
    if self.kind == "concat":
      return hidden_size * len(self.blocks)
    return hidden_size

  def describe(self, token_weights: str | None = None) -> str:
    """Returns a line for the log with the pooled blocks; `token_weights`: name of the weights, None for equal ones."""
    line = self.name
    if self.blocks:
      line += f": blocks {', '.join(map(str, self.blocks))} of {self.num_hidden_layers}"
    if token_weights is not None:
      line += f", token_weights {token_weights}"
    return line

  def pool(
    self,
    hidden_states: Sequence[Array] | Mapping[int, Array],
    weights: Array,
    pooled_output: Array | None = None,
    word_rows: Array | None = None,
  ) -> Array:
    """Returns the embeddings of a batch, float32 [batch, dim], of `hidden_states` [batch, seq_len, hidden].

    `weights` [batch, seq_len] are 0 for padding; the mask gives means over [CLS] and [SEP], too, as in the published
    code (docs/original.md). `word_rows` [batch, seq_len, hidden] are rows of the word embeddings of length 1. Of NumPy
    arrays the embeddings are a NumPy array.
    """
    states = [hidden_states[block] for block in self.blocks]
    embeddings = KINDS[self.kind](_Batch(states, weights, pooled_output, word_rows, self.share))
    tf = functions_for(embeddings)
    return tf.cast(embeddings, tf.float32)


def unit_rows_of_words(table: Array | tf.Variable, ids: Array, projection: Array | tf.Variable | None) -> Array:
  """Returns rows of a table of word embeddings by ids [batch, seq_len], each divided by its length.

  `projection`: kernel that widens them to the hidden states; None for none.
  """
  tf = functions_for(table, ids)
  embeddings = tf.gather(table, ids)
  if projection is not None:
    embeddings = tf.matmul(embeddings, projection)
  return tf.math.l2_normalize(embeddings, axis=-1)


def parse_pooling(sentence_embedding_type: str, num_hidden_layers: int) -> Pooling:
  """Returns the pooling of a `sentence_embedding_type` for a number of blocks; ConfigError for another value."""
  # Names with a parameter, "avg-top-N" and "mix-S", stand for many values.
  text = str(sentence_embedding_type)
  for name, values in POOLINGS.items():
    pattern = name.removesuffix(name[-2:]) + _PARAMETERS.get(name[-2:], name[-2:])
    match = re.fullmatch(pattern, text, re.ASCII)
    if not match:
      continue
    n, share = 0, 1.0
    if name.endswith("-N"):
      digits = match[1]
      if values.last_digit:
        digits = digits[-1]
      n = int(digits)
      if not 1 <= n <= num_hidden_layers:
        continue
    elif name.endswith("-S"):
      share = float(match[1] or _SHARE)
      if not share:
        continue
    return Pooling(text, values.kind, values.blocks(num_hidden_layers, n), num_hidden_layers, share)
  raise ConfigError(
    f"sentence_embedding_type={text}: expected one of {ALLOWED}, with 0 < S < 1; N is 1 to {num_hidden_layers}, the "
    "blocks of this model",
    argument="sentence_embedding_type",
  )


def check_trainable(pooling: Pooling, token_weights: Any) -> None:
  """Raises a ConfigError if the pooling reads the word embeddings themselves, or if tokens have weights."""
  if pooling.reads_words:
    argument, value = "sentence_embedding_type", pooling.name
  elif token_weights:
    argument, value = "token_weights", token_weights.name
  else:
    return
  raise ConfigError(
    f"{argument}={value}: only a frozen encoder is used so; to train an encoder, expected a mean of "
    "blocks or cls, and token_weights=uniform",
    argument=argument,
  )
