"""training/choice.py: what auto chooses is what the mixtures say, worked out here; and on real sentences."""

import numpy as np
import pytest
from scipy import stats

from bert_flow_tf import SentenceModel
from bert_flow_tf.calibration.names import make_calibration
from bert_flow_tf.data.tasks import load_task
from bert_flow_tf.errors import ConfigError, DataError
from bert_flow_tf.evaluation.mixtures import make_mixtures
from bert_flow_tf.training.choice import CANDIDATES, choose_calibration
from tests.testing import rejected, shared


@pytest.fixture(scope="module")
def sentences():
  pairs = load_task("sample").splits["test"]
  return [*pairs.sentences_a, *pairs.sentences_b]


@pytest.fixture(scope="module")
def model():
  return SentenceModel.from_pretrained("mini", low_dim=64)


def test_the_best_agreement_is_chosen(model, sentences):
  rows = model.embed(sentences, show_progress=False)
  choice = choose_calibration(model.encoder, model.identity, sentences, rows, seed=5)
  distinct = list(dict.fromkeys(sentences))
  order = np.random.default_rng(5).permutation(len(distinct))
  made = make_mixtures(model.encoder.tokenizer([distinct[i] for i in order]), 5)
  u, v = (model.encoder.embed_ids(ids) for ids in (made.originals, made.mixed))
  assert set(choice.agreement) == set(CANDIDATES)
  for name, agreement in choice.agreement.items():
    fitted = make_calibration(name).fit(rows)
    a, b = (fitted.transform(x).reshape(len(x), 64, -1).mean(axis=2).astype(float) for x in (u[made.rows], v))
    cosines = np.sum(a * b, axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    # The encoder's batches differ, so that float32 rounding can swap neighbors in the ranking.
    assert agreement == pytest.approx(100 * stats.spearmanr(cosines, made.gold)[0], abs=0.01)
  best = max(choice.agreement, key=choice.agreement.get)
  assert choice.calibration.name == best == next(iter(choice.agreement))
  assert choice.to_dict() == {
    "chosen": best,
    "agreement": choice.agreement,
    "sentences": min(600, len(distinct)),
    "seed": 5,
    "reason": None,
  }


def test_none_is_chosen_where_there_is_no_cone(model, sentences):
  rows = np.random.default_rng(0).normal(size=(600, 256)).astype(np.float32)
  choice = choose_calibration(model.encoder, model.identity, sentences, rows, seed=5)
  assert choice.calibration.name == "none" == choice.to_dict()["chosen"] and "cone" in choice.reason
  np.testing.assert_allclose(choice.calibration.transform(rows), rows, atol=1e-6)


def test_token_ids_are_embedded_as_their_sentences(model, sentences):
  ids = model.encoder.tokenizer(sentences[:9])
  expected = model.embed(sentences[:9], show_progress=False)
  np.testing.assert_allclose(model.encoder.embed_ids(ids, batch_size=2), expected, atol=1e-5)


def test_arguments(model, sentences):
  with rejected(ConfigError, "num_train_epochs"):
    model.fit(sentences, "auto", num_train_epochs=2, show_progress=False)
  with pytest.raises(DataError):
    model.fit(["A man sings.", "A dog runs.", "A dog runs."], "auto", show_progress=False)


@pytest.mark.slow
@pytest.mark.parametrize("recipe", [False, True])
def test_on_real_sentences(recipe):
  """On `mini`, whitening is 2.9 better than soft whitening without the recipe, and 0.2 with it."""
  splits = load_task("STS-16", str(shared("data"))).splits.values()
  sentences = [s for pairs in splits for s in (*pairs.sentences_a, *pairs.sentences_b)]
  settings = {"sentence_embedding_type": "mix", "token_weights": "idf"} if recipe else {}
  model = SentenceModel.from_pretrained("mini", **settings).fit(sentences, "auto", show_progress=False)
  assert model.calibration.name == ("soft-whitening" if recipe else "whitening")
