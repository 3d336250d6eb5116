"""Layers of a transformer: dense layer, normalization, dropout, and the rows of a batch on which they compute.

Rows are hidden states float32 [n, size]: of all positions, of tokens alone, or of first tokens alone. Dense layers and
normalizations treat each row by itself, so they need no padding; attention takes a padded batch.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import tensorflow as tf
from tensorflow.python.ops import control_flow_util

from bert_flow_tf.encoder.transformer.config import EncoderConfig
from bert_flow_tf.encoder.transformer.families.architecture import DISTANCES, DROPOUTS
from bert_flow_tf.encoder.transformer.int8 import Inputs, Int8Kernel, Int8Products
from bert_flow_tf.encoder.transformer.products import FloatProducts, Products

# Function (path, shape) -> variable; `weights` implements it.
Variables = Callable[[str, Sequence[int]], tf.Variable]


def sizes_of(tensor: tf.Tensor) -> list[int | tf.Tensor]:
  """Returns the sizes of a tensor's axes: an int where it is known while the graph is traced, else a scalar."""
  shape = tf.shape(tensor)
  return [shape[axis] if size is None else size for axis, size in enumerate(tensor.shape)]


def reshape(tensor: tf.Tensor, sizes: Sequence[int | tf.Tensor]) -> tf.Tensor:
  """Reshapes a tensor; a single size that is not known while the graph is traced is left to TensorFlow, as -1."""
  # tf2onnx 1.17 drops a reshape to two unknown sizes.
  unknown = [axis for axis, size in enumerate(sizes) if tf.is_tensor(size)]
  if len(unknown) == 1:
    sizes = [-1 if axis in unknown else size for axis, size in enumerate(sizes)]
  return tf.reshape(tensor, sizes)


class Dense(tf.Module):
  """Dense layer: y = activation(x kernel + bias), with the product in a precision and the rest in float32."""

  def __init__(
    self,
    variables: Variables,
    path: str,
    size: int,
    units: int,
    activation: str | None = None,
    has_bias: bool = True,
    least_input: float | None = None,
  ) -> None:
    """Makes the variables; `least_input` is a value below which no input can be, None if there is no such value."""
    super().__init__()
    self.kernel = variables(f"{path}/kernel", [size, units])
    self.bias = None
    if has_bias:
      self.bias = variables(f"{path}/bias", [units])
    self.sizes = size, units
    self._activation = activation
    self._inputs = Inputs(least_input)
    self._products = FloatProducts()
    self._rounded: tf.Tensor | None = None
    self._int8: tuple[Int8Products, Int8Kernel] | None = None

  def compute_in(self, products: Products, frozen: bool, largest: np.ndarray | None = None) -> None:
    """Sets the precision of the product; the kernel of a frozen layer is rounded now, and not at each call.

    `largest`: for int8, the largest absolute inputs that were seen, float32 [size]; None if none was seen.
    """
    self._rounded, self._int8 = None, None
    if isinstance(products, Int8Products):
      self._inputs = self._inputs._replace(largest=largest)
      self._int8 = products, products.prepare(self.kernel, self.bias, self._inputs)
      return
    self._products = products
    if frozen and products.rounds:
      self._rounded = products.prepare(self.kernel)
      if tf.distribute.has_strategy():  # a copy on each of its devices
        self._rounded = tf.Variable(self._rounded, trainable=False)

  @property
  def is_int8(self) -> bool:
    """True if the product is of integers."""
    return self._int8 is not None

  def __call__(self, rows: tf.Tensor, is_constant: bool = False) -> tf.Tensor:
    """float32 [..., size] -> float32 [..., units].

    `is_constant`: whether the kernel never changes, so that the product may hold it in an order of its own.
    """
    # Rows in a single matrix let TensorFlow compute product, bias and activation as one operation.
    size, units = self.sizes
    matrix = rows
    if rows.shape.rank != 2:
      matrix = tf.reshape(rows, [-1, size])
    if self._int8 is not None:
      products, int8_kernel = self._int8
      outputs = products.dense(matrix, int8_kernel, self._inputs, self._activation)
    else:
      kernel = self._rounded
      if kernel is None:
        kernel = self._products.prepare(self.kernel)
      outputs = self._products.dense(matrix, kernel, self.bias, self._activation, is_constant)
    if rows.shape.rank == 2:
      return outputs
    return reshape(outputs, [*sizes_of(rows)[:-1], units])


