"""Every kind of Keras model in which a flow is trained."""

import numpy as np
import tensorflow as tf

from bert_flow_tf.flow import Glow, NegativeLogLikelihood
from bert_flow_tf.flow.keras import keras
from tests.flow.cases import DIM, cone


class Flow(keras.Model):
  """A model of a user's own whose call is given, with a flow as its attribute."""

  def __init__(self, flow, function):
    super().__init__()
    self.flow, self.function = flow, function
    self.likelihood = NegativeLogLikelihood(flow)

  def call(self, inputs):
    return self.function(self, inputs)


class FlowWithTrainStep(Flow):
  def train_step(self, data):
    with tf.GradientTape() as tape:
      loss = tf.reduce_mean(self.flow.bits_per_dim(data))
    gradients = tape.gradient(loss, self.trainable_variables)
    self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
    return {"bits": loss}


def add_loss(model, inputs):
  model.add_loss(tf.reduce_mean(model.flow.bits_per_dim(inputs)))
  return inputs


def functional(flow):
  inputs = keras.Input([DIM])
  return keras.Model(inputs, NegativeLogLikelihood(flow)(inputs))


# {name: flow -> a model whose fit moves the flow's weights}
MODELS = {
  "functional": functional,
  "sequential": lambda flow: keras.Sequential([keras.Input([DIM]), NegativeLogLikelihood(flow)]),
  "subclass": lambda flow: Flow(flow, lambda model, inputs: model.likelihood(inputs)),
  "add_loss": lambda flow: Flow(flow, add_loss),
  "train_step": lambda flow: FlowWithTrainStep(flow, lambda model, inputs: model.flow(inputs)),
}


def train(name):
  """Fits a model (the functional model compiled); returns the unchanged weights, and bits before and after."""
  flow = Glow({"n_levels": 2, "depth": 1, "coupling_width": 4}, DIM, seed=1)
  u = cone(6, DIM).astype(np.float32)
  flow.adapt(u)
  model = MODELS[name](flow)
  model.compile(keras.optimizers.Adam(0.01), run_eagerly=name != "functional")
  before, bits = flow.get_weights(), [float(np.mean(flow.bits_per_dim(u)))]
  model.fit(u, epochs=2, batch_size=6, verbose=0)
  bits.append(float(np.mean(flow.bits_per_dim(u))))
  assert len(model.trainable_weights) == len(flow.trainable_weights)
  trained = {id(weight) for weight in flow.trainable_weights}
  unchanged = []
  for weight, old, new in zip(flow.weights, before, flow.get_weights(), strict=True):
    if id(weight) in trained and np.array_equal(old, new):
      unchanged.append(weight.name)
  return unchanged, bits
