"""The flow: a chain of layers between the embedding and a standard normal latent."""

import copy
import itertools
import math
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf
from absl import logging

from bert_flow_tf.errors import ConfigError, FlowError
from bert_flow_tf.flow.chain import chain_bijector, forward_and_log_det, initialize_levels, level_weights, make_step
from bert_flow_tf.flow.config import INITIALIZED, LOADED, NEW, FlowConfig, check_arguments
from bert_flow_tf.flow.keras import DType, Layer, name_in_file, name_scope, one_in_file, registered
from bert_flow_tf.flow.layer import FlowLayer, Network, Vectors, build_part, rows_of, seed_stream, weights_dtype
from bert_flow_tf.flow.named_weights import NamedWeight, assign_original, check_names
from bert_flow_tf.io import archive
from bert_flow_tf.io.checks import check_rows

if TYPE_CHECKING:  # imported where it is used, as in `FlowLayer.make_bijector`
  import tensorflow_probability as tfp

# The archive and its `method`: a flow is saved as the calibration that it is.
_KIND, _METHOD = "calibration", "flow"


@registered
class Glow(FlowLayer):
  """Glow without the spatial part, on sentence embeddings.

      forward   z = f(u),  p(u) = N(z; 0, I) |det dz/du|
      inverse   u = f^-1(z)
      log|det dz/du| = sum over the layers

  u is the embedding, z the latent, both [..., dim]. L levels of K steps (actnorm, permutation, coupling); between
  levels the second half of the dimensions leaves as latent. The paper's section 3.2; Kingma and Dhariwal 2018.

  A model may use a flow twice, for its latents and in a `NegativeLogLikelihood`. `copy.deepcopy(model)` keeps the two
  uses on one flow; Keras' `clone_model(model)` makes two flows with separate weights.

  Args:
    config: `FlowConfig`, or a dict of its keys.
    dim: dimensions of an embedding, a multiple of 2**n_levels.
    actnorm_init: "data", which needs a call of `adapt` or `initialize`, or "glorot", the published runner's initial
      weights.
    permutation: "reverse" (the published code) or "random" (the paper); only if `config.permutation` is True.
    seed: integer that determines every initial weight, except in your `network`; None for new ones each time.
    dtype: "float32" or "float64". Under a policy of mixed precision the flow computes in the dtype of its weights.
    name: name of the Keras layer; None for a new name.
    trainable: whether the Keras layer is trainable.
    network: function from a number of outputs to a new Keras layer, for the couplings; None for `config`'s.
    base: distribution of the latents, a `tfd` of numbers or of vectors [dim] in the flow's dtype; None for a standard
      normal.
    **kwargs: further arguments of a Keras layer, as Keras 2's batch_input_shape.

  Raises:
    ConfigError: an argument is outside its allowed values.
    FlowError: `dim` does not fit the levels.
  """

  def __init__(
    self,
    config: FlowConfig | dict[str, object],
    dim: int,
    actnorm_init: str = "data",
    permutation: str = "reverse",
    seed: int | None = None,
    dtype: DType = "float32",
    name: str | None = None,
    trainable: bool = True,
    network: Network | Sequence[Network] | None = None,
    base: "tfp.distributions.Distribution | dict[str, object] | None" = None,
    **kwargs: object,
  ) -> None:
    if isinstance(config, dict):
      config = FlowConfig.from_dict(config)
    dtype = weights_dtype(dtype)
    check_arguments(config, dim, actnorm_init, permutation, seed, dtype)
    super().__init__({}, dtype, name=name, trainable=trainable, **kwargs)
    self.config = config
    self.has_dropout = bool(config.coupling_dropout) or network is not None
    self.dim = int(dim)
    self.actnorm_init = actnorm_init
    self.permutation = permutation
    self.seed = None if seed is None else int(seed)
    self.has_custom_network = network is not None
    if isinstance(network, Layer):  # the couplings would share its weights, until the flow is saved or copied
      raise ConfigError("network: expected a function that makes a layer for each coupling, got a layer", "network")
    # A saved flow has a network for each coupling.
    couplings = config.n_levels * config.depth
    networks = network if isinstance(network, list | tuple) else [network] * couplings
    if len(networks) != couplings:
      raise ConfigError(f"network: a list of {len(networks)}, expected a function, or {couplings} of them", "network")
    networks = iter(networks)
    # Each step draws its seed from one stream, so one seed determines all weights.
    seeds = seed_stream(seed)
    # One flat list of layers, because Keras does not save layers in nested lists.
    chain = []
    with name_scope(self.name):
      for level, step in itertools.product(range(config.n_levels), range(config.depth)):
        layers = make_step(config, actnorm_init, permutation, next(seeds), dtype, next(networks))
        with name_scope(f"level_{level}_step_{step}"):
          for layer in layers:
            build_part(layer, self.dim >> level)
        chain += layers
      self.state = self.add_weight(name="state", shape=[], dtype="int64", initializer="zeros", trainable=False)
    self.chain = chain  # assigned when it is complete: Keras 3 does not see layers that are added to a list later
    self.base = None
    if base is not None:
      from bert_flow_tf.flow.base import from_config, latent_distribution

      self.base = latent_distribution(from_config(base), self.dim, dtype)
    super().build([None, self.dim])

  @property
  def levels(self) -> list[list[list[FlowLayer]]]:
    """Levels of steps of layers, in the order in which an embedding passes them."""
    return _batched(_batched(self.chain, 3), self.config.depth)

  def restart(self, seed: int | None) -> None:
    """Resets the weights as in a new flow with this seed and otherwise equal arguments."""
    if self.has_custom_network:
      raise FlowError("network: a seed does not determine the weights of your own network; make a new Glow", "network")
    new = self.from_config({**self.get_config(), "seed": seed})
    weights = self.named_weights()
    for name, source in new.named_weights().items():
      weights[name].weight.assign(tf.convert_to_tensor(source.weight))
    self.state.assign(NEW)
    self.seed = new.seed

  def copy(self) -> "Glow":
    """Returns a new flow with equal arguments and weights."""
    return copy.deepcopy(self)

  def make_bijector(self, dropout_seed: tf.Tensor | None = None) -> "tfp.bijectors.Bijector":
    """Returns a new `tfb.Chain` over the flow's weights; forward is u -> z. See `FlowLayer.make_bijector`."""
    return chain_bijector(self.levels, self.dim, dropout_seed)

  @property
  def distribution(self) -> "tfp.distributions.Distribution":
    """Density of the embeddings: `tfd.TransformedDistribution` with log_prob [batch] in nats, and sample.

    It always computes by the current weights, also where it is kept over steps of a training.
    """
    from tensorflow_probability import bijectors, distributions

    from bert_flow_tf.flow.base import latent_distribution

    base = latent_distribution(self.base, self.dim, self.dtype)
    return distributions.TransformedDistribution(base, bijectors.Invert(self.make_bijector()))

  def forward_and_log_det(self, u: tf.Tensor, dropout_seed: tf.Tensor | None = None) -> tuple[tf.Tensor, tf.Tensor]:
    """u [..., dim] -> z [..., dim] and the log-determinant, [...] or a scalar."""
    return forward_and_log_det(self.levels, self.prepared(u), dropout_seed)

  def training_seed(self, training: bool | None) -> tf.Tensor | None:
    """Returns a new seed of dropout while training; warns of weights that lack their initialization."""
    if training is True and self.needs_initialization:
      logging.warning("%s: trained without adapt(data): its initial weights do not fit the data", self.name)
    return super().training_seed(training)

  def transform(self, embeddings: Vectors) -> tf.Tensor:
    """u [..., dim] -> z [..., dim], the latents of embeddings, in the flow's dtype."""
    return self(self.prepared(embeddings))

  def inverse(self, latents: Vectors, dropout_seed: tf.Tensor | None = None) -> tf.Tensor:
    """z [..., dim] -> u [..., dim], the embeddings of latents, in the flow's dtype."""
    return self.make_bijector(dropout_seed).inverse(self.prepared(latents))

  def bits_per_dim(self, embeddings: Vectors, dropout_seed: tf.Tensor | None = None) -> tf.Tensor:
    """-log p(u) / (dim ln 2), [...], of u [..., dim], in bits per dimension: the original's flow_loss.

    `dropout_seed` is int32 [2] while fitting with coupling dropout, else None.
    """
    # log p(u) = log N(z; 0, I) + log|det dz/du|
    z, log_det = self.forward_and_log_det(embeddings, dropout_seed)
    if self.base is None:
      log_base = -0.5 * tf.reduce_sum(tf.square(z), axis=-1) - 0.5 * self.dim * math.log(2.0 * math.pi)
    else:
      log_base = self.base.log_prob(z)
    return -(log_base + log_det) / (self.dim * math.log(2.0))

  @property
  def initialized(self) -> bool:
    """True if `initialize` was called, also before the weights were saved."""
    return self._read_state() == INITIALIZED

  @property
  def needs_initialization(self) -> bool:
    """True if the flow waits for `initialize`: its weights are neither from data, nor Glorot, nor loaded."""
    return self.actnorm_init == "data" and self._read_state() == NEW

  def initialize(self, embeddings: Vectors) -> None:
    """Initializes every actnorm from data u [batch, dim], layer by layer; possible once.

    The original uses the first sentences of the first batch of pairs. The scale of a dimension without variance stays
    1, and the log names it (`constant_dimensions`).

    Raises:
      FlowError: a second call, or Glorot weights; fewer than 2 rows, NaN or infinite values, rows that are all equal,
        or numbers whose squares are not finite.
    """
    if self.initialized:
      raise FlowError("this flow is already initialized: initialize works once, make a new Glow to start again")
    self.adapt(embeddings)

  def adapt(self, data: Vectors | tf.data.Dataset, batch_size: int | None = None, steps: int | None = None) -> None:
    """Initializes every actnorm from data, as Keras' `Normalization.adapt`; a second call does so again.

    Raises the errors of `initialize`, but for a second call.

    Args:
      data: array u [n, dim], or `tf.data.Dataset` of batches of it, alone or first in a tuple; all of it is in memory.
      batch_size: rows per step of an array; 32 if None.
      steps: number of batches to use; all if None.
    """
    if self.actnorm_init != "data":
      raise FlowError("actnorm_init=glorot: this flow starts without data, do not initialize it", "actnorm_init")
    if not tf.executing_eagerly():
      raise FlowError("initialize: a tf.function has no values yet; initialize the flow outside of it", "embeddings")
    batch = self.prepared(rows_of(data, batch_size, steps))
    rows = check_rows(batch.numpy(), self.dim, FlowError)
    if len(rows) < 2 or (rows == rows[0]).all():
      found = f"no two of {len(rows)} rows differ"
      raise FlowError(f"embeddings: {found}; a flow starts from at least 2 different rows", "embeddings")
    # Rows are finite; their squares may not be.
    initialize_levels(self.levels, batch)
    if not np.isfinite(self.chain[0].logs.numpy()).all():
      size = f"numbers up to {np.abs(rows).max():.3g}, too large for a flow in {self.dtype}"
      raise FlowError(f"embeddings: {size}; divide them by a constant", "embeddings")
    self.state.assign(INITIALIZED)
    constant = self.constant_dimensions
    if constant:
      message = "%d of %d embedding dimensions have no variance and keep scale 1: index %s"
      logging.warning(message, len(constant), self.dim, ", ".join(map(str, constant)))

  @property
  def constant_dimensions(self) -> list[int]:
    """Indices of the embedding's dimensions without variance at initialization."""
    varying = tf.convert_to_tensor(self.chain[0].varying).numpy()
    return np.flatnonzero(varying == 0).tolist()

  def settings(self) -> dict[str, object]:
    """Returns the constructor's arguments as json values, without the name."""
    return {
      "config": self.config.to_dict(),
      "dim": self.dim,
      "actnorm_init": self.actnorm_init,
      "permutation": self.permutation,
      "seed": self.seed,
      "dtype": self.dtype,
    }

  def get_config(self) -> dict[str, object]:
    """Returns the constructor's arguments as json values."""
    name_in_file(self)
    config = {**self.settings(), "name": self.name, "trainable": self.trainable}
    if self.has_custom_network:
      config["network"] = [layer.get_config()["network"] for layer in self.chain[2::3]]
    if self.base is not None:
      from bert_flow_tf.flow.base import to_config

      config["base"] = to_config(self.base)
    return config

  @classmethod
  def from_config(cls, config: dict[str, Any]) -> "Glow":
    """Returns a flow with the arguments of `get_config`: a new one, unless Keras reads a flow of a file again."""
    settings = {key: value for key, value in config.items() if key != "network"}  # whose parts may have ids
    return one_in_file(config, settings, lambda: cls(**config))

  def named_weights(self) -> dict[str, NamedWeight]:
    """Returns every weight but `state` by its name in the original's checkpoint below `bert/flow/`."""
    return level_weights(self.levels)

  def tf1_variables(self) -> dict[str, np.ndarray]:
    """Returns {name in the original's checkpoint below `bert/flow/`: array} of every variable of the original."""
    return {name: weight.read() for name, weight in self.named_weights().items() if weight.original}

  def load_tf1_variables(self, variables: Mapping[str, np.ndarray]) -> None:
    """Sets every weight from {name in the original: array}; see `named_weights.assign_original`."""
    assign_original(self.named_weights(), variables)
    if self._read_state() == NEW:
      self.state.assign(LOADED)

  def contents(self) -> tuple[dict[str, object], dict[str, np.ndarray]]:
    """Returns the JSON settings and the arrays, by their names in the original, that `restore` takes."""
    if self.has_custom_network or self.base is not None:
      raise FlowError("a flow with a network or base of your own cannot be saved here; save it with Keras")
    arrays = {name: weight.read() for name, weight in self.named_weights().items()}
    bad = [name for name, array in arrays.items() if not np.isfinite(array).all()]
    if bad:
      raise FlowError(f"the flow's {bad[0]} is not finite (as {len(bad)} weights in all): it cannot be saved")
    return {"method": _METHOD, **self.settings(), "state": self._read_state()}, arrays

  @classmethod
  def restore(cls, settings: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> "Glow":
    """Returns the flow of `contents`; raises any error if they describe no flow."""
    # A linear calibration, or a flow with a scale, is more than this class can compute.
    arguments = dict(settings)
    if arguments.pop("method") != _METHOD or "shares" in arguments:
      raise FlowError("it is another calibration, or more than a flow; load it with load_calibration")
    state = arguments.pop("state")
    if state not in (NEW, LOADED, INITIALIZED):
      raise FlowError(f"state is {state!r}, expected an integer from {NEW} to {INITIALIZED}")
    # A flow that is larger than its weights would take memory and time before it is rejected.
    config = FlowConfig.from_dict(arguments["config"])
    largest = max(size for array in arrays.values() for size in array.shape)
    if max(config.coupling_width, arguments["dim"]) > largest or config.n_levels * config.depth > len(arrays):
      raise FlowError(f"the weights belong to a smaller flow than {arguments}")
    flow = cls.from_config(arguments)
    weights = flow.named_weights()
    check_names(arrays, weights, "weights")
    for name, weight in weights.items():
      weight.weight.assign(weight.parse(name, arrays[name]))
    flow.state.assign(state)
    return flow

  def save(self, folder: str | os.PathLike) -> None:
    """Writes FOLDER/calibration.npz, without the identity of an encoder; replaces an older one.

    Raises:
      FlowError: a weight is NaN or infinite.
      BertFlowError: the file cannot be written.
    """
    settings, arrays = self.contents()
    archive.write(folder, _KIND, {**settings, "encoder": None}, arrays)

  @classmethod
  def load(cls, folder: str | os.PathLike) -> "Glow":
    """Loads the flow that `save` or a calibration wrote.

    Raises:
      FlowError: the file is missing or damaged.
    """
    with archive.opened(folder, _KIND, FlowError) as (settings, arrays):
      settings.pop("encoder")
      return cls.restore(settings, arrays)

  def _read_state(self) -> int:
    with tf.init_scope():  # also while a graph is traced
      return int(tf.convert_to_tensor(self.state).numpy())


def _batched(items: Sequence, size: int) -> list[list]:
  """Returns the consecutive parts of a sequence, of `size` items each."""
  return [list(items[start : start + size]) for start in range(0, len(items), size)]
