"""The graph functions of a served model."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_flow_tf.calibration.flow import FlowCalibration
from bert_flow_tf.calibration.step import Calibration, Features, Normalize, Step, apply_steps, names_of
from bert_flow_tf.encoder.checkpoints.declared import DOCUMENT, QUERY
from bert_flow_tf.encoder.encoder_graph import EncoderGraph
from bert_flow_tf.encoder.graph.tokenizer import BYTES_PER_TOKEN
from bert_flow_tf.encoder.settings import TENSORFLOW
from bert_flow_tf.encoder.text_encoder import TextEncoder
from bert_flow_tf.encoder.transformer.number_formats import INT8
from bert_flow_tf.model import SentenceModel
from bert_flow_tf.serving.signatures import (
  SIGNATURES,
  TEXT_FEATURE,
  VECTOR_SIGNATURES,
  Signature,
  name_of_role,
  signatures_of,
)

# Bounds of the memory of a request: the server has none for its number of rows unless it batches.
MAX_ROWS = 65536
# Tokens that are computed at once, if all rows have max_seq_length; and rows of vectors.
_MAX_TOKENS = 16384
_MAX_VECTORS = 8192
# Bytes of text that are tokenized at once.
_MAX_BYTES = 2**20
# Largest width of rows of a fixed width.
_MAX_WIDTH = 512
# Width up to which rows count as short.
_SHORT_WIDTH = 64

Outputs = tuple[tf.Tensor, ...]
# {name of a signature: its function}
Functions = Mapping[str, tf.types.experimental.ConcreteFunction]


class ServedCalibration:
  """Calibration of vectors as one function per row of `VECTOR_SIGNATURES`.

  A request has 0 to 65,536 rows; the rows of a large request are computed in parts.

  Attributes:
    model: the served `SentenceModel`, or calibration.
    calibration: its calibration; None for none.
    flow: the calibration if it is a flow, else None.
    name: name of the model's steps.
    sizes: {axis of the signatures: size}.
    table: {name: signature}.
    without_text: reason why a model takes ids alone; None if it takes text.
    without: what the served model lacks, for metadata.json.
    engine: the program that computes it.
    is_int8: whether its encoder computes in int8.
  """

  engine = TENSORFLOW

  def __init__(self, model: Any, steps: Sequence[Step], dim: int, output_dim: int, normalize: bool) -> None:
    for step in steps:
      step.check_fitted()
    self.model, self.normalize = model, normalize
    self._steps = self._with_last(steps)
    first = self._steps[0] if self._steps else None
    self.calibration = first if isinstance(first, Calibration) else None
    self.flow = first if isinstance(first, FlowCalibration) else None
    self.name = names_of(steps) or "none"
    self.variables = [variable for step in steps for variable in step.variables]
    self.trainable_variables = [variable for variable in self.variables if variable.trainable]
    self.sizes = {"dim": dim, "output_dim": output_dim}
    if self.flow is not None:
      self.sizes["latent_dim"] = self.flow.output_dim
    self.is_int8 = False
    self.without = []
    if self.flow is None:
      self.without.append("log_prob and inverse: the calibration is not a flow")
    has_roles = self.calibration is not None and self.calibration.query_shift is not None
    self.table = signatures_of(VECTOR_SIGNATURES, self.flow is not None, has_roles=has_roles)
    self._rows_at_once = _MAX_VECTORS
    self.without_text: str | None = None
    self._computations: dict[str, Callable[..., Outputs]] = {
      "serving_default": self._embed,
      "log_prob": self._log_prob,
      "inverse": self._inverse,
      name_of_role(QUERY): self._embed_query,
    }
    # Traced once, and called by every signature.
    pooled = tf.TensorSpec([None, dim], tf.float32)
    self._calibrated = tf.function(lambda u: apply_steps(self._steps, Features(u)), [pooled], autograph=False)

  def _with_last(self, steps: Sequence[Step]) -> list[Step]:
    """Returns steps, and the one that normalizes what they give."""
    return [*steps, Normalize()] if self.normalize else list(steps)

  def embed(self, rows: Sequence[str] | np.ndarray) -> np.ndarray:
    """Returns the embeddings before calibration of rows of input, float32 [n, dim], computed in Python."""
    return np.asarray(rows, np.float32)

  def module(self) -> tf.train.Checkpoint:
    """Returns the reusable SavedModel to be: callable, with variables and gradients to the trainable ones."""
    # Without a graph of its tokenizer a model has no signature of text.
    default = next(iter(self.table.values()))
    module = tf.train.Checkpoint()
    module.variables = self.variables
    module.trainable_variables = self.trainable_variables
    module.regularization_losses = []
    # Not in parts: TensorFlow would keep what the gradients need in lists, which is slow.
    compute = self._computations[default.name]
    module.__call__ = tf.function(lambda *inputs: compute(*inputs)[0], self._specs(default), autograph=False)
    module.serve = module.__call__  # its name in Keras' exports
    return module

  def functions(self) -> dict[str, tf.types.experimental.ConcreteFunction]:
    """Returns {signature: function}, with the table's names, types and shapes of inputs and outputs."""
    return {name: self._function(signature) for name, signature in self.table.items()}

  def _specs(self, signature: Signature) -> list[tf.TensorSpec]:
    specs = []
    for name, tensor in signature.inputs.items():
      specs.append(tf.TensorSpec(tensor.shape(self.sizes), tensor.dtype, name))
    return specs

  def _function(self, signature: Signature):
    compute = self._computations[signature.name]
    limit = self._rows_at_once
    if not signature.at_once:
      limit = MAX_ROWS
      compute = functools.partial(self._in_parts, signature)

    def call(*inputs):
      with tf.control_dependencies(_allowed_lengths(signature, inputs, limit)):
        inputs = list(map(tf.identity, inputs))
      return dict(zip(signature.outputs, compute(*inputs), strict=True))

    return tf.function(call, self._specs(signature), autograph=False).get_concrete_function()

  def _in_parts(self, signature: Signature, *inputs: tf.Tensor) -> list[tf.Tensor]:
    """Returns the outputs of a signature, float32 Tensors, computed in parts of some rows; n may be 0."""
    rows = self._rows_of(inputs)
    parts = tf.maximum((tf.shape(inputs[0])[0] + rows - 1) // rows, 1)

    def add_part(i, arrays):
      part = [tensor[i * rows : (i + 1) * rows] for tensor in inputs]
      outputs = self._computations[signature.name](*part)
      written = [array.write(i, output) for array, output in zip(arrays, outputs, strict=True)]
      return i + 1, written

    arrays = []
    for tensor in signature.outputs.values():
      arrays.append(tf.TensorArray(tf.float32, parts, infer_shape=False, element_shape=tensor.shape(self.sizes)))
    _, arrays = tf.while_loop(lambda i, _: i < parts, add_part, [0, arrays], parallel_iterations=1)
    return [array.concat() for array in arrays]

  def _rows_of(self, inputs: tuple[tf.Tensor, ...]) -> int | tf.Tensor:
    """Returns the number of rows of a request's inputs that are computed at once, an int or a Tensor."""
    del inputs
    return self._rows_at_once

  def _pooled_of(self, inputs: tf.Tensor) -> tf.Tensor:
    """Returns the embeddings before calibration, float32 [n, dim]."""
    return inputs

  def _embed(self, inputs: tf.Tensor) -> Outputs:
    return (self._calibrated(self._pooled_of(inputs)),)

  def _embed_query(self, vectors: tf.Tensor) -> Outputs:
    assert self.calibration is not None, "a signature of calibrations that were fitted with queries"
    return (apply_steps(self._with_last(self.calibration.steps_of_queries()), Features(vectors)),)

  def _log_prob(self, inputs: tf.Tensor) -> Outputs:
    assert self.flow is not None, "a signature of flows"
    return self.flow.log_prob(self._pooled_of(inputs))

  def _inverse(self, latent: tf.Tensor) -> Outputs:
    assert self.flow is not None, "a signature of flows"
    return (self.flow.inverse(latent),)


class ServedModel(ServedCalibration):
  """Tokenizer, encoder, pooling and calibration as one function per row of `SIGNATURES`; see the base class.

  Of each row only the first `lengths` tokens are read, so padding that the server adds changes nothing.
  """

  def __init__(self, model: SentenceModel, normalize: bool):
    dim = model.dim if model.reads_embedding else 0
    super().__init__(model, model.steps, dim, model.output_dim, normalize)
    self._encoder = model.encoder_graph()
    self.variables = [*self._encoder.variables, *self.variables]
    self.is_int8 = model.encoder.precision == INT8
    if not self.is_int8:
      self.trainable_variables = [*self._encoder.trainable_variables(), *self.trainable_variables]
    # A static encoder or a SavedModel may read whole texts: the longest decides how many rows are computed at once.
    width = min(model.max_seq_length, _MAX_WIDTH)
    self._rows_at_once = max(1, _MAX_TOKENS // width)
    self._reads_whole_texts = model.max_seq_length > width
    self.name = model.calibration_name or "none"
    self.sizes["max_seq_length"] = width
    self.without_text = self._encoder.without_text
    takes_text = not self.without_text
    roles = roles_of(model)
    self.table = signatures_of(SIGNATURES, self.flow is not None, self._encoder.takes_ids, takes_text, bool(roles))
    if not dim:
      self.table.pop("embed_pooled", None)
    if self.without_text:
      self.without.append(f"signatures of text: {self.without_text}")
    if self.is_int8:
      self.table.pop("embed_ids_fixed")
      self.without.append("embed_ids_fixed: TensorFlow Lite has no products of int8")
    self._computations |= {
      "similarity": self._similarity,
      "embed_pooled": lambda text: (self._pooled_of(text),),
      "embed_ids": self._embed_ids,
      "embed_ids_fixed": self._embed_ids_fixed,
      "embed_examples": self._embed_examples,
    }
    for role, (encoder, steps) in roles.items():
      if takes_text:
        self._computations[name_of_role(role)] = self._embedding_of(encoder, steps)
    # Without tokens the texts go to the encoder as they are.
    self._tokens = self._encoder if isinstance(self._encoder, EncoderGraph) else None
    if self._tokens is not None:
      ids, lengths = tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([None], tf.int32)
      self._pooled = tf.function(self._tokens.of_ids, [ids, lengths], autograph=False)
      self._calibrated_tokens = tf.function(self._calibrate_tokens, [ids, lengths], autograph=False)

  def module(self) -> tf.train.Checkpoint:
    """See the base class."""
    module = super().module()
    self._encoder.track(module)
    return module

  def embed(self, rows: Sequence[str] | np.ndarray) -> np.ndarray:
    """See the base class."""
    return self.model.encode(rows, calibrated=False)

  def _rows_of(self, inputs: tuple[tf.Tensor, ...]) -> int | tf.Tensor:
    is_text = inputs[0].dtype == tf.string
    if inputs[0].dtype == tf.float32 or not (self._reads_whole_texts or is_text):
      return self._rows_at_once
    if is_text:
      lengths = tf.strings.length(tf.concat(inputs, axis=0))  # bytes, of which a token has at least one
      longest = tf.reduce_max(tf.concat([lengths, [0]], axis=0)) + 2
      if not self._reads_whole_texts:
        longest = tf.minimum(longest, BYTES_PER_TOKEN * self.sizes["max_seq_length"])
        return tf.clip_by_value(_MAX_BYTES // longest, 1, self._rows_at_once)
    else:
      longest = tf.shape(inputs[0])[1]
    return tf.clip_by_value(_MAX_TOKENS // tf.maximum(longest, 1), 1, _MAX_TOKENS // _SHORT_WIDTH)

  def _pooled_of(self, text: tf.Tensor) -> tf.Tensor:
    if self._tokens is None:
      return self._encoder.features(text)[0]
    return self._pooled(*self._tokens.tokenizer(text))

  def pooled_of_ids(self, ids: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """Returns the embeddings before calibration of ids int32 [n, seq_len] and lengths int32 [n], float32 [n, dim]."""
    return self._pooled(tf.constant(ids), tf.constant(lengths))

  def _embed(self, text: tf.Tensor) -> Outputs:
    if self._tokens is None:
      return super()._embed(text)
    return (self._calibrated_tokens(*self._tokens.tokenizer(text)),)

  def _embedding_of(self, encoder: TextEncoder, steps: Sequence[Step]) -> Callable[[tf.Tensor], Outputs]:
    """Returns the function from texts of a role to embeddings, on the weights of the served model."""
    steps = self._with_last(steps)
    if not encoder.has_tokens:
      return lambda text: (apply_steps(steps, Features(self._pooled_of(text))),)
    graph = encoder.text_graph(self.model.pooling, self.model.max_seq_length)
    assert isinstance(graph, EncoderGraph), "a graph of tokens"

    def embed(text):
      # Characters are those of the text without the role's prompt.
      pooled = self._pooled(*graph.tokenizer(text))
      return (apply_steps(steps, Features(pooled, *self._tokens.tokenizer(text))),)

    return embed

  def _calibrate_tokens(self, ids: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    return apply_steps(self._steps, Features(self._pooled(ids, lengths), ids, lengths))

  def _embed_ids(self, ids: tf.Tensor, lengths: tf.Tensor) -> Outputs:
    return (self._calibrated_tokens(ids, _checked_lengths(ids, lengths)),)

  def _embed_ids_fixed(self, ids: tf.Tensor, lengths: tf.Tensor) -> Outputs:
    # TensorFlow Lite has no lists of tensors.
    lengths = _checked_lengths(ids, lengths)
    mask = tf.sequence_mask(lengths, self.sizes["max_seq_length"], tf.int32)
    assert self._tokens is not None, "a signature of encoders with tokens"
    features = Features(self._tokens.of_fixed_width(ids, mask), ids, lengths, lite=True)
    return (apply_steps(self._steps, features),)

  def _embed_examples(self, examples: tf.Tensor) -> Outputs:
    features = tf.io.parse_example(examples, {TEXT_FEATURE: tf.io.FixedLenFeature([], tf.string)})
    return self._embed(features[TEXT_FEATURE])

  def _similarity(self, text_a: tf.Tensor, text_b: tf.Tensor) -> Outputs:
    # One batch of both texts, so that equal texts get equal embeddings.
    (embeddings,) = self._embed(tf.concat([text_a, text_b], axis=0))
    a, b = tf.split(tf.math.l2_normalize(embeddings, axis=1), 2)
    return (tf.reduce_sum(a * b, axis=1),)


def roles_of(model: SentenceModel) -> dict[str, tuple[TextEncoder, tuple[Step, ...]]]:
  """Returns {role: the encoder and the steps of its texts}; {} if texts have no roles."""
  encoders = {QUERY: model.encoder.for_queries(), DOCUMENT: model.encoder.for_documents()}
  roles = {role: (encoder, model.steps_of(role)) for role, encoder in encoders.items()}
  if all(encoder is model.encoder and steps is model.steps for encoder, steps in roles.values()):
    return {}
  return roles


def _allowed_lengths(signature: Signature, inputs: tuple[tf.Tensor, ...], limit: int) -> list[tf.Operation]:
  """Returns assertions that a request is not too large and that its inputs have the same number of rows."""
  names = " and ".join(signature.inputs)
  message = f"{signature.name}: {names} have different lengths; expected one row of each input per result"
  n = tf.shape(inputs[0])[0]
  too_many = f"{signature.name}: more than {limit} rows in a request; send them in several requests"
  assertions = [tf.debugging.assert_less_equal(n, limit, too_many)]
  for other in inputs[1:]:
    assertions.append(tf.debugging.assert_equal(tf.shape(other)[0], n, message))
  return assertions


def _checked_lengths(ids: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
  """Returns the lengths, after an assertion that each is between 1 and the width of the ids."""
  allowed = (lengths >= 1) & (lengths <= tf.shape(ids)[1])
  message = "a length is not between 1 and the number of ids in a row"
  with tf.control_dependencies([tf.debugging.assert_equal(allowed, True, message)]):
    return tf.identity(lengths)
