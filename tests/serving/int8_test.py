"""An exported encoder in int8: its file, its answers in a process without this package, its card."""

import json

import numpy as np
import pytest

from tests.serving import exported  # noqa: F401 # isort: skip (skips without the packages of an export)

from bert_flow_tf import SentenceModel
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.serving.export import export_model
from bert_flow_tf.serving.settings import CARD, METADATA
from tests.testing import rejected, run_python

pytestmark = pytest.mark.slow

# Writes the answers of a SavedModel to texts, by its signature and in a session of TensorFlow 1.
_ANSWER = """
import sys
import numpy as np
import tensorflow as tf
import tensorflow_text
folder, texts, out = sys.argv[1], sys.argv[2].split("|"), sys.argv[3]
answers = [tf.saved_model.load(folder).signatures["serving_default"](text=tf.constant(texts))["embedding"].numpy()]
with tf.compat.v1.Session(graph=tf.Graph()) as session:
  signature = tf.compat.v1.saved_model.load(session, ["serve"], folder).signature_def["serving_default"]
  answers.append(session.run(signature.outputs["embedding"].name, {signature.inputs["text"].name: texts}))
assert not any(name.startswith("bert_flow") for name in sys.modules)
np.save(out, answers)
"""
_TEXTS = ["a dog", "A man plays the guitar.", "It rains, and the ducks are fed by a child. " * 3, "no"]


def test_an_export_in_int8(tmp_path):
  sizes = {}
  for precision in ("float32", "int8"):
    model = SentenceModel.from_pretrained("mini", precision=precision)
    model.fit([f"{a} {b}" for a in _TEXTS for b in _TEXTS], "soft-whitening")
    folder = export_model(model, tmp_path / precision)
    sizes[precision] = sum(path.stat().st_size for path in folder.rglob("*"))
  # The kernels are a half of float32's bytes, and word embeddings stay float32.
  assert sizes["int8"] < 0.75 * sizes["float32"]
  run_python("-c", _ANSWER, folder, "|".join(_TEXTS), tmp_path / "answers.npy")
  expected = model.encode(_TEXTS)
  for answers in np.load(tmp_path / "answers.npy"):
    np.testing.assert_allclose(answers, expected, atol=0.01 * np.abs(expected).max())
  metadata = json.loads((folder / METADATA).read_text(encoding="utf-8"))
  assert metadata["encoder"]["precision"] == "int8" and metadata["agreement_with_python"]["pooled"] < 0.01
  assert "embed_ids_fixed" not in metadata["signatures"] and "TensorFlow Lite" in " ".join(metadata["without"])
  assert "int8, for which the server needs an x86 CPU" in (folder / CARD).read_text(encoding="utf-8")


def test_halves_are_not_exported(tmp_path):
  model = SentenceModel.from_pretrained("mini", precision="bfloat16")
  with rejected(ConfigError, "precision", match="float32 or int8"):
    export_model(model, tmp_path)