class JointDense(Dense):
  """Dense layers of the same inputs as one product, for weights that never change; it has no variables of its own.

  Attributes:
    layers: the layers.
    is_prepared: whether the product has kernels of its own, in place of the layers'.
  """

  def __init__(self, layers: Sequence[Dense]) -> None:
    """Takes the layers."""
    tf.Module.__init__(self)
    self.layers = list(layers)
    self.sizes = layers[0].sizes[0], sum(layer.sizes[1] for layer in layers)
    self._activation, self._inputs = None, Inputs()
    self._products, self._rounded, self._int8 = FloatProducts(), None, None
    self.is_prepared = False

  def compute_in(self, products: Products, frozen: bool, largest: np.ndarray | None = None) -> None:
    """See the base class; sets the precision of the layers, too."""
    self.is_prepared = isinstance(products, Int8Products) or (frozen and products.rounds)
    self._rounded, self._int8 = None, None
    of_layers: Products = FloatProducts() if self.is_prepared else products
    for layer in self.layers:
      layer.compute_in(of_layers, frozen=False)
    if self.is_prepared:
      self.kernel, self.bias = self._joined()
      super().compute_in(products, frozen, largest)
      del self.kernel

  def __call__(self, rows: tf.Tensor, is_constant: bool = False) -> tf.Tensor:
    """See the base class; without kernels of its own, the graph of constant kernels holds them."""
    if not self.is_prepared and self._rounded is None:
      with tf.init_scope():
        self._rounded, self.bias = self._joined()
    return super().__call__(rows, is_constant)

  def _joined(self):
    """Returns kernels float32 [size, units] and biases float32 [units], side by side."""
    kernel = tf.concat([layer.kernel for layer in self.layers], axis=1)
    return kernel, tf.concat([layer.bias for layer in self.layers], axis=0)


class LayerNorm(tf.Module):
  """Layer normalization: y = gamma (x - mean) / sqrt(variance + epsilon) + beta over the last axis."""

  def __init__(self, variables: Variables, path: str, size: int, epsilon: float, has_beta: bool = True) -> None:
    super().__init__()
    self.gamma = variables(f"{path}/gamma", [size])
    self.beta = None
    if has_beta:
      self.beta = variables(f"{path}/beta", [size])
    self._epsilon = epsilon

  def __call__(self, rows: tf.Tensor) -> tf.Tensor:
    """float32 [n, size] -> float32 [n, size]."""
    # In fewer passes over the rows than tf.nn.moments and tf.nn.batch_normalization take.
    centered = rows - tf.reduce_mean(rows, axis=-1, keepdims=True)
    variance = tf.reduce_mean(tf.square(centered), axis=-1, keepdims=True)
    outputs = centered * (tf.math.rsqrt(variance + self._epsilon) * self.gamma)
    if self.beta is not None:
      outputs += self.beta
    return outputs


class Dropout:
  """Dropout whose masks depend on a seed, int32 [2], the block and the place in it; none without a seed."""

  def __init__(self, config: EncoderConfig, seed: tf.Tensor | None) -> None:
    self._seed = seed
    self._rates = {}
    for place, key in config.architecture.dropouts.items():
      self._rates[place] = getattr(config, key)

  def __call__(self, inputs: tf.Tensor, place: str, block: int = 0) -> tf.Tensor:
    """Returns the inputs with dropout."""
    rate = self._rates.get(place)
    if self._seed is None or not rate:
      return inputs
    number = -1 - block
    if place != DISTANCES:
      number = DROPOUTS.index(place) + (len(DROPOUTS) - 1) * block
    seed = tf.random.experimental.stateless_fold_in(self._seed, number)
    return tf.nn.experimental.stateless_dropout(inputs, rate, seed)


