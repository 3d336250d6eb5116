"""Pooling of BERT's hidden states to a sentence embedding, by `sentence_embedding_type`."""

import dataclasses
import re
from collections.abc import Mapping, Sequence

import tensorflow as tf

from bert_flow_tf.encoder.settings import WORD_ROWS
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.io.checks import is_integer

ALLOWED = (
  "avg, cls, cls-token, avg-first-last, avg-top-N, concat-top-N, avg-last-N (the published code's: the first block and "
  "the last N-1; so is avg-last-concat-N), avg-last-last-N, word-rows, mix (= mix-0.6), mix-S with 0 < S < 1"
)

_SHARE = 0.6
_MIX = re.compile(r"mix(?:-(0\.[0-9]{1,4}))?", re.ASCII)
_NUMBERED = re.compile(r"(avg-top|concat-top|avg-last|avg-last-last|avg-last-concat)-([1-9][0-9]*)")


@dataclasses.dataclass(frozen=True)
class Pooling:
  """Pooling of hidden states, resolved for a model's number of blocks.

  Attributes:
    name: the `sentence_embedding_type` that was parsed.
    kind: "cls" (pooled output), "token" (the block's [CLS]), "mean" (of the blocks' means), "concat" (of the blocks'
      means), "words" (mean of unit rows of the word embeddings) or "mix" ("words" and the blocks' mean, concatenated).
    blocks: numbers of the transformer blocks, 1 is the first; also their indices among transformers'
      `hidden_states`, whose 0 is the embedding layer. Empty for "cls" and "words".
    num_hidden_layers: number of the model's blocks.
    shares: shares of the concatenated views in the sum that a calibration makes of them; empty for one view.
  """

  name: str
  kind: str
  blocks: tuple[int, ...]
  num_hidden_layers: int
  shares: tuple[float, ...] = ()

  @property
  def reads_words(self) -> bool:
    """True if the word embeddings themselves are pooled."""
    return self.kind in ("words", "mix")

  def dim(self, hidden_size: int) -> int:
    """Returns the size of the embedding for hidden states of size `hidden_size`."""
    return hidden_size * (len(self.blocks) if self.kind == "concat" else len(self.shares) or 1)

  def describe(self, token_weights: str | None = None) -> str:
    """Returns a line for the log with the pooled blocks; `token_weights`: name of the weights, None for equal ones."""
    line = self._describe()
    if token_weights is None:
      return line
    if self.kind in ("cls", "token"):
      return f"{line}; it is no mean, so token_weights={token_weights} changes nothing"
    return f"{line}, weighted by {token_weights}"

  def _describe(self) -> str:
    if self.kind == "cls":
      return f"{self.name}: the pooled output, tanh(dense) of the last block's [CLS]"
    if self.kind == "token":
      return f"{self.name}: [CLS] of block {self.blocks[0]} of {self.num_hidden_layers}"
    words = "unit rows of the word embeddings"
    if self.kind == "words":
      return f"{self.name}: mean of {words}, over all tokens"
    blocks = ", ".join(str(block) for block in self.blocks)
    noun = "blocks" if len(self.blocks) > 1 else "block"
    operation = "concatenation" if self.kind == "concat" else "mean"
    if self.kind == "mix":
      views = f"{words}, share {self.shares[0]:g}, and {noun} {blocks} of {self.num_hidden_layers}"
      return f"{self.name}: {views}, each averaged over all tokens"
    return f"{self.name}: {operation} of {noun} {blocks} of {self.num_hidden_layers}, averaged over all tokens"

  def pool(
    self,
    hidden_states: Sequence[tf.Tensor] | Mapping[int, tf.Tensor],
    weights: tf.Tensor,
    pooled_output: tf.Tensor | None = None,
    word_rows: tf.Tensor | None = None,
  ) -> tf.Tensor:
    """Pools a batch.

    With the mask as weights, means run over every unmasked position, [CLS] and [SEP] included, as in the published code
    (docs/original.md, "Encoder and pooling").

    Args:
      hidden_states: outputs of the blocks by their numbers, float Tensors of shape [batch, seq_len, hidden]; only those
        of `blocks` are read.
      weights: int or float Tensor of shape [batch, seq_len], the mask or weights of tokens; 0 for padding.
      pooled_output: float Tensor of shape [batch, hidden]; read by "cls" only.
      word_rows: float Tensor of shape [batch, seq_len, hidden], rows of the word embeddings, each of length 1; read by
        "words" and "mix" only.

    Returns:
      float32 Tensor of shape [batch, dim].
    """
    if self.kind == "cls":
      return tf.cast(pooled_output, tf.float32)
    if self.kind == "token":
      return tf.cast(hidden_states[self.blocks[0]][:, 0], tf.float32)
    means = [_weighted_mean(hidden_states[block], weights) for block in self.blocks]
    if self.reads_words:
      return tf.concat([_weighted_mean(word_rows, weights), *means], axis=-1)
    return tf.concat(means, axis=-1) if self.kind == "concat" else tf.add_n(means) / len(means)


