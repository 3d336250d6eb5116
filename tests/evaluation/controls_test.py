"""evaluation/controls.py: string matches of pairs; encoder/text/characters_test.py has them by their definition."""

import numpy as np
import pytest

from bert_flow_tf import SentenceModel, load_task
from bert_flow_tf.evaluation.controls import CHARACTERS, TF_IDF, string_matches, task_controls
from bert_flow_tf.evaluation.task_scores import scores_of_split
from tests.testing import shared


@pytest.fixture(scope="module")
def encoder():
  return SentenceModel.from_pretrained("static:mini").encoder


def test_identical_sentences_tie(encoder):
  texts = [*load_task("sample").splits["test"].sentences_a, "...", ""]
  for cosines in string_matches(encoder, texts, texts, 64).values():
    assert set(cosines[:-2]) == {1.0} and set(cosines[-2:]) == {0.0}


def test_ties_of_a_real_set(encoder):
  """Compares with a program of an audit, which shares no code with this package."""
  task = load_task("STS-12", shared("data"))
  pairs = task.splits["test"]
  matches = task_controls(encoder, task, 64)
  assert list(matches) == [TF_IDF, CHARACTERS]
  scores = scores_of_split("test", pairs, matches[CHARACTERS], "correlation")["test"]
  assert scores["spearman_wmean"] == pytest.approx(63.85, abs=0.005)
  identical = np.array(pairs.sentences_a) == np.array(pairs.sentences_b)
  europarl = np.array(pairs.subset_names()) == "SMTeuroparl"
  assert np.sum(identical & europarl) == 52
  assert set(matches[CHARACTERS][identical & europarl]) == {1.0}
