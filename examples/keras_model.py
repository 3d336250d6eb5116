"""A Keras model with the encoder as a layer, the flow and a head: trained, saved, loaded.

    python examples/keras_model.py                            # Keras 3
    TF_USE_LEGACY_KERAS=1 python examples/keras_model.py      # Keras 2

It predicts the grades of the packaged sample's pairs from the cosine of their calibrated embeddings. The encoder is
frozen; with `as_layer(trainable=True)` it learns, too, as slowly as the optimizer's learning rate says.
"""

import argparse
import os
import tempfile

import numpy as np
import tensorflow as tf

from bert_flow_tf import Glow, SentenceEncoder, load_task
from bert_flow_tf.flow import NegativeLogLikelihood

keras = tf.keras  # of the process: 3, or 2 with TF_USE_LEGACY_KERAS=1


def make_model(encoder: SentenceEncoder, sentences: list[str]) -> keras.Model:
  """Returns a model from two sentences to their grade, whose flow starts with mean 0 and variance 1."""
  embed = encoder.as_layer()
  flow = Glow({"n_levels": 2, "depth": 2, "coupling_width": 64}, dim=embed.dim, seed=1)
  flow.adapt(encoder.encode(sentences, show_progress=False))
  a, b = (keras.Input([], dtype="string", name=name) for name in ("a", "b"))
  u, v = embed(a), embed(b)
  # Bits per dimension, whose mean the likelihood adds to the losses of the model.
  bits = NegativeLogLikelihood(flow)(u)
  cosine = keras.layers.Dot(axes=1, normalize=True)([flow(u), flow(v)])
  return keras.Model([a, b], {"grade": keras.layers.Dense(1)(cosine), "bits": bits})


def main(arguments: list[str] | None = None) -> dict[str, object]:
  """Trains, saves and loads; returns the losses and the largest difference of the loaded model's predictions."""
  parser = argparse.ArgumentParser(description="Trains a Keras model around encoder and flow.")
  parser.add_argument("--epochs", type=int, default=4)
  options = parser.parse_args(arguments)
  task = load_task("sample").splits
  pairs = [tf.constant(side) for side in (task["train"].sentences_a, task["train"].sentences_b)]
  model = make_model(SentenceEncoder.from_pretrained("mini"), list(task["train"].sentences_a))
  model.compile(keras.optimizers.Adam(1e-3), loss={"grade": "mse"})
  losses = model.fit(pairs, {"grade": task["train"].scores}, epochs=options.epochs, verbose=2).history["loss"]

  new = [tf.constant(side) for side in (task["test"].sentences_a, task["test"].sentences_b)]
  with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "grades.keras")
    model.save(path)  # names the encoder, and has all weights
    loaded = keras.models.load_model(path)  # elsewhere after `from bert_flow_tf import EncoderLayer, Glow`
  difference = np.abs(loaded.predict(new, verbose=0)["grade"] - model.predict(new, verbose=0)["grade"]).max()
  print(f"largest difference of the loaded model's grades: {difference:.1e}")
  return {"losses": losses, "difference": float(difference)}


if __name__ == "__main__":
  main()
