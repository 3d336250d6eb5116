"""bert_flow_tf/integrations/senteval.py: SentEval's interface."""

import numpy as np
import pytest

from bert_flow_tf.integrations.senteval import SentEvalAdapter
from bert_flow_tf.model import SentenceModel
from tests.encoder import tiny
from tests.model_test import ARGUMENTS, SENTENCES


@pytest.fixture(scope="module")
def model(tmp_path_factory):
  folder = tiny.save_tiny(tmp_path_factory.mktemp("tiny"))
  return SentenceModel.from_pretrained(str(folder), **ARGUMENTS).fit(SENTENCES, "whitening-3", show_progress=False)


def test_batcher_and_prepare(model):
  """Words are joined again, what is empty becomes "."; prepare asks once for each distinct sentence."""
  asked = []

  def encode(sentences):
    asked.append(list(sentences))
    return model.encode(sentences)

  adapter = SentEvalAdapter(encode)
  words = [["a", "dog."], [], ["cats"], [b"a", b"dog."], "cats", ["  "]]
  expected = model.encode(["a dog.", ".", "cats", "a dog.", "cats", "."])
  np.testing.assert_allclose(adapter.batcher({}, words), expected, atol=5e-4)
  assert asked.pop() == ["a dog.", ".", "cats", "a dog.", "cats", "."]
  assert adapter.prepare({}, np.array(words, dtype=object)) is None
  found = adapter.batcher({}, words)
  np.testing.assert_allclose(found, expected, atol=5e-4)
  assert asked == [["a dog.", ".", "cats"]] and found.dtype == np.float32
  adapter.batcher({}, [["b"]])  # never prepared
  assert asked[1:] == [["b"]]
  adapter.prepare({}, [])
  assert adapter.batcher({}, [["b"]]).shape == (1, 3)


def test_a_model_is_taken_as_it_is(model):
  np.testing.assert_allclose(SentEvalAdapter(model).batcher({}, [["a", "dog."]]), model.encode(["a dog."]), atol=5e-4)
