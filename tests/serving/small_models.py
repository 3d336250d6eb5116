"""Small models for exports as files, and the answers of a process without this package."""

import json

import numpy as np

from bert_flow_tf import FlowConfig, Glow, SentenceEncoder, SentenceModel
from tests.testing import REPO, finished_python

TEXTS = ["a dog", "a cat b dog . [MASK] a b", "", "b", "dog " * 40]
SENTENCES = [" ".join(np.random.default_rng(i).choice(["a", "b", "dog", "cat", "."], 5)) for i in range(80)]
# Tiny encoders of other architectures: positions from padding, windows, distances.
OTHERS = ("roberta", "modernbert", "deberta-v2")


def random_flow(model):
  """Returns a flow for a model's embeddings, no layer of which is the identity."""
  embeddings = model.encode(SENTENCES, calibrated=False)
  flow = Glow(FlowConfig(n_levels=2, depth=1, coupling_width=8), dim=embeddings.shape[1], seed=1)
  flow.initialize(embeddings)
  rng = np.random.default_rng(2)
  for weight in flow.trainable_weights:
    weight.assign_add(rng.normal(0, 0.03, weight.shape).astype(np.float32))
  return flow


def fitted(folder, calibration, max_seq_length=12, sentence_embedding_type=None, low_dim=None, **loading):
  """Returns a model with a calibration that was fitted on SENTENCES."""
  encoder = SentenceEncoder.from_pretrained(str(folder), **loading)
  arguments = {"sentence_embedding_type": sentence_embedding_type, "max_seq_length": max_seq_length, "low_dim": low_dim}
  model = SentenceModel(encoder, **arguments)
  if calibration == "flow":
    return SentenceModel(encoder, random_flow(model), **arguments)
  return model.fit(SENTENCES, calibration) if calibration else model


def close(found, expected, name=""):
  """Asserts a difference of at most 1e-5 of the largest value."""
  np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max(), err_msg=name)


def check_answers(models, folders):
  """Compares the answers of a process without this package, {name: folder}, with models in Python.

  Models whose names end in "unit" were exported with normalized embeddings.
  """
  texts = json.dumps({str(folder): TEXTS for folder in folders.values()})
  # From another folder, so that the package is not found.
  done = finished_python(REPO / "tests/serving/files_only.py", text=texts, cwd=next(iter(folders.values())))
  result = json.loads(done.stdout)
  assert result["foreign"] == []
  for name, folder in folders.items():
    expected = models[name].encode(TEXTS, normalize_embeddings=name.endswith("unit"))
    for found in result["answers"][str(folder)]:
      close(found, expected, name)
