"""The graph functions of a served model."""

from collections.abc import Callable

import tensorflow as tf

from bert_flow_tf.calibration.graph import make_calibration_graph
from bert_flow_tf.encoder.graph import EncoderGraph
from bert_flow_tf.encoder.pooling import low_dim as low_dim_of
from bert_flow_tf.model import SentenceModel
from bert_flow_tf.serving.signatures import Signature, signatures_of

# Bounds of the memory of a request: the server has none for its number of rows unless it batches.
MAX_ROWS = 65536
# Tokens that are computed at once, if all rows have max_seq_length.
_TOKENS_AT_ONCE = 16384


class ServedModel:
  """Tokenizer, encoder, pooling and calibration as one function per row of `SIGNATURES`.

  A request has 0 to 65,536 rows; those of a large one are computed in parts. Only the first `lengths` tokens of a row
  are read, so padding that the server adds changes nothing. `sizes` are the sizes of the signatures' axes.
  """

  def __init__(self, model: SentenceModel, normalize: bool):
    identity = model.identity
    self._encoder = EncoderGraph(model.encoder, model.pooling, identity.max_seq_length)
    self._low_dim, self._normalize = identity.low_dim, normalize
    self.calibration = make_calibration_graph(model.calibration, model.dim)
    self.sizes = {"dim": model.dim, "output_dim": identity.low_dim or self.calibration.output_dim}
    if self.calibration.is_flow:
      self.sizes["latent_dim"] = self.calibration.output_dim
    ids, lengths = tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([None], tf.int32)
    pooled = tf.TensorSpec([None, model.dim], tf.float32)
    self._computations = {
      "serving_default": self._embed,
      "similarity": self._similarity,
      "embed_pooled": self._embed_pooled,
      "embed_ids": self._embed_ids,
      "log_prob": self._log_prob,
      "inverse": self._inverse,
    }
    self._variables = [*model.encoder.bert.model.weights, *self.calibration.variables]
    # Traced once each, and called by every signature.
    self._pooled = tf.function(self._encoder.of_ids, [ids, lengths], autograph=False)
    self._calibrated = tf.function(self._calibrate, [pooled], autograph=False)

  def module(self) -> tf.train.Checkpoint:
    """Returns a reusable SavedModel to be: callable on text, with variables, and gradients to the trainable ones."""
    module = tf.train.Checkpoint()
    module.variables = [*self._variables]
    module.trainable_variables = [variable for variable in module.variables if variable.trainable]
    module.regularization_losses = []
    text = tf.TensorSpec([None], tf.string, "text")
    module.__call__ = tf.function(lambda text: self._embed(text)[0], [text], autograph=False)
    module.serve = module.__call__  # the name in Keras' own exports
    return module

  def functions(self) -> dict[str, tf.types.experimental.ConcreteFunction]:
    """Returns {signature: function}, with the table's names, types and shapes of inputs and outputs."""
    return {signature.name: self._function(signature) for signature in signatures_of(self.calibration.is_flow)}

  def _function(self, signature: Signature):
    compute = self._computations[signature.name]
    shapes = [tensor.shape(self.sizes) for tensor in signature.outputs.values()]
    rows = max(1, _TOKENS_AT_ONCE // self._encoder.max_seq_length)
    specs = []
    for name, tensor in signature.inputs.items():
      specs.append(tf.TensorSpec(tensor.shape(self.sizes), tensor.dtype, name))

    def call(*inputs):
      with tf.control_dependencies(_allowed_lengths(signature, inputs)):
        inputs = [tf.identity(tensor) for tensor in inputs]
      return dict(zip(signature.outputs, _in_parts(compute, inputs, shapes, rows), strict=True))

    return tf.function(call, specs, autograph=False).get_concrete_function()

  def _embedded(self, text):
    rows = max(1, _TOKENS_AT_ONCE // self._encoder.max_seq_length)
    return _in_parts(self._embed, [text], [[None, self.sizes["output_dim"]]], rows)[0]

  def _embed(self, text):
    return (self._calibrated(self._pooled_text(text)),)

  def _embed_pooled(self, text):
    return (self._pooled_text(text),)

  def _embed_ids(self, ids, lengths):
    width = tf.shape(ids)[1]
    message = "embed_ids: a length is not between 1 and the number of ids in a row"
    with tf.control_dependencies([tf.debugging.assert_equal((lengths >= 1) & (lengths <= width), True, message)]):
      lengths = tf.identity(lengths)
    return (self._calibrated(self._pooled(ids, lengths)),)

  def _similarity(self, text_a, text_b):
    # One batch of both texts, so that equal texts get equal embeddings.
    (embeddings,) = self._embed(tf.concat([text_a, text_b], axis=0))
    a, b = tf.split(tf.math.l2_normalize(embeddings, axis=1), 2)
    return (tf.reduce_sum(a * b, axis=1),)

  def _log_prob(self, text):
    return self.calibration.log_prob(self._pooled_text(text))

  def _inverse(self, latent):
    return (self.calibration.inverse(latent),)

  def _pooled_text(self, text):
    ids, lengths = self._encoder.tokenizer(text)
    return self._pooled(ids, lengths)

  def _calibrate(self, pooled: tf.Tensor) -> tf.Tensor:
    embedding = low_dim_of(self.calibration.transform(pooled), self._low_dim)
    if self._normalize:
      embedding = tf.math.l2_normalize(embedding, axis=1)
    return embedding


def _in_parts(
  compute: Callable[..., tuple[tf.Tensor, ...]], inputs: list[tf.Tensor], shapes: list[list[int | None]], rows: int
) -> list[tf.Tensor]:
  """Returns `compute(*inputs)`, float32 Tensors of these shapes, of so many rows at a time; n may be 0."""
  parts = tf.maximum((tf.shape(inputs[0])[0] + rows - 1) // rows, 1)

  def add_part(i, arrays):
    part = [tensor[i * rows : (i + 1) * rows] for tensor in inputs]
    written = []
    for array, output in zip(arrays, compute(*part), strict=True):
      written.append(array.write(i, output))
    return i + 1, written

  arrays = [tf.TensorArray(tf.float32, parts, infer_shape=False, element_shape=shape) for shape in shapes]
  _, arrays = tf.while_loop(lambda i, _: i < parts, add_part, [0, arrays], parallel_iterations=1)
  return [array.concat() for array in arrays]


def _allowed_lengths(signature: Signature, inputs: tuple[tf.Tensor, ...]) -> list[tf.Operation]:
  """Returns assertions that a request is not too large and that its inputs have the same number of rows."""
  names = " and ".join(signature.inputs)
  message = f"{signature.name}: {names} have different lengths; expected one row of each input per result"
  n = tf.shape(inputs[0])[0]
  too_many = f"{signature.name}: more than {MAX_ROWS} rows in a request; send them in several requests"
  assertions = [tf.debugging.assert_less_equal(n, MAX_ROWS, too_many)]
  for other in inputs[1:]:
    assertions.append(tf.debugging.assert_equal(tf.shape(other)[0], n, message))
  return assertions
