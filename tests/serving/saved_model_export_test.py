"""SavedModels of other programs, exported again as one served model with the calibration behind them."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest

from tests.serving import exported  # isort: skip  # skips without the packages of serving

from bert_flow_tf import SentenceModel
from bert_flow_tf.serving.export import export_model
from bert_flow_tf.serving.metadata import card
from bert_flow_tf.serving.settings import METADATA
from tests.encoder import saved_models

pytestmark = pytest.mark.slow

TEXTS = ["A man is eating", "no dog", "the woman plays guitar zzz", "a " * 300]
# A process without this package, in which the folder of the SavedModel does not exist any more.
_PROGRAM = """
import json, sys
import tensorflow as tf
loaded = tf.saved_model.load(sys.argv[1])
texts = tf.constant(json.loads(sys.argv[2]))
scores = loaded.signatures["similarity"](text_a=texts, text_b=tf.roll(texts, 1, 0))["score"]
empty = list(loaded(tf.constant([], tf.string)).shape)
print(json.dumps([loaded(texts).numpy().tolist(), scores.numpy().tolist(), empty, sorted(loaded.signatures)]))
"""


@pytest.mark.parametrize(
  ("writer", "arguments", "calibration"),
  [
    ("write_callable", {"dim": 8}, "flow"),
    ("write_keras", {}, "whitening"),
    ("write_tf1", {}, "soft-whitening"),
    ("write_tf1", {"is_hub_module": True, "use_resource": True}, "whitening"),
  ],
)
def test_one_served_model_holds_encoder_and_calibration(tmp_path, writer, arguments, calibration):
  assert exported.NAME
  folder = getattr(saved_models, writer)(tmp_path / "text", **arguments)
  model = SentenceModel.from_pretrained(f"saved_model:{folder}")
  model.fit(saved_models.sentences(), calibration)
  expected, scores = model.encode(TEXTS), model.similarity(TEXTS, TEXTS[-1:] + TEXTS[:-1])
  version = export_model(model, tmp_path / "served")
  shutil.rmtree(folder)
  (tmp_path / "words_0.txt").unlink(missing_ok=True)
  (tmp_path / "words_tf1.txt").unlink(missing_ok=True)

  command = [sys.executable, "-c", _PROGRAM, str(version), json.dumps(TEXTS)]
  output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
  answer, answered_scores, empty, signatures = json.loads(output.splitlines()[-1])
  np.testing.assert_allclose(answer, expected, atol=1e-4 * np.abs(expected).max())
  np.testing.assert_allclose(answered_scores, scores, atol=1e-4)
  assert empty == [0, model.output_dim]
  flow = ["inverse", "log_prob"] if calibration == "flow" else []
  assert signatures == sorted(["serving_default", "similarity", "embed_pooled", "embed_examples", *flow])
  contents = json.loads((version / METADATA).read_text(encoding="utf-8"))
  assert contents["encoder"]["name"] == "text" and "tokens of a sentence" not in card(contents)

  # What is exported is such a SavedModel itself.
  again = SentenceModel.from_pretrained(f"saved_model:{version}")
  np.testing.assert_allclose(again.encode(TEXTS), expected, atol=1e-4 * np.abs(expected).max())