class RowLayout(Protocol):
  """Conversion between [batch, seq_len, size] and rows [n, size], in both directions with gradients.

  Attributes:
    keeps_kernels: whether the kernels never change, and products of few rows may hold them in an order of their own.
  """

  keeps_kernels: bool

  def pack(self, batch: tf.Tensor) -> tf.Tensor:
    """[batch, seq_len, size] -> [n, size], and [batch, seq_len] -> [n]."""

  def unpack(self, rows: tf.Tensor) -> tf.Tensor:
    """[n, size] -> [batch, seq_len, size]; 0 at positions without a row."""

  def split(self, rows: tf.Tensor, parts: int, heads: int) -> list[tf.Tensor]:
    """[n, parts * heads * head_size] -> a tensor [batch, heads, seq_len, head_size] for each part."""

  def join(self, states: tf.Tensor) -> tf.Tensor:
    """[batch, heads, seq_len, head_size] -> [n, heads * head_size]."""


class AllPositions:
  """All positions of a batch, padding included: the batch as it is, by operations that TensorFlow Lite has."""

  keeps_kernels = False

  def pack(self, batch: tf.Tensor) -> tf.Tensor:
    """Returns the batch."""
    return batch

  def unpack(self, rows: tf.Tensor) -> tf.Tensor:
    """Returns the batch."""
    return rows

  def split(self, rows: tf.Tensor, parts: int, heads: int) -> list[tf.Tensor]:
    """[batch, seq_len, parts * heads * head_size] -> tensors [batch, heads, seq_len, head_size]."""
    split, of_parts = [], [rows]
    if parts > 1:
      of_parts = tf.split(rows, parts, axis=-1)
    for part in of_parts:
      batch, length, size = sizes_of(part)
      split.append(tf.transpose(reshape(part, [batch, length, heads, size // heads]), [0, 2, 1, 3]))
    return split

  def join(self, states: tf.Tensor) -> tf.Tensor:
    """[batch, heads, seq_len, head_size] -> [batch, seq_len, heads * head_size]."""
    states = tf.transpose(states, [0, 2, 1, 3])
    batch, length, heads, head_size = sizes_of(states)
    return reshape(states, [batch, length, heads * head_size])


class Tokens:
  """A row for each token: each position whose mask [batch, seq_len] is not 0."""

  keeps_kernels = False

  def __init__(self, mask: tf.Tensor) -> None:
    is_token = mask > 0
    self._places = tf.cast(tf.where(is_token), tf.int32)
    # The row of each position; padding has a row of 0 after the rows of tokens.
    count = tf.shape(self._places)[0]
    numbers = tf.reshape(tf.cumsum(tf.reshape(tf.cast(is_token, tf.int32), [-1])), tf.shape(mask)) - 1
    self._rows = tf.where(is_token, numbers, count)[..., tf.newaxis]
    self._length = tf.shape(mask)[1]
    self._orders: dict[tuple[str, int], tf.Tensor] = {}

  def pack(self, batch: tf.Tensor) -> tf.Tensor:
    """[batch, seq_len, size] -> [tokens, size]."""
    return tf.gather_nd(batch, self._places)

  def unpack(self, rows: tf.Tensor) -> tf.Tensor:
    """[tokens, size] -> [batch, seq_len, size], 0 for padding."""
    # By gather_nd, which takes less than half of the time of scatter_nd.
    return tf.gather_nd(tf.pad(rows, [[0, 1], [0, 0]]), self._rows)

  def split(self, rows: tf.Tensor, parts: int, heads: int) -> list[tf.Tensor]:
    """[tokens, parts * heads * head_size] -> tensors [batch, heads, seq_len, head_size], 0 for padding."""
    # Rows of a head are gathered: oneDNN's transposition takes 90 microseconds for a single sentence.
    count = parts * heads
    head_size = rows.shape[-1] // count
    head_rows = tf.reshape(tf.pad(rows, [[0, 1], [0, 0]]), [-1, head_size])
    if ("split", count) not in self._orders:
      numbers = tf.reshape(tf.range(count), [parts, 1, heads, 1])
      self._orders["split", count] = numbers + count * tf.expand_dims(self._rows[..., 0], 1)
    return tf.unstack(tf.gather(head_rows, self._orders["split", count]), parts)

  def join(self, states: tf.Tensor) -> tf.Tensor:
    """[batch, heads, seq_len, head_size] -> [tokens, heads * head_size]."""
    heads, head_size = states.shape[1], states.shape[3]
    if ("join", heads) not in self._orders:
      sentences, positions = tf.split(self._places, 2, axis=1)
      self._orders["join", heads] = (sentences * heads + tf.range(heads)) * self._length + positions
    rows = tf.gather(tf.reshape(states, [-1, head_size]), self._orders["join", heads])
    return tf.reshape(rows, [-1, heads * head_size])


class OneSentence:
  """A row for each token of a batch of one sentence, which has no padding."""

  def __init__(self, ids: tf.Tensor, keeps_kernels: bool) -> None:
    self.keeps_kernels = keeps_kernels
    self._length = tf.shape(ids)[1]
    self._orders: dict[tuple[str, int], tf.Tensor] = {}

  def pack(self, batch: tf.Tensor) -> tf.Tensor:
    """[1, seq_len, size] -> [seq_len, size]."""
    return tf.squeeze(batch, 0)

  def unpack(self, rows: tf.Tensor) -> tf.Tensor:
    """[seq_len, size] -> [1, seq_len, size]."""
    return tf.expand_dims(rows, 0)

  def split(self, rows: tf.Tensor, parts: int, heads: int) -> list[tf.Tensor]:
    """[seq_len, parts * heads * head_size] -> tensors [1, heads, seq_len, head_size]."""
    # By rows of a head, see `Tokens`.
    count = parts * heads
    head_size = rows.shape[-1] // count
    if ("split", count) not in self._orders:
      self._orders["split", count] = tf.expand_dims(tf.range(count), 1) + count * tf.range(self._length)
    states = tf.gather(tf.reshape(rows, [-1, head_size]), self._orders["split", count])
    if parts == 1:
      return [tf.expand_dims(states, 0)]
    return tf.unstack(tf.reshape(states, [parts, 1, heads, -1, head_size]))

  def join(self, states: tf.Tensor) -> tf.Tensor:
    """[1, heads, seq_len, head_size] -> [seq_len, heads * head_size]."""
    heads, head_size = states.shape[1], states.shape[3]
    if ("join", heads) not in self._orders:
      self._orders["join", heads] = tf.expand_dims(tf.range(self._length), 1) + self._length * tf.range(heads)
    rows = tf.gather(tf.reshape(states, [-1, head_size]), self._orders["join", heads])
    return tf.reshape(rows, [-1, heads * head_size])


class FirstTokens:
  """A row for the first position of each sentence, [CLS]."""

  keeps_kernels = False

  def pack(self, batch: tf.Tensor) -> tf.Tensor:
    """[batch, seq_len, size] -> [batch, size]."""
    return batch[:, 0]

  def unpack(self, rows: tf.Tensor) -> tf.Tensor:
    """[batch, size] -> [batch, 1, size]."""
    return rows[:, tf.newaxis]

  def split(self, rows: tf.Tensor, parts: int, heads: int) -> list[tf.Tensor]:
    """[batch, parts * heads * head_size] -> tensors [batch, heads, 1, head_size]."""
    head_size = rows.shape[-1] // (parts * heads)
    return tf.unstack(tf.reshape(rows, [-1, parts, heads, 1, head_size]), axis=1)

  def join(self, states: tf.Tensor) -> tf.Tensor:
    """[batch, heads, 1, head_size] -> [batch, heads * head_size]."""
    return tf.reshape(states, [-1, states.shape[1] * states.shape[3]])


def can_pack() -> bool:
  """Returns whether shapes may depend on values here; XLA, and TPUs by it, need fixed ones."""
  return not control_flow_util.GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph())
