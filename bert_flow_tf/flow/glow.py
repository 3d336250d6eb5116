"""The flow: a chain of layers between the embedding and a standard normal latent."""

import json
import math
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf
import tf_keras
from absl import logging

from bert_flow_tf.errors import FlowError
from bert_flow_tf.flow import storage
from bert_flow_tf.flow.chain import forward_and_log_det, initialize_levels, level_weights, make_step
from bert_flow_tf.flow.checks import check_arguments, check_batch
from bert_flow_tf.flow.config import FlowConfig
from bert_flow_tf.flow.layer import Read, seed_stream
from bert_flow_tf.flow.named_weights import NamedWeight, assign_original
from bert_flow_tf.io.checks import check_rows

if TYPE_CHECKING:  # imported where it is used, as in `FlowLayer.make_bijector`
  import tensorflow_probability as tfp

_NEW, _LOADED, _INITIALIZED = storage.STATES


class Glow(tf_keras.layers.Layer):
  """Glow without the spatial part, on sentence embeddings.

      forward   z = f(u),  p(u) = N(z; 0, I) |det dz/du|
      inverse   u = f^-1(z)
      log|det dz/du| = sum over the layers

  u is the embedding, z the latent, both [batch, dim]. L levels of K steps (actnorm, permutation, coupling); between
  levels the second half of the dimensions leaves as latent. The paper's section 3.2; Kingma and Dhariwal 2018.

  Args:
    config: `FlowConfig`.
    dim: dimensions of an embedding, a multiple of 2**n_levels.
    actnorm_init: "data", which needs a call of `initialize`, or "glorot", the published runner's initial weights.
    permutation: "reverse" (the published code) or "random" (the paper); only if `config.permutation` is True.
    seed: integer that determines every initial weight; None for other weights each time.
    dtype: "float32" or "float64".

  Attributes:
    encoder: identity of the encoder as a dict, or None if unknown; saved and loaded with the weights.

  Raises:
    ConfigError: an argument is outside its allowed values.
    FlowError: `dim` does not fit the levels.
  """

  def __init__(
    self,
    config: FlowConfig,
    dim: int,
    actnorm_init: str = "data",
    permutation: str = "reverse",
    seed: int | None = None,
    dtype: str = "float32",
    name: str = "flow",
  ) -> None:
    check_arguments(config, dim, actnorm_init, permutation, seed, dtype)
    super().__init__(name=name, dtype=dtype)
    self.config = config
    self.dim = int(dim)
    self.actnorm_init = actnorm_init
    self.permutation = permutation
    self.seed = None if seed is None else int(seed)
    seeds = seed_stream(seed)
    self.levels = [
      [make_step(config, actnorm_init, permutation, next(seeds), dtype) for _ in range(config.depth)]
      for _ in range(config.n_levels)
    ]
    for index, level in enumerate(self.levels):
      for step in level:
        for layer in step:
          layer.build([None, dim >> index])
    self.state = self.add_weight("state", [], dtype=tf.int64, initializer="zeros", trainable=False)
    self._encoder: str | None = None
    self.built = True

  @property
  def encoder(self) -> dict[str, Any] | None:
    """Identity of the encoder of the embeddings; None if unknown."""
    return json.loads(self._encoder) if self._encoder else None

  @encoder.setter
  def encoder(self, identity: dict[str, Any] | None) -> None:
    self._encoder = json.dumps(identity) if identity else None  # Keras would wrap a dict and its values

  def restart(self, seed: int | None) -> None:
    """Resets the weights to those of a new flow with this seed and the same other arguments."""
    new = self.from_config({**self.get_config(), "seed": seed})
    self._copy_weights(new)
    self.seed, self.encoder = new.seed, None

  def copy(self) -> "Glow":
    """Returns a new flow with the same arguments and weights."""
    new = self.from_config(self.get_config())
    new._copy_weights(self)
    new.encoder = self.encoder
    return new

  def make_bijector(self, dropout_seed: tf.Tensor | None = None) -> "tfp.bijectors.Bijector":
    """Returns a new `tfb.Chain` over the flow's weights; forward is u -> z. See `FlowLayer.make_bijector`."""
    from bert_flow_tf.flow.bijectors import chain_bijector

    return chain_bijector(self.levels, self.dim, dropout_seed)

  @property
  def distribution(self) -> "tfp.distributions.Distribution":
    """Density of the embeddings: `tfd.TransformedDistribution` with log_prob [batch] in nats, and sample.

    It uses the current weights, but caches its result for each tensor: get a new one after a training step.
    """
    from bert_flow_tf.flow.bijectors import density

    return density(self.make_bijector(), self.dim, self.dtype)

  def call(self, inputs: tf.Tensor) -> tf.Tensor:
    """u [batch, dim] -> z [batch, dim]."""
    return forward_and_log_det(self.levels, inputs)[0]

  def transform(self, embeddings: Any) -> tf.Tensor:
    """u [batch, dim] -> z [batch, dim], the latents of embeddings, in the flow's dtype."""
    return self(self._batch(embeddings))

  def inverse(self, latents: Any) -> tf.Tensor:
    """z [batch, dim] -> u [batch, dim], the embeddings of latents, in the flow's dtype."""
    return self.make_bijector().inverse(self._batch(latents))

  def bits_per_dim(
    self, embeddings: Any, dropout_seed: tf.Tensor | None = None, read: Read = tf.convert_to_tensor
  ) -> tf.Tensor:
    """-log p(u) / (dim ln 2), [batch], in bits per dimension: the original's flow_loss.

    Args:
      embeddings: u [batch, dim].
      dropout_seed: int32 [2] while fitting with coupling dropout, else None.
      read: returns a weight's value.
    """
    z, log_det = forward_and_log_det(self.levels, self._batch(embeddings), read, dropout_seed)
    log_normal = -0.5 * tf.reduce_sum(tf.square(z), axis=-1) - 0.5 * self.dim * math.log(2.0 * math.pi)
    return -(log_normal + log_det) / (self.dim * math.log(2.0))

  @property
  def initialized(self) -> bool:
    """True if `initialize` was called, also before the weights were saved."""
    return self._read_state() == _INITIALIZED

  @property
  def needs_initialization(self) -> bool:
    """True if the flow waits for `initialize`: its weights are neither from data, nor Glorot, nor loaded."""
    return self.actnorm_init == "data" and self._read_state() == _NEW

  def initialize(self, embeddings: Any) -> None:
    """Initializes every actnorm from data u [batch, dim], layer by layer; possible once.

    The original uses the first sentences of the first batch of pairs. The scale of a dimension without variance stays
    1, and the log names it (`constant_dimensions`).

    Raises:
      FlowError: a second call, or Glorot weights; fewer than 2 rows, NaN or infinite values, rows that are all equal,
        or numbers whose squares are not finite.
    """
    if self.actnorm_init != "data":
      raise FlowError("actnorm_init=glorot: this flow starts without data, do not call initialize", "actnorm_init")
    if self.initialized:
      raise FlowError("this flow is already initialized: initialize works once, make a new Glow to start again")
    batch = self._batch(embeddings)
    rows = check_rows(batch.numpy(), self.dim, FlowError)
    if len(rows) < 2 or (rows == rows[0]).all():
      found = f"{len(rows)} rows, all equal" if len(rows) > 1 else f"{len(rows)} row{'s' * (not len(rows))}"
      raise FlowError(f"embeddings: the flow starts from {found}; expected at least 2 different rows", "embeddings")
    initialize_levels(self.levels, batch)
    if not np.isfinite(self.levels[0][0][0].logs.numpy()).all():
      size = f"numbers up to {np.abs(rows).max():.3g}, too large for a flow in {self.dtype}"
      raise FlowError(f"embeddings: {size}; divide them by a constant", "embeddings")
    self.state.assign(_INITIALIZED)
    constant = self.constant_dimensions
    if constant:
      message = "%d of %d embedding dimensions have no variance and keep scale 1: index %s"
      logging.warning(message, len(constant), self.dim, ", ".join(map(str, constant)))

  @property
  def constant_dimensions(self) -> list[int]:
    """Indices of the embedding's dimensions without variance at initialization."""
    varying = tf.convert_to_tensor(self.levels[0][0][0].varying).numpy()
    return np.flatnonzero(varying == 0).tolist()

  def settings(self) -> dict[str, Any]:
    """Returns the constructor's arguments as json values, without the name."""
    return {
      "config": self.config.to_dict(),
      "dim": self.dim,
      "actnorm_init": self.actnorm_init,
      "permutation": self.permutation,
      "seed": self.seed,
      "dtype": self.dtype,
    }

  def get_config(self) -> dict[str, Any]:
    """Returns the constructor's arguments as json values."""
    return {**self.settings(), "name": self.name}

  @classmethod
  def from_config(cls, config: dict[str, Any]) -> "Glow":
    """Returns a new flow with the arguments of `get_config`; raises errors as the constructor."""
    return cls(**{**config, "config": FlowConfig.from_dict(config["config"])})

  def named_weights(self) -> dict[str, NamedWeight]:
    """Returns every weight but `state` by its name in the original's checkpoint below `bert/flow/`."""
    return level_weights(self.levels)

  def tf1_variables(self) -> dict[str, np.ndarray]:
    """Returns {name in the original's checkpoint below `bert/flow/`: array} of every variable of the original."""
    return {name: weight.read() for name, weight in self.named_weights().items() if weight.original}

  def load_tf1_variables(self, variables: Mapping[str, np.ndarray]) -> None:
    """Sets every weight from {name in the original: array}; see `named_weights.assign_original`."""
    assign_original(self.named_weights(), variables)
    if self._read_state() == _NEW:
      self.state.assign(_LOADED)

  def save(self, folder: str | os.PathLike) -> None:
    """Writes the flow's folder (`calibration.json`, `arrays.npz`) in one step; replaces an older one.

    Raises:
      FlowError: a weight is NaN or infinite; the folder cannot be written, or contains something else.
    """
    storage.save(self, folder)

  @classmethod
  def load(cls, folder: str | os.PathLike) -> "Glow":
    """Loads the flow that `save` wrote.

    Raises:
      FlowError: the folder is missing, incomplete or damaged.
    """
    return storage.load(cls, folder)

  def _copy_weights(self, other: "Glow") -> None:
    for weight, source in zip(self.weights, other.weights, strict=True):
      weight.assign(tf.convert_to_tensor(source))

  def _read_state(self) -> int:
    return int(tf.convert_to_tensor(self.state).numpy())

  def _batch(self, values: Any) -> tf.Tensor:
    return check_batch(values, self.dim, self.dtype)