def parse_pooling(sentence_embedding_type: str, num_hidden_layers: int) -> Pooling:
  """Resolves a `sentence_embedding_type` for a model of `num_hidden_layers` blocks.

  - `avg`: the last block. `cls`: the pooled output, not the raw [CLS] state, which is `cls-token`.
  - `avg-last-N`: the result of the published code, which indexes its list of blocks with -i for i = 0..N-1, where -0
    is 0: the first block, the last, the second to last, ... `avg-last-1` is the first block alone.
    `avg-first-last` is a correct name of `avg-last-2`, the paper's "last2avg".
  - `avg-last-concat-N`: the same, because the published code tests for the prefix `avg-last-` first.
  - `avg-last-last-N`: the single block -N.
  - `avg-top-N`: the last N blocks, as the paper's text says.
  - `concat-top-N`: blocks -1, ..., -N concatenated, the last block first.
  - `word-rows`: the rows of the word-embedding matrix, each of length 1, without positions and layer norm.
  - `mix-S`, `mix` (= mix-0.6): `word-rows` and `avg` concatenated, two views of a sentence. The calibration makes one
    embedding of them, with the shares S and 1 - S; see `calibration.combined`.

  In the published names N is the last digit alone: `avg-last-12` is `avg-last-2`.

  Args:
    sentence_embedding_type: a value of the list.
    num_hidden_layers: number of the model's blocks.

  Raises:
    ConfigError: unknown value, or N not in 1..num_hidden_layers.
  """
  name, last = sentence_embedding_type, num_hidden_layers
  simple = {
    "avg": ("mean", (last,)),
    "cls": ("cls", ()),
    "cls-token": ("token", (last,)),
    "avg-first-last": ("mean", (1, last)),
    WORD_ROWS: ("words", ()),
  }
  if isinstance(name, str) and name in simple:
    return Pooling(name, *simple[name], last)
  match = _MIX.fullmatch(name) if isinstance(name, str) else None
  if match and float(match[1] or _SHARE) > 0:
    share = float(match[1] or _SHARE)
    return Pooling(name, "mix", (last,), last, (share, 1.0 - share))
  match = _NUMBERED.fullmatch(name) if isinstance(name, str) else None
  family, digits = match.groups() if match else ("", "0")
  n = int(digits if "top" in family else digits[-1])
  if not 1 <= n <= last:
    raise ConfigError(
      f"sentence_embedding_type={name}: expected one of {ALLOWED}; N is 1 to {last}, the blocks of this model",
      argument="sentence_embedding_type",
    )
  from_the_end = tuple(last - i for i in range(n))
  blocks = {
    "avg-last": (1, *from_the_end[: n - 1]),
    "avg-last-concat": (1, *from_the_end[: n - 1]),
    "avg-last-last": (last + 1 - n,),
    "avg-top": from_the_end,
    "concat-top": from_the_end,
  }[family]
  return Pooling(name, "concat" if family == "concat-top" else "mean", blocks, last)


def check_low_dim(dim: int, low_dim: int | None) -> None:
  """Raises ConfigError unless `low_dim` is None or a positive divisor of `dim`."""
  if low_dim is not None and (not is_integer(low_dim, 1) or dim % low_dim):
    divisors = ", ".join(str(n) for n in range(1, dim + 1) if dim % n == 0)
    raise ConfigError(
      f"low_dim={low_dim}: expected a divisor of the embedding's {dim} dimensions: {divisors}", argument="low_dim"
    )


def low_dim(embeddings: tf.Tensor, n: int | None) -> tf.Tensor:
  """Returns the means of groups of neighboring dimensions, the last step of an embedding, after a calibration.

  As in the published code; see docs/original.md, "Encoder and pooling".

  Args:
    embeddings: float Tensor or array of shape [batch, dim], with static dim.
    n: number of groups, a divisor of dim; None to return the embeddings as they are.

  Returns:
    float Tensor of shape [batch, n], or [batch, dim].

  Raises:
    ConfigError: n is not a divisor of dim.
  """
  if n is None:
    return embeddings
  dim = embeddings.shape[-1]
  check_low_dim(dim, n)
  return tf.reduce_mean(tf.reshape(embeddings, [-1, n, dim // n]), axis=-1)


def _weighted_mean(states, weights):
  """Returns the weighted mean over the positions, float32 [batch, hidden]; 0 if all weights are 0."""
  states, weights = tf.cast(states, tf.float32), tf.cast(weights, tf.float32)
  total = tf.reduce_sum(weights, axis=1, keepdims=True)
  return tf.math.divide_no_nan(tf.reduce_sum(states * weights[:, :, tf.newaxis], axis=1), total)
