"""The calibrations on real embeddings: the figures of ../shared/models/README.md.

Those were fitted on the embeddings of both columns of all splits, every occurrence of a sentence (each sentence once is
up to 1.4 points away), and on the pairs that have a gold score alone (in STS15 and STS16 most have none).
"""

import numpy as np
import pytest

from bert_flow_tf.calibration.names import make_calibration
from bert_flow_tf.data.tasks import load_task
from bert_flow_tf.encoder.sentence_encoder import SentenceEncoder
from bert_flow_tf.evaluation.bootstrap import bootstrap_gain
from bert_flow_tf.evaluation.metrics import correlation, cosine_similarity, score_pairs
from tests.testing import shared

# Spearman x 100 of avg-first-last with minilm-l6-mlm. All seven sets agree to 0.02; these three take a minute.
FIGURES = {
  "STS-B": {"none": 50.08, "sn": 53.07, "whitening": 69.01},
  "STS-13": {"none": 52.28, "sn": 56.36, "whitening": 70.42},
  "STS-16": {"none": 62.22, "sn": 66.43, "whitening": 72.82},
}


@pytest.fixture(scope="module")
def encoder():
  return SentenceEncoder.from_pretrained(shared("models/minilm-l6-mlm"))


@pytest.mark.slow
def test_sts_benchmark(encoder):
  splits = load_task("STS-B", shared("data")).splits
  embedded = {}
  for split, pairs in splits.items():
    embedded[split] = [encoder.encode(side, show_progress=False) for side in (pairs.sentences_a, pairs.sentences_b)]
  rows = np.concatenate([side for sides in embedded.values() for side in sides])
  assert rows.shape == (17256, 384)
  (a, b), gold = embedded["test"], splits["test"].scores
  similarities = {}
  for name in (*FIGURES["STS-B"], "natsv", "sn+natsv"):
    calibration = make_calibration(name).fit(rows)
    if name.endswith("natsv"):
      figures = calibration.choose_k(*embedded["dev"], splits["dev"].scores)
      assert len(figures) == 20 and figures[calibration.k] > figures[1] + 5
    similarities[name] = cosine_similarity(calibration.transform(a), calibration.transform(b))
  found = {name: correlation(values, gold).spearman for name, values in similarities.items()}
  assert {name: found[name] for name in FIGURES["STS-B"]} == pytest.approx(FIGURES["STS-B"], abs=0.05)
  # As in the paper's table 5: SN helps a little, taking directions away much more.
  assert found["none"] < found["sn"] < found["natsv"] - 5 and found["sn"] < found["sn+natsv"] - 5
  gain = bootstrap_gain(similarities["none"], similarities["whitening"], gold)
  assert gain.gain == pytest.approx(18.93, abs=0.05) and 14 < gain.low < 17 < 21 < gain.high < 24


@pytest.mark.slow
@pytest.mark.parametrize("name", ["STS-13", "STS-16"])
def test_sts_by_subset(encoder, name):
  pairs = load_task(name, shared("data")).splits["test"]
  assert len(pairs.scores) == {"STS-13": 1500, "STS-16": 1186}[name]
  rows = encoder.encode([*pairs.sentences_a, *pairs.sentences_b], show_progress=False)
  found = {}
  for method in FIGURES[name]:
    similarities = cosine_similarity(*np.split(make_calibration(method).fit(rows).transform(rows), 2))
    found[method] = score_pairs(similarities, pairs.scores, pairs.subset_names())["spearman_wmean"]
  assert found == pytest.approx(FIGURES[name], abs=0.05)
