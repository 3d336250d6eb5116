"""The calibrations on real embeddings: the scores of ../shared/models/README.md.

Those were fitted on the embeddings of both columns of all splits, every occurrence of a sentence (each sentence once is
up to 1.4 points away).
"""

import numpy as np
import pytest

from bert_flow_tf.calibration.names import make_calibration
from bert_flow_tf.data.tasks import load_task
from bert_flow_tf.encoder.sentence_encoder import SentenceEncoder
from bert_flow_tf.evaluation.bootstrap import bootstrap_gain
from bert_flow_tf.evaluation.metrics import correlation, cosine_similarity
from tests.testing import shared

# Spearman x 100 of avg-first-last with minilm-l6-mlm.
SCORES = {"none": 50.08, "sn": 53.07, "whitening": 69.01}


@pytest.mark.slow
def test_sts_benchmark():
  encoder = SentenceEncoder.from_pretrained(shared("models/minilm-l6-mlm"))
  splits = load_task("STS-B", shared("data")).splits
  embedded = {}
  for split, pairs in splits.items():
    embedded[split] = [encoder.encode(side, show_progress=False) for side in (pairs.sentences_a, pairs.sentences_b)]
  rows = np.concatenate([side for sides in embedded.values() for side in sides])
  assert rows.shape == (17256, 384)
  (a, b), gold = embedded["test"], splits["test"].scores
  similarities = {}
  for name in (*SCORES, "natsv", "sn+natsv"):
    calibration = make_calibration(name).fit(rows)
    if name.endswith("natsv"):
      scores = calibration.choose_k(*embedded["dev"], splits["dev"].scores)
      assert len(scores) == 20 and scores[calibration.k] > scores[1] + 5
    similarities[name] = cosine_similarity(calibration.transform(a), calibration.transform(b))
  found = {name: correlation(values, gold).spearman for name, values in similarities.items()}
  assert {name: found[name] for name in SCORES} == pytest.approx(SCORES, abs=0.05)
  # The paper's table 5 has the same order: SN helps a little, taking directions away much more.
  assert found["none"] < found["sn"] < found["natsv"] - 5 and found["sn"] < found["sn+natsv"] - 5
  gain = bootstrap_gain(similarities["none"], similarities["whitening"], gold)
  assert gain.gain == pytest.approx(18.93, abs=0.05) and 14 < gain.low < 17 < 21 < gain.high < 24
