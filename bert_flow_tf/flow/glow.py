"""The flow: a chain of layers between the embedding and a standard normal latent."""

import json
import math

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
import tf_keras
from absl import logging

from bert_flow_tf.errors import ConfigError, FlowError
from bert_flow_tf.flow import storage
from bert_flow_tf.flow.chain import chain_bijector, make_step
from bert_flow_tf.flow.checks import check_arguments, check_rows, is_whole
from bert_flow_tf.flow.config import FlowConfig
from bert_flow_tf.flow.layer import prefixed, seed_stream
from bert_flow_tf.flow.named_weights import Tf1Variable

tfb = tfp.bijectors
tfd = tfp.distributions

# Values of the `state` weight, which checkpoints and folders carry along.
_NEW, _LOADED, _INITIALIZED = 0, 1, 2


class Glow(tf_keras.layers.Layer):
  """Glow without the spatial part, on sentence embeddings.

      z = f(u),  p(u) = N(f(u); 0, I) |det df/du|

  u is the embedding and z the latent, both [batch, dim]. L levels of K steps (actnorm, permutation, coupling);
  between levels the second half of the dimensions leaves as latent. The paper's section 3.2; Kingma and Dhariwal 2018.

  Args:
    config: `FlowConfig`.
    dim: dimensions of an embedding, a multiple of 2**n_levels.
    actnorm_init: "data", to be followed by `initialize`, or "glorot", as the published runner leaves the weights.
    permutation: "reverse" (the published code) or "random" (the paper); for `config.permutation` True.
    seed: integer that every initial weight derives from; None for other weights each time.
    dtype: "float32" or "float64".

  Attributes:
    encoder: what the embeddings came from; saved and loaded with the weights.

  Raises:
    ConfigError: an argument outside its allowed values.
    FlowError: `dim` does not fit the levels.
  """

  def __init__(self, config, dim, actnorm_init="data", permutation="reverse", seed=None, dtype="float32", name="flow"):
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
      for layer in (layer for step in level for layer in step):
        layer.build([None, dim >> index])
    self.state = self.add_weight("state", [], dtype=tf.int64, initializer="zeros", trainable=False)
    self._encoder = None
    self.built = True

  @property
  def encoder(self):
    """What the embeddings came from, as `SentenceEncoder.identity` says it; None if nobody said."""
    return self._encoder and json.loads(self._encoder)

  @encoder.setter
  def encoder(self, identity):
    self._encoder = identity and json.dumps(identity)  # Keras would wrap a dict, and what is in it

  def restart(self, seed):
    """Takes the weights that a new flow with the same other arguments and this seed has.

    Args:
      seed: as in `Glow`.
    """
    new = type(self)(self.config, self.dim, self.actnorm_init, self.permutation, seed, self.dtype)
    self._take_weights(new)
    self.seed, self.encoder = new.seed, None

  def copy(self):
    """A flow of its own with the same arguments and weights."""
    new = type(self)(self.config, self.dim, self.actnorm_init, self.permutation, self.seed, self.dtype)
    new._take_weights(self)
    new.encoder = self.encoder
    return new

  def make_bijector(self, dropout_seed=None):
    """A new `tfb.Chain` over the flow's weights; forward is u -> z. See `FlowLayer.make_bijector`."""
    return chain_bijector(self.levels, self.dim, dropout_seed)

  @property
  def distribution(self):
    """Density of the embeddings: `tfd.TransformedDistribution` with log_prob [batch] in nats, and sample.

    It follows the weights while they are trained, but remembers its result for a tensor that it has seen: take it
    anew after a step.
    """
    return self._distribution(None)

  def _distribution(self, dropout_seed):
    base = tfd.Sample(tfd.Normal(tf.zeros([], self.dtype), tf.ones([], self.dtype)), sample_shape=[self.dim])
    return tfd.TransformedDistribution(base, tfb.Invert(self.make_bijector(dropout_seed)), name="density")

  def call(self, inputs):
    """U [batch, dim] -> z [batch, dim]."""
    return self.make_bijector().forward(inputs)

  def transform(self, embeddings):
    """Latents of embeddings: u [batch, dim] -> z [batch, dim], of the flow's dtype."""
    return self(self._batch(embeddings))

  def inverse(self, latents):
    """Embeddings of latents: z [batch, dim] -> u [batch, dim], of the flow's dtype."""
    return self.make_bijector().inverse(self._batch(latents))

  def bits_per_dim(self, embeddings, dropout_seed=None):
    """-log p(u) / (dim ln 2), [batch], in bits per dimension; what the original calls flow_loss.

    Args:
      embeddings: u [batch, dim].
      dropout_seed: int32 [2] while fitting with coupling dropout, else None.
    """
    log_prob = self._distribution(dropout_seed).log_prob(self._batch(embeddings))
    return -log_prob / (self.dim * math.log(2.0))

  @property
  def initialized(self):
    """Whether `initialize` has been called, here or before the weights were saved."""
    return self._read_state() == _INITIALIZED

  @property
  def needs_initialization(self):
    """Whether the weights are neither initialised from data, nor Glorot, nor loaded."""
    return self.actnorm_init == "data" and self._read_state() == _NEW

  def initialize(self, embeddings):
    """Data-dependent initialisation of every actnorm, layer by layer, from u [batch, dim]; once.

    The original gives it the first sentences of the first batch of pairs. A dimension without variance keeps scale
    1 for good and is logged (`constant_dimensions`).

    Raises:
      FlowError: called a second time or for Glorot weights; fewer than 2 rows, NaN or infinite values, or rows that
        are all alike.
    """
    if self.actnorm_init != "data":
      raise FlowError("this flow has actnorm_init='glorot' and starts without data: do not call initialize")
    if self.initialized:
      raise FlowError("this flow is already initialised: initialize works once, make a new Glow to start again")
    batch = self._batch(embeddings)
    check_rows(batch.numpy())
    for index, level in enumerate(self.levels):
      width = self.dim >> index
      batch = batch[:, :width]
      for layer in (layer for step in level for layer in step):
        batch = layer.initialize(batch)
    self.state.assign(_INITIALIZED)
    if self.constant_dimensions:
      logging.warning(
        "%d of %d embedding dimensions have no variance and keep scale 1: index %s",
        len(self.constant_dimensions),
        self.dim,
        ", ".join(map(str, self.constant_dimensions)),
      )

  @property
  def constant_dimensions(self):
    """Indices of the embedding's dimensions that had no variance at initialisation, a list of int."""
    varying = tf.convert_to_tensor(self.levels[0][0][0].varying).numpy()
    return np.flatnonzero(varying == 0).tolist()

  def settings(self):
    """The constructor's arguments as json values."""
    return {
      "config": self.config.to_dict(),
      "dim": self.dim,
      "actnorm_init": self.actnorm_init,
      "permutation": self.permutation,
      "seed": self.seed,
      "dtype": self.dtype,
    }

  def tf1_variables(self):
    """{name in the original's checkpoint below `bert/flow/`: array}, every variable of the flow."""
    return {name: variable.read() for name, variable in self._tf1().items()}

  def load_tf1_variables(self, variables):
    """Sets every weight from {name: array}, names with or without `bert/flow/` before them.

    Raises:
      FlowError: a variable is missing, unknown, of another shape or not finite; nothing is changed then.
    """
    given = {}
    for name, array in variables.items():
      name = name.removeprefix("bert/flow/")
      if name in given:
        raise FlowError(f"variable {name} is given twice, with and without bert/flow/ before it")
      given[name] = array
    expected = self._tf1()
    storage.check_names(given, expected, "variables of the original's flow")
    values = {name: variable.parse(name, given[name]) for name, variable in expected.items()}
    for name, variable in expected.items():
      variable.weight.assign(values[name])
    for actnorm in self._actnorms().values():
      actnorm.varying.assign(tf.ones_like(actnorm.varying))
    if self._read_state() == _NEW:
      self.state.assign(_LOADED)

  def save(self, folder):
    """Writes the flow's folder (`flow.json`, `weights.npz`) in one step; an older flow there is replaced.

    Raises:
      FlowError: a weight is NaN or infinite; the folder cannot be written, or holds something that is not a flow.
    """
    settings = {**self.settings(), "state": self._read_state()}
    settings |= {"encoder": self.encoder} if self.encoder else {}
    bad = [name for name, array in self.tf1_variables().items() if not np.isfinite(array).all()]
    if bad:
      raise FlowError(f"the flow's {bad[0]} is not finite ({len(bad)} weights have this): it is not worth saving")
    varying = {name: tf.convert_to_tensor(layer.varying).numpy() for name, layer in self._actnorms().items()}
    storage.FLOW_FOLDER.write(folder, settings, {**self.tf1_variables(), **varying})

  @classmethod
  def load(cls, folder):
    """The flow that `save` wrote.

    Raises:
      FlowError: the folder is absent, incomplete or damaged.
    """
    settings, arrays = storage.read(folder)
    state, encoder = settings.pop("state"), settings.pop("encoder", None)
    if not isinstance(encoder, dict | None):
      raise FlowError(f"flow folder {folder}: encoder is {encoder!r}, expected an object")
    if not is_whole(state) or state not in (_NEW, _LOADED, _INITIALIZED):
      raise FlowError(f"flow folder {folder}: state is {state!r}, expected {_NEW}, {_LOADED} or {_INITIALIZED}")
    try:
      config = FlowConfig.from_dict(settings.pop("config"))
      storage.check_size(config, settings.get("dim"), arrays)
      flow = cls(config, **settings)
    except (ConfigError, FlowError, TypeError) as error:
      raise FlowError(f"flow folder {folder}: flow.json does not describe a flow ({error})") from error
    actnorms = flow._actnorms()
    storage.check_names(arrays, {**flow._tf1(), **actnorms}, f"weights in {folder}")
    flow.load_tf1_variables({name: array for name, array in arrays.items() if name not in actnorms})
    for name, layer in actnorms.items():
      layer.varying.assign(Tf1Variable(layer.varying, layer.varying.shape).parse(name, arrays[name]))
    flow.state.assign(state)
    flow.encoder = encoder
    return flow

  def _take_weights(self, other):
    for weight, its in zip(self.weights, other.weights, strict=True):
      weight.assign(tf.convert_to_tensor(its))

  def _tf1(self):
    named = {}
    for prefix, layer in self._named_layers():
      below = layer.tf1_variables()
      named.update(prefixed(f"{prefix}/actnorm" if layer.name == "actnorm" else prefix, below))
    return named

  def _actnorms(self):
    return {
      f"{prefix}/{name}/varying": layer
      for prefix, outer in self._named_layers()
      for name, layer in (outer.actnorms() if outer.actnorms().get("") is None else {"actnorm": outer}).items()
    }

  def _named_layers(self):
    for level_index, level in enumerate(self.levels):
      for step_index, step in enumerate(level):
        for layer in step:
          yield f"revnet_{level_index}/revnet_step_{step_index}", layer

  def _read_state(self):
    return int(tf.convert_to_tensor(self.state).numpy())

  def _batch(self, values):
    # A new tensor each time: bijectors remember what they gave for a tensor, and a round trip through that memory
    # would prove nothing.
    try:
      batch = tf.identity(tf.cast(values, self.dtype))
    except (TypeError, ValueError, tf.errors.OpError) as error:
      raise FlowError(f"expected numbers of shape [batch, {self.dim}], found {type(values).__name__}") from error
    if batch.shape.rank != 2 or batch.shape[1] != self.dim:
      raise FlowError(f"expected shape [batch, {self.dim}] for this flow, found {batch.shape}")
    return batch
