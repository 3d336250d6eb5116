"""Models that a released version saved: they give the vectors of the release, or are rejected by its name."""

import numpy as np
import pytest

from bert_flow_tf import SentenceModel
from bert_flow_tf.errors import CalibrationError
from tests.encoder import tiny
from tests.testing import REPO, rejected

pytestmark = pytest.mark.packages

FOLDERS = sorted(path.parent for path in (REPO / "tests/golden/models").glob("*/*/*.npz"))


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
  return tiny.save_tiny(tmp_path_factory.mktemp("tiny"))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: f"{folder.parent.name}-{folder.name}")
def test_a_saved_model_gives_the_vectors_of_its_release(folder, bert):
  released = np.load(folder.parent / "vectors.npz")
  # All but two were fitted on the random BERT itself.
  encoders = {"static-sn": f"static:{bert}", "word-vectors-mean": f"glove:{folder.parent / 'word_vectors.txt'}"}
  name = encoders.get(folder.name, str(bert))
  # The mix of 0.1.0 concatenated two embeddings.
  if folder.parent.name == "0.1.0" and folder.name.endswith("-of-mix"):
    with rejected(CalibrationError, "folder", match="release 0.1.0"):
      SentenceModel.load(folder, model=name)
    return
  model = SentenceModel.load(folder, model=name)
  sentences, expected = released["sentences"].tolist(), released[folder.name]
  # A whitening magnifies the rounding of float32; bfloat16 has steps of 0.004; int8 has 7 bits on some CPUs.
  tolerance = {"bfloat16": 0.02, "int8": 0.05}.get(model.encoder.precision, 0.003)
  np.testing.assert_allclose(model.encode(sentences), expected, atol=tolerance * np.abs(expected).max(), rtol=0)
  similarities = model.similarity(sentences, sentences[1:] + sentences[:1])
  np.testing.assert_allclose(similarities, released[f"{folder.name}/similarity"], atol=tolerance)
