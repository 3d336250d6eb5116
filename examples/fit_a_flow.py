"""A flow on any vectors: Keras trains it, TensorFlow Probability uses it. No text and no BERT.

    python examples/fit_a_flow.py                      # vectors that are made here
    python examples/fit_a_flow.py --vectors=my.npy     # your own, float [n, dim], dim a multiple of 4

It prints the density of vectors that the flow has not seen, next to that of the normal distribution with their mean and
covariance, and the mean cosine of random pairs before and after.
"""

import argparse
import os
import tempfile
from typing import Any

from bert_flow_tf.flow import Glow, NegativeLogLikelihood  # isort: skip  (before TensorFlow: hides its start-up notes)

import numpy as np
import tensorflow as tf
from tensorflow_probability import distributions as tfd

keras = tf.keras  # of the process: 3, or 2 with TF_USE_LEGACY_KERAS=1


def make_vectors(n: int, dim: int, rng: np.random.Generator) -> np.ndarray:
  """Returns vectors in a cone, float32 [n, dim]: correlated, far from the origin, and bent, so not normal."""
  sources = rng.standard_normal([n, dim]) * np.geomspace(2.0, 0.2, dim)
  bent = sources + 0.5 * np.roll(sources, 1, axis=1) ** 2
  rotation, _ = np.linalg.qr(rng.standard_normal([dim, dim]))
  return (bent @ rotation + 3.0).astype(np.float32)


def mean_cosine(vectors: np.ndarray) -> float:
  """Returns the mean cosine of neighboring rows, which are random pairs."""
  unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
  return float(np.mean(np.sum(unit[:-1] * unit[1:], axis=1)))


def fit(vectors: np.ndarray, epochs: int) -> tuple[Glow, keras.Model]:
  """Returns a flow that Keras fitted to vectors [n, dim], and the model from vectors to latents."""
  dim = vectors.shape[1]
  flow = Glow(config={"n_levels": 2, "depth": 3, "coupling": "affine", "coupling_width": 64}, dim=dim, seed=1)
  flow.adapt(vectors)  # each actnorm starts with mean 0 and variance 1

  inputs = keras.Input([dim])
  # The likelihood adds itself to the model's losses: compile needs no other one.
  model = keras.Model(inputs, [flow(inputs), NegativeLogLikelihood(flow)(inputs)])
  model.compile(keras.optimizers.Adam(1e-3))
  model.fit(vectors, batch_size=128, epochs=epochs, verbose=0)
  return flow, model


def normal_of(vectors: np.ndarray) -> Any:
  """Returns the normal distribution with the mean and covariance of vectors [n, dim]."""
  covariance = np.cov(vectors.T) + 1e-6 * np.eye(vectors.shape[1])
  return tfd.MultivariateNormalTriL(vectors.mean(axis=0), np.linalg.cholesky(covariance).astype(np.float32))


def main(arguments: list[str] | None = None) -> dict[str, float]:
  """Fits, compares, saves and loads; returns what it prints."""
  parser = argparse.ArgumentParser(description="Fits a flow to vectors with Keras and TensorFlow Probability.")
  parser.add_argument("--vectors", help="file of NumPy, float [n, dim]; none: vectors are made")
  parser.add_argument("--n", type=int, default=8000, help="number of vectors to make")
  parser.add_argument("--dim", type=int, default=16, help="their dimensions")
  parser.add_argument("--epochs", type=int, default=20)
  options = parser.parse_args(arguments)
  keras.utils.set_random_seed(1)  # decides the order of the vectors in each epoch
  rng = np.random.default_rng(0)
  if options.vectors:
    vectors = rng.permutation(np.load(options.vectors).astype(np.float32))
  else:
    vectors = make_vectors(options.n, options.dim, rng)
  held_out, training = np.split(vectors, [len(vectors) // 5])

  flow, model = fit(training, options.epochs)

  # TensorFlow Probability: the flow is a distribution of vectors, and its bijector maps them to latents.
  samples = flow.distribution.sample(2000, seed=1)
  found = {
    "log p of the flow, nats a vector": float(np.mean(flow.distribution.log_prob(held_out))),
    "log p of the normal distribution": float(np.mean(normal_of(training).log_prob(held_out))),
    "mean cosine before": mean_cosine(held_out),
    "mean cosine after": mean_cosine(flow.transform(held_out).numpy()),
    "median of samples - median of vectors": float(np.median(samples) - np.median(vectors)),
  }
  for name, value in found.items():
    print(f"{name:35} {value:8.3f}")

  # Keras saves the model with the flow in it, and loads it without custom_objects.
  with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "flow.keras")
    model.save(path)
    latents, _ = keras.models.load_model(path)(held_out)
  np.testing.assert_allclose(latents, flow.transform(held_out), atol=1e-5)
  return found


if __name__ == "__main__":
  main()
