"""training/fit_rows.py and fitter.py: the sentences embedded for a fit, and parts that are fitted once."""

import dataclasses
import re

import numpy as np
import pytest
import tensorflow as tf

from bert_flow_tf.calibration.names import parse_calibration
from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.encoder.embeddings import Embeddings
from bert_flow_tf.encoder.identity import EncoderIdentity
from bert_flow_tf.encoder.pooling import parse_pooling
from bert_flow_tf.encoder.settings import EncoderSettings
from bert_flow_tf.errors import CalibrationError, ConfigError
from bert_flow_tf.evaluation import isotropy
from bert_flow_tf.flow.config import FlowConfig
from bert_flow_tf.training.fit_rows import FitSentences, FitVectors
from bert_flow_tf.training.fitter import Fitter, settings_of_fit
from bert_flow_tf.training.settings import FlowSettings
from tests.flow.cases import cone
from tests.testing import rejected

SETTINGS = EncoderSettings.of(sentence_embedding_type="avg", max_seq_length=64)
IDENTITY = EncoderIdentity("words", "", "", ("mean", 1), {}, SETTINGS)


class Words:
  """Encoder of "i" as [i, -i], which notes what it embeds."""

  def __init__(self):
    self.embedded = []

  def pooling(self, name):
    return parse_pooling(name, 1)

  def is_for_similarity(self, pooling):
    return False

  def encode(self, sentences, **unused):
    self.embedded.append(list(sentences))
    return np.array([[float(sentence), -float(sentence)] for sentence in sentences], np.float32)

  def fingerprint(self, sentences, **unused):
    return " ".join(sentences)


@pytest.fixture
def logged(monkeypatch):
  """Returns the embeddings whose cone is logged."""
  seen = []
  monkeypatch.setattr(isotropy, "log_cone", lambda embeddings, *others: seen.append(embeddings))
  return seen


def fit_sentences(sentences, cached=(), dev=None):
  """Returns the sentences of a fit, and the encoder."""
  words = Words()
  cached = [Embeddings(Words(), [SentencePairs.without_gold(texts, texts)]) for texts in cached]
  return FitSentences(words, IDENTITY, sentences, cached=cached, dev=dev), words


def pair_at(pairs, position):
  """Returns the two embeddings of a pair."""
  features = next(iter(pairs.features(tf.data.Dataset.from_tensors(tf.constant([position], tf.int64)))))
  return [side.numpy()[0].tolist() for side in features]


def test_a_plain_list_makes_pairs_of_neighbors_and_every_occurrence_counts(logged):
  rows, words = fit_sentences(["1", "2", "3", "1", "5"])
  assert (rows.pairs.sentences_a, rows.pairs.sentences_b) == (("1", "3"), ("2", "1"))
  for _ in range(2):
    np.testing.assert_array_equal(rows.all()[:, 0], [1, 2, 3, 1, 5])
  pairs = rows.flow_pairs(lambda count: np.arange(count))
  assert pair_at(pairs, 1) == [[3, -3], [1, -1]]
  assert words.embedded == [["1", "2", "3", "5"]] and len(logged) == 1  # once for all
  assert pairs.fingerprint() == "1 3 2 1"  # of the sentences, before anything is embedded


def test_pairs_of_a_fit_that_uses_few_of_them():
  rows, words = fit_sentences((["1", "2", "3"], ["4", "5", "6"]))
  assert rows.occurrences == ["1", "2", "3", "4", "5", "6"]
  pairs = rows.flow_pairs(lambda count: np.array([2]) if count == 3 else None)
  assert pair_at(pairs, 2) == [[3, -3], [6, -6]]
  assert words.embedded == [["3", "6"]] and len(pairs) == rows.num_pairs == 3


def test_cached_sentences_are_not_embedded_again(logged):
  dev = SentencePairs(["7"], ["8"], np.array([2.0]))
  rows, words = fit_sentences(["1", "2"], [["9"], ["1", "2", "7", "8"]], dev)
  np.testing.assert_array_equal(rows.all()[:, 0], [1, 2])
  a, b, scores = rows.gold()
  assert (a[0, 0], b[0, 0], scores.tolist()) == (7, 8, [2.0])
  assert len(rows.flow_pairs(lambda count: None)) == 1
  assert words.embedded == [] and logged == []
  rows, words = fit_sentences(["1", "2"], dev=dev)
  assert rows.gold()[0][0, 0] == 7 and words.embedded == [["7", "8"]] and logged == []


SMALL = FlowSettings(flow_model_config=FlowConfig(n_levels=1, depth=1, coupling_width=8), train_batch_size=8)


def test_calibrations_share_their_parts():
  rows, fitter = FitVectors(cone(40, 8), vectors_of="a cone"), Fitter(show_progress=False)
  soft, both, flow = fitter.fit([parse_calibration(name) for name in ("sn", "flow+sn", "flow")], rows, SMALL)
  assert both.parts == (flow, soft) and fitter.flow is flow
  assert both.encoder == flow.encoder == {"vectors_of": "a cone"}
  # Other rows, or another seed of the flow, are another fit.
  assert fitter.fit([parse_calibration("sn")], rows) == [soft]
  assert fitter.fit([parse_calibration("sn")], FitVectors(cone(40, 8))) != [soft]


def test_a_part_that_is_rejected_is_rejected_before_a_flow_is_fitted():
  fitter = Fitter(show_progress=False)
  specs = [parse_calibration(name) for name in ("flow", "whitening-9")]
  with rejected(CalibrationError, "calibration", match="^calibration=whitening-9: the covariance of 40 "):
    fitter.fit(specs, FitVectors(cone(40, 8)), SMALL)
  assert fitter.flow is None


@pytest.mark.parametrize("changes", [{"permutation": "random"}, {"actnorm_init": "glorot"}])
def test_kept_trainers_give_what_new_ones_give(changes):
  rows = FitVectors(cone(40, 8))
  fitter = Fitter(show_progress=False, keep_trainers=True)
  first, second = (dataclasses.replace(SMALL, seed=seed, **changes) for seed in (1, 2))
  specs, u = [parse_calibration("flow")], cone(9, 8)
  (flow,) = fitter.fit(specs, rows, first)
  before = flow.transform(u)
  (other,) = fitter.fit(specs, rows, second)
  np.testing.assert_array_equal(flow.transform(u), before)
  (expected,) = Fitter(show_progress=False).fit(specs, rows, second)
  np.testing.assert_allclose(other.transform(u), expected.transform(u), atol=1e-6)


@pytest.mark.parametrize(
  ("calibration", "given", "end"),
  [
    ("flow", "calibraton", "; did you mean 'calibration'?"),
    ("sn", "querys", "; did you mean 'queries'?"),
    ("flow", "num_train_epoch", "; did you mean 'num_train_epochs'?"),
    ("sn", "seed", "; it takes none"),
    ("auto", "temperature", "; it takes seed"),
  ],
)
def test_a_mistyped_argument_is_named_with_the_one_that_is_most_like_it(calibration, given, end):
  with rejected(ConfigError, given, match=re.escape(f"has no such argument{end}") + "$"):
    settings_of_fit(parse_calibration(calibration), {given: 1}, None)
