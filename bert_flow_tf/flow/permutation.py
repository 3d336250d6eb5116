"""Mixing of the dimensions: a fixed permutation, or Glow's invertible 1x1 convolution."""

import numpy as np
import tensorflow as tf

from bert_flow_tf.flow.keras import Shape, keras, registered
from bert_flow_tf.flow.layer import FlowLayer, last_dimension, product
from bert_flow_tf.flow.named_weights import NamedWeight, PermutationIndices, PermutationMatrix, Signs


@registered
class Permutation(FlowLayer):
  """Fixed reordering of the dimensions.

      forward   z[i] = u[p[i]]
      inverse   u[p[i]] = z[i]
      log|det dz/du| = 0

  u is the embedding, z the latent, both [batch, dim]. Weight: `permutation`, p, int64 [dim], not trained.

  Args:
    order: "reverse" (the published code) or "random" (the paper, section 3.2).
    seed: integer or None, for "random".
  """

  def __init__(self, order: str = "reverse", seed: int | None = None, **kwargs: object) -> None:
    super().__init__({"order": order, "seed": seed}, **kwargs)
    self.order = order
    self.seed = seed

  def build(self, input_shape: Shape) -> None:
    """Draws the permutation."""
    dim = last_dimension(input_shape)
    indices = np.arange(dim)[::-1]
    if self.order == "random":
      indices = np.random.default_rng(self.seed).permutation(dim)
    self.permutation = self.add_weight(
      name="permutation",
      shape=[dim],
      dtype="int64",
      initializer=lambda shape, dtype=None, **_: tf.constant(indices.copy(), tf.int64),
      trainable=False,
    )
    super().build(input_shape)

  def forward_and_log_det(self, u: tf.Tensor, dropout_seed: tf.Tensor | None = None) -> tuple[tf.Tensor, None]:
    """u [..., dim] -> z [..., dim]; the log-determinant is 0."""
    u = self.prepared(u)
    return _gather(u, tf.convert_to_tensor(self.permutation)), None

  def inverse(self, z: tf.Tensor, dropout_seed: tf.Tensor | None = None) -> tf.Tensor:
    """z [..., dim] -> u [..., dim]."""
    z = self.prepared(z)
    return _gather(z, _inverted(tf.convert_to_tensor(self.permutation)))

  def named_weights(self) -> dict[str, NamedWeight]:
    """Returns `invertible/w`, the permutation as a matrix [dim, dim]."""
    dim = self.permutation.shape[0]
    return {"invertible/w": PermutationIndices(self.permutation, (dim, dim))}


@tf.custom_gradient
def _gather(x, order):
  """Returns x[..., order] with a gradient by the inverse order."""
  # TensorFlow's gradient of `gather` adds row by row, because an index may occur twice. In a permutation none does, so
  # the gradient is a gather too. Without XLA those additions took a fifth of a step's CPU time.

  def gradient(output_gradient):
    return tf.gather(output_gradient, _inverted(order), axis=-1), None

  return tf.gather(x, order, axis=-1), gradient


def _inverted(order):
  """Returns the inverse of a permutation, int64 [dim]; `invert_permutation`, on the CPU alone, makes a GPU wait."""
  return tf.scatter_nd(order[:, tf.newaxis], tf.range(tf.size(order, tf.int64)), tf.shape(order, tf.int64))


@registered
class Invertible1x1(FlowLayer):
  """Learned linear mixing in LU form, an invertible 1x1 convolution on a vector.

      forward   z = u W,  W = P L (U + diag(sign_S * exp(log_S)))
      inverse   u = z W^-1, by two triangular solves
      log|det dz/du| = sum(log_S)

  u is the embedding, z the latent, both [batch, dim]. Kingma and Dhariwal 2018, section 3.2. Weights, from a random
  rotation: `P` [dim, dim] and `sign_S` [dim], not trained; `L` [dim, dim], used below the diagonal; `U` [dim, dim],
  used above the diagonal; `log_S` [dim].
  """

  def __init__(self, seed: int | None = None, **kwargs: object) -> None:
    super().__init__({"seed": seed}, **kwargs)
    self.seed = seed

  def build(self, input_shape: Shape) -> None:
    """Draws a rotation and factorizes it."""
    dim = last_dimension(input_shape)
    # A rotation has determinant 1 or -1, so the layer starts without changing volumes.
    rotation, _ = np.linalg.qr(np.random.default_rng(self.seed).standard_normal([dim, dim]))
    with tf.init_scope():  # numbers, also where a graph is traced
      packed, rows = (part.numpy() for part in tf.linalg.lu(tf.constant(rotation, tf.float64)))
    diagonal = np.diag(packed)

    def add(name, value, trainable=True):
      initial = keras.initializers.Constant(value)
      return self.add_weight(name=name, shape=value.shape, initializer=initial, trainable=trainable)

    self.P = add("P", np.eye(dim)[:, rows], trainable=False)
    self.sign_S = add("sign_S", np.sign(diagonal), trainable=False)
    self.L = add("L", np.tril(packed, -1) + np.eye(dim))
    self.U = add("U", np.triu(packed, 1))
    self.log_S = add("log_S", np.log(np.abs(diagonal)))
    super().build(input_shape)

  def forward_and_log_det(self, u: tf.Tensor, dropout_seed: tf.Tensor | None = None) -> tuple[tf.Tensor, tf.Tensor]:
    """u [..., dim] -> z [..., dim] and sum(log_S), a scalar."""
    u = self.prepared(u)
    for factor in self.factors():
      u = product(u, factor)
    return u, tf.reduce_sum(self.log_S)

  def inverse(self, z: tf.Tensor, dropout_seed: tf.Tensor | None = None) -> tf.Tensor:
    """z [..., dim] -> u [..., dim]."""
    # z = u P L U, so U' L' P' u' = z' with the primes transposed; a permutation's inverse is its transpose.
    z = self.prepared(z)
    permutation, lower, upper = self.factors()
    columns = tf.transpose(tf.reshape(z, [-1, self.log_S.shape[0]]))
    rest = tf.linalg.triangular_solve(upper, columns, lower=False, adjoint=True)
    rest = tf.linalg.triangular_solve(lower, rest, lower=True, adjoint=True)
    return tf.reshape(tf.transpose(tf.matmul(permutation, rest)), tf.shape(z))

  def factors(self) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns P, L with a unit diagonal, and U with sign_S * exp(log_S) on its diagonal, each [dim, dim]."""
    log_s = self.log_S
    below = tf.linalg.band_part(self.L, -1, 0)
    lower = tf.linalg.set_diag(below, tf.ones_like(log_s))
    above = tf.linalg.band_part(self.U, 0, -1)
    upper = tf.linalg.set_diag(above, self.sign_S * tf.exp(log_s))
    return self.P, lower, upper

  def named_weights(self) -> dict[str, NamedWeight]:
    """Returns `invertible/P`, `L`, `U`, `sign_S` and `log_S`, shapes unchanged."""
    kinds = {"P": PermutationMatrix, "L": NamedWeight, "U": NamedWeight, "sign_S": Signs, "log_S": NamedWeight}
    return {
      f"invertible/{name}": kind(getattr(self, name), tuple(getattr(self, name).shape)) for name, kind in kinds.items()
    }
