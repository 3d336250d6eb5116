"""A `Glow` with its weights worked into few ops: the same function, for serving.

Actnorms and permutations of fixed weights are deferred: channel i of a layer is scale[i] * v[place[i]] + shift[i] of a
vector v that stays in one order, and a coupling takes that into its own kernels. Six couplings then cost some thirty
ops, where the `tfb.Chain` has four hundred; at batch 1 it is the number that costs.
"""

import dataclasses

import numpy as np
import tensorflow as tf

from bert_flow_tf.flow.actnorm import LOGSCALE_FACTOR, ActNorm
from bert_flow_tf.flow.chain import latent_order
from bert_flow_tf.flow.coupling import AffineCoupling
from bert_flow_tf.flow.permutation import Permutation


@dataclasses.dataclass(frozen=True)
class Linear:
  """v -> v kernel + bias; kernel [dim, dim], or [dim] for a diagonal one."""

  kernel: np.ndarray
  bias: np.ndarray

  def forward(self, v):
    """V [n, dim] -> v [n, dim] and what it adds to log|det|, None for nothing that depends on v."""
    kernel, bias = tf.constant(self.kernel, v.dtype), tf.constant(self.bias, v.dtype)
    return (v * kernel if self.kernel.ndim == 1 else v @ kernel) + bias, None

  def inverse(self, v):
    """The way back."""
    bias = tf.constant(self.bias, v.dtype)
    if self.kernel.ndim == 1:
      return (v - bias) / tf.constant(self.kernel, v.dtype)
    return (v - bias) @ tf.constant(np.linalg.inv(self.kernel), v.dtype)


@dataclasses.dataclass(frozen=True)
class Gather:
  """v -> v[:, order]."""

  order: np.ndarray

  def forward(self, v):
    """As `Linear.forward`."""
    return tf.gather(v, self.order, axis=1), None

  def inverse(self, v):
    """The way back."""
    return tf.gather(v, np.argsort(self.order), axis=1)


@dataclasses.dataclass(frozen=True)
class Network:
  """A coupling's network: three dense layers, each (kernel, bias); two in the middle for "gatu"."""

  first: tuple
  second: tuple
  last: tuple

  def __call__(self, x):
    """X [n, inputs] -> [n, outputs]."""
    hidden = tf.nn.relu(_dense(x, self.first))
    if len(self.second) == 1:
      hidden = tf.nn.relu(_dense(hidden, self.second[0]))
    else:
      hidden = tf.tanh(_dense(hidden, self.second[0])) * tf.sigmoid(_dense(hidden, self.second[1]))
    return _dense(hidden, self.last)


@dataclasses.dataclass(frozen=True)
class Shift:
  """v -> v + network(v), where the network reads no dimension that it moves: an additive coupling."""

  network: Network

  def forward(self, v):
    """As `Linear.forward`."""
    return v + self.network(v), None

  def inverse(self, v):
    """The way back."""
    return v - self.network(v)


@dataclasses.dataclass(frozen=True)
class ShiftAndScale:
  """An affine coupling of the first 2 * half dimensions: see `AffineCoupling`."""

  network: Network
  half: int

  def forward(self, v):
    """As `Linear.forward`."""
    first, second, rest = self._split(v)
    shift, log_scale = self._shift_and_log_scale(first)
    moved = (second + shift) * tf.exp(log_scale)
    return tf.concat([first, moved, rest], axis=1), tf.reduce_sum(log_scale, axis=1)

  def inverse(self, v):
    """The way back."""
    first, second, rest = self._split(v)
    shift, log_scale = self._shift_and_log_scale(first)
    return tf.concat([first, second * tf.exp(-log_scale) - shift, rest], axis=1)

  def _split(self, v):
    return v[:, : self.half], v[:, self.half : 2 * self.half], v[:, 2 * self.half :]

  def _shift_and_log_scale(self, first):
    outputs = self.network(first)
    return outputs[:, 0::2], tf.math.log_sigmoid(outputs[:, 1::2] + 2.0)


def moves_of(flow):
  """The moves that u passes on its way to z, and the part of log|det dz/du| that is the same for every u, in nats.

  Args:
    flow: a `Glow`.

  Returns:
    list of moves, float.
  """
  state = _Deferred(flow.dim)
  for index, level in enumerate(flow.levels):
    for layer in (layer for step in level for layer in step):
      state.pass_layer(layer, flow.dim >> index)
  state.permute(latent_order(flow.dim, len(flow.levels)))
  state.settle()
  return state.moves, state.log_det


