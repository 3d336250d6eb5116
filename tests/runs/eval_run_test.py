"""bert_flow_tf/runs/eval_run.py: models that take characters, next to those that do not."""

import numpy as np

from bert_flow_tf import SentenceModel
from bert_flow_tf.data.tasks import load_task
from bert_flow_tf.evaluation.metrics import cosine_similarity
from bert_flow_tf.evaluation.task_scores import WITHOUT_FLOW
from bert_flow_tf.io.experiment import Stopwatch
from bert_flow_tf.runs.eval_run import _transformed, evaluate_models


def test_each_model_gets_what_its_calibration_takes():
  model, task = SentenceModel.from_pretrained("static:mini"), load_task("sample")
  pairs = task.splits["test"]
  models = {WITHOUT_FLOW: model}
  for name in ("mean", "mean+characters-64", "characters"):
    models[name] = SentenceModel(model.encoder).fit(pairs, name)
  (result,) = evaluate_models(models, [task], Stopwatch(), 64, None)
  rows = model.embed(pairs.sentences_a)
  for method, calibrated in models.items():
    a, b = calibrated.encode(pairs.sentences_a), calibrated.encode(pairs.sentences_b)
    np.testing.assert_allclose(result.cosines[method], np.nan_to_num(cosine_similarity(a, b)), atol=1e-6)
    # SentEval embeds once for all methods.
    np.testing.assert_allclose(_transformed(calibrated, False, pairs.sentences_a, rows), a, atol=1e-6)
  assert set(result.controls["test"]) == {"tf-idf of word pieces", "characters"}
  assert result.gain_lines[-1].startswith("control on test, a string match without an encoder: tf-idf of word pieces ")
