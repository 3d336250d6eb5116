"""A threshold that unrelated rows reach is an error or a warning; near-duplicates among the rows do not count."""

import json

import numpy as np
import pytest

from bert_flow_tf.errors import ConfigError
from bert_flow_tf.vectors import find_duplicates, near_duplicates, paraphrase_mining, paraphrase_mining_embeddings
from bert_flow_tf.vectors.duplicates import duplicates_of_folder
from bert_flow_tf.vectors.unit_rows import UnitRows
from bert_flow_tf.vectors.unrelated import unrelated_pairs
from bert_flow_tf.vectors.vector_folder import VectorFolder
from tests.corpus.toy import Model
from tests.testing import edit_json, rejected
from tests.vectors.toy_folder import embed

WORDS = [f"word{number}" for number in range(400)]


def cone(n=300, median=0.85, dim=64, copies=1):
  """Rows whose random pairs have cosines about a median, each row with copies that hardly differ."""
  rng = np.random.default_rng(0)
  rows = rng.normal(size=[n // copies, dim]) / np.sqrt(dim)
  rows[:, 0] += np.sqrt(median / (1 - median))
  return np.repeat(rows, copies, axis=0) + 0.001 * rng.normal(size=[n, dim])


def pairs_of(rows, texts=None):
  return unrelated_pairs(UnitRows([rows], rows.shape[1]), np.arange(len(rows)), texts)


def warnings_of(caplog, call):
  caplog.clear()
  with caplog.at_level("WARNING", logger="absl"):
    call()
  return [message for message in caplog.messages if "unrelated" in message]


def test_a_cone_is_measured(caplog):
  rows = cone()
  pairs = pairs_of(rows)
  units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
  expected = np.sort((units @ units.T)[np.triu_indices(300, 1)])
  np.testing.assert_allclose(pairs.cosines, expected, atol=1e-6)
  # Few of the unrelated pairs reach the bound.
  assert 0.85 < pairs.bound < 0.95 and np.mean(expected >= pairs.bound) < 1e-3
  assert "unrelated" in pairs.problem(0.86) and pairs.problem(0.97) == pairs.problem(1.0) == ""
  assert pairs_of(rows).bound == pairs.bound
  calls = [
    lambda threshold: near_duplicates(rows, threshold),
    lambda threshold: find_duplicates(rows, threshold),
    lambda threshold: paraphrase_mining_embeddings(rows, threshold, max_pairs=3),
  ]
  for call in calls:
    assert len(warnings_of(caplog, lambda call=call: call(0.86))) == 1
    assert warnings_of(caplog, lambda call=call: call(0.97)) == warnings_of(caplog, lambda call=call: call(1)) == []
  assert warnings_of(caplog, lambda: paraphrase_mining_embeddings(rows, None, max_pairs=3)) == []
  # Vectors are embedded by another command, whose arguments the message does not name.
  with rejected(ConfigError, "threshold", match="median 0.85.*of the calibration soft-whitening or of the model"):
    find_duplicates(rows, 0.86, allow_unrelated=False)
  find_duplicates(rows, 0.97, allow_unrelated=False)
  # Without a cone, a low threshold is one of similarity.
  find_duplicates(rows - rows.mean(axis=0), 0.7, allow_unrelated=False)


def test_near_duplicates_among_the_rows_are_not_unrelated():
  for copies in (1, 20, 60):  # the pairs of copies are up to a fifth of all
    pairs = pairs_of(cone(300, 0.3, copies=copies))
    assert pairs.problem(0.9) == "" and np.mean(pairs.cosines > 0.99) == pytest.approx((copies - 1) / 299, abs=0.01)


def test_few_texts_are_a_warning(caplog):
  texts = [f"{a} {b} {c}" for a, b, c in zip(WORDS[:8], WORDS[8:16], WORDS[16:24], strict=True)]
  rows = cone(8)
  arguments = {"texts": texts, "allow_unrelated": False}
  (warning,) = warnings_of(caplog, lambda: find_duplicates(rows, 0.86, **arguments))
  assert "calibration=soft-whitening, or model=static:mini" in warning
  assert warnings_of(caplog, lambda: find_duplicates(rows[:4], 0.86, texts=texts[:4])) == []  # six pairs
  assert warnings_of(caplog, lambda: find_duplicates(rows, 0.86)) == []  # no texts tell which pairs are unrelated

  class Model:
    def encode(self, sentences, **settings):
      return rows

  class Calibrated(Model):
    steps_checksum = "1f"

    def unread(self, sentences):
      return [""] * len(sentences)

    def knows(self, sentences):
      return np.ones(len(sentences), bool)

  (warning,) = warnings_of(caplog, lambda: paraphrase_mining(Model(), texts, threshold=0.86))
  assert "soft-whitening" in warning
  # A calibration that was not enough is not mended by another one.
  arguments = {"texts": texts, "model": Calibrated()}
  (warning,) = warnings_of(caplog, lambda: find_duplicates(None, 0.86, **arguments))
  assert warning.endswith("or other embeddings") and "calibration" not in warning
  (warning,) = warnings_of(caplog, lambda: paraphrase_mining(Calibrated(), texts, threshold=0.86))
  assert warning.endswith("or other embeddings")


def test_texts_that_share_words_are_not_unrelated():
  texts = [f"the cat sleeps on the sofa {word}" for word in WORDS[:9]] + WORDS[9:14]
  assert len(pairs_of(cone(14, 0.5), texts).cosines) == 9 * 5 + 10
  assert pairs_of(cone(9, 0.5), texts[:9]) is None


def test_texts_of_one_template_are_no_duplicates(caplog):
  """Nearly all pairs are similar; pairs with other numbers are no duplicates anyway."""
  names = [f"name{number}" for number in range(60)]
  rng = np.random.default_rng(0)
  rows = np.ones([60, 16]) + 0.05 * rng.normal(size=[60, 16])
  texts = [f"dear {''.join(chr(97 + int(digit)) for digit in name[4:])} we thank you for this letter" for name in names]
  with rejected(ConfigError, "threshold", match="of 1,770 random pairs of different texts reach it"):
    find_duplicates(rows, 0.9, texts=texts, allow_unrelated=False)
  with caplog.at_level("WARNING", logger="absl"):
    find_duplicates(rows[:20], 0.9, texts=texts[:20], allow_unrelated=False)
  assert "random pairs of different texts reach it" in caplog.text
  found = find_duplicates(rows, 0.9, texts=[f"order {number}" for number in range(60)])
  assert len(found.kept) == 60


def test_vectors_that_are_calibrated_are_not_calibrated_again(tmp_path):
  rows = cone(300)

  class Cone(Model):
    output_dim = rows.shape[1]

    def encode(self, sentences, **settings):
      return np.stack([rows[int(sentence.split()[1])] for sentence in sentences])

  embed(tmp_path / "vectors", [f"sentence {number}" for number in range(300)], model=Cone())
  with rejected(ConfigError, "threshold", match="or other embeddings, as of the calibration soft-whitening"):
    duplicates_of_folder(VectorFolder.open(str(tmp_path / "vectors")), 0.86, "exact", False, allow_unrelated=False)
  path = tmp_path / "vectors/manifest.json"
  settings = json.loads(path.read_text())["settings"]
  embedder = settings["embedder"] | {"calibration_sha256": "1f"}
  edit_json(path, settings=settings | {"embedder": embedder}, sha256=None)
  with rejected(ConfigError, "threshold", match="or other embeddings; allow_unrelated"):
    duplicates_of_folder(VectorFolder.open(str(tmp_path / "vectors")), 0.86, "exact", False, allow_unrelated=False)
