"""An encoder's graph and steps as one function of TensorFlow, from text to embeddings."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from bert_flow_tf.calibration.step import Features, Step, apply_steps
from bert_flow_tf.encoder.text_encoder import TextGraph
from bert_flow_tf.errors import DataError
from bert_flow_tf.flow.keras import is_symbolic
from bert_flow_tf.io.checks import check_dense


class SentenceFunction(tf.Module):
  """Function of `SentenceModel.as_function`: UTF-8 text string [n] -> embeddings float32 [n, output_dim], in a graph.

  Attributes:
    variables: all weights on which it computes.
    trainable_variables: the weights that get gradients; none of a frozen function.
    non_trainable_variables: the other weights.
  """

  # Lists in place of the properties of `tf.Module`, for which every variable of a frozen function is trainable. A
  # SavedModel has them, too.
  variables: Sequence[tf.Variable] = ()
  trainable_variables: Sequence[tf.Variable] = ()
  non_trainable_variables: Sequence[tf.Variable] = ()

  def __init__(self, encoder: TextGraph, steps: Sequence[Step], trainable: bool) -> None:
    super().__init__(name="sentence_function")
    of_steps = [variable for step in steps for variable in step.variables]
    trained = []
    if trainable:
      trained += encoder.trainable_variables()
      trained += [variable for variable in of_steps if variable.trainable]
    ids = set(map(id, trained))
    self.variables = [*encoder.variables, *of_steps]
    self.trainable_variables = trained
    self.non_trainable_variables = [variable for variable in self.variables if id(variable) not in ids]
    encoder.track(self)

    def embed(text):
      embeddings = apply_steps(steps, Features(*encoder.features(text)))
      if not trainable:
        embeddings = tf.stop_gradient(embeddings)
      return embeddings

    text = tf.TensorSpec([None], tf.string, "text")
    function = tf.function(embed, input_signature=[text], autograph=False)
    function.get_concrete_function()
    # TensorFlow saves functions that are attributes.
    self.__dict__["__call__"] = function

  def __call__(self, text: Any) -> tf.Tensor:
    """UTF-8 text string [n] -> float32 [n, output_dim]."""
    if is_symbolic(text):
      layer = "keras.layers.Lambda(function, output_shape=(dim,))"
      raise DataError(f"text: a symbolic tensor of Keras; use a layer on it, {layer}", "text")
    check_dense(text, "text")
    return self.__dict__["__call__"](text)