class _Deferred:
  """Moves so far, and what is still to be done: channel i = scale[i] * v[place[i]] + shift[i]."""

  def __init__(self, dim):
    self.moves, self.log_det = [], 0.0
    self._dim = dim
    self._reset()

  def _reset(self):
    self._scale, self._shift, self._place = np.ones(self._dim), np.zeros(self._dim), np.arange(self._dim)

  def pass_layer(self, layer, width):
    """Takes in a layer of the first `width` channels."""
    if isinstance(layer, ActNorm):
      scale, shift = _actnorm(layer)
      if not self.moves:
        # Centred at once, as the flow does it: what float32 rounds off a mean is not for the kernels to carry.
        self.moves.append(Linear(np.ones(self._dim), shift / scale))
        shift = np.zeros_like(shift)
      self._scale[:width] *= scale
      self._shift[:width] = self._shift[:width] * scale + shift
      self.log_det += float(np.log(scale).sum())
    elif isinstance(layer, Permutation):
      self.permute(_array(layer.permutation, np.int64))
    elif isinstance(layer, AffineCoupling):
      self.settle()
      self.moves.append(ShiftAndScale(_network(layer.network), layer.half))
    elif hasattr(layer, "network"):
      self.moves.append(Shift(self._in_place(_network(layer.network), layer.half)))
    else:
      self._mix(layer, width)

  def permute(self, order):
    """Takes in z[i] = u[order[i]] of the first channels."""
    for values in (self._scale, self._shift, self._place):
      values[: len(order)] = values[order]

  def settle(self):
    """Does what was deferred, so that v is the channels themselves."""
    if not np.array_equal(self._place, np.arange(self._dim)):
      self.moves.append(Gather(self._place))
    if np.any(self._scale != 1) or np.any(self._shift):
      self.moves.append(Linear(self._scale, self._shift))
    self._reset()

  def _mix(self, layer, width):
    """An `Invertible1x1`, with what was deferred, as one matrix."""
    permutation, lower, upper = (_array(factor) for factor in layer.factors())
    mixing = np.eye(self._dim)
    mixing[:width, :width] = permutation @ lower @ upper
    deferred = np.zeros([self._dim, self._dim])
    deferred[self._place, np.arange(self._dim)] = self._scale
    self.moves.append(Linear(deferred @ mixing, self._shift @ mixing))
    self.log_det += float(_array(layer.log_S).sum())
    self._reset()

  def _in_place(self, network, half):
    """The network of the first `half` channels, adding to the `half` after them, as one of v itself."""
    (kernel, bias), (last, last_bias) = network.first, network.last
    reads, moves = self._place[:half], self._place[half : 2 * half]
    from_v = np.zeros([self._dim, kernel.shape[1]])
    from_v[reads] = self._scale[:half, np.newaxis] * kernel
    to_v = np.zeros([last.shape[0], self._dim])
    to_v[:, moves] = last / self._scale[half : 2 * half]
    self._shift[half : 2 * half] += last_bias
    return Network((from_v, self._shift[:half] @ kernel + bias), network.second, (to_v, None))


def _dense(x, layer):
  kernel, bias = layer
  product = x @ tf.constant(kernel, x.dtype)
  return product if bias is None else tf.nn.bias_add(product, tf.constant(bias, x.dtype))


def _network(network):
  def hidden(layer):
    scale, shift = _actnorm(layer.actnorm)
    return _array(layer.kernel) * scale, shift

  last = network.last
  scale = np.exp(LOGSCALE_FACTOR * _array(last.logs))
  second = tuple(hidden(layer) for layer in network.second)
  return Network(hidden(network.first), second, (_array(last.kernel) * scale, _array(last.b) * scale))


def _actnorm(layer):
  """Scale and shift, float64 [dim] each, with z = u * scale + shift."""
  scale = np.exp(LOGSCALE_FACTOR * _array(layer.logs) * _array(layer.varying))
  return scale, _array(layer.b) * scale


def _array(weight, dtype=np.float64):
  return tf.convert_to_tensor(weight).numpy().astype(dtype)
