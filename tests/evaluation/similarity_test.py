"""evaluation/similarity.py: cosines against SciPy and by hand."""

import math
import subprocess
import sys

import numpy as np
import pytest
from scipy.spatial import distance

from bert_flow_tf.errors import DataError
from bert_flow_tf.evaluation.similarity import cosine_similarity, mean_random_cosine
from tests.testing import REPO


def test_against_scipy():
  rng = np.random.default_rng(0)
  a, b = rng.normal(size=(2, 30, 7)).astype(np.float32)
  found = cosine_similarity(a, b)
  assert found.dtype == np.float64 and found.shape == (30,)
  expected = [1.0 - distance.cosine(x.astype(np.float64), y.astype(np.float64)) for x, y in zip(a, b, strict=True)]
  np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_by_hand():
  a = [[1, 0], [1, 0], [1, 0], [3, 4], [2e30, 0], [1e-30, 0]]
  b = [[5, 0], [0, 2], [-7, 0], [4, 3], [1e38, 0], [1e-30, 1e-30]]
  np.testing.assert_allclose(cosine_similarity(a, b), [1, 0, -1, 24 / 25, 1, math.sqrt(0.5)], rtol=1e-14)


def test_no_direction_is_nan_without_a_warning(recwarn):
  a = [[0, 0], [1, 2], [math.nan, 1], [math.inf, 1], [1, 2]]
  b = [[1, 2], [0, 0], [1, 2], [1, 2], [2, 4]]
  found = cosine_similarity(a, b)
  assert np.isnan(found[:4]).all() and found[4] == pytest.approx(1.0)
  assert not recwarn.list


@pytest.mark.parametrize("shapes", [((3, 2), (1, 2)), ((3, 2), (3, 1)), ((2,), (2,)), ((3, 2), (2,))])
def test_shapes_that_numpy_would_stretch(shapes):
  with pytest.raises(DataError, match=r"embeddings of shapes .* expected \[n, dim\] twice"):
    cosine_similarity(*(np.ones(shape) for shape in shapes))


def test_empty():
  assert cosine_similarity(np.zeros([0, 4]), np.zeros([0, 4])).shape == (0,)


def test_mean_random_cosine_meets_no_pair_with_itself():
  a = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
  assert mean_random_cosine(a, a) == pytest.approx((0 + 0 - 1) / 3)  # (a0,b2), (a1,b0), (a2,b1)
  assert mean_random_cosine(a, np.ones([3, 2])) == pytest.approx((1 + 1 - 1) / 3 / math.sqrt(2))
  assert math.isnan(mean_random_cosine(a[:1], a[:1]))
  assert math.isnan(mean_random_cosine(np.zeros([3, 2]), a))


def test_mean_random_cosine_of_a_cone_and_of_a_sphere():
  rng = np.random.default_rng(0)
  noise = rng.normal(size=(2, 2000, 16))
  assert abs(mean_random_cosine(*noise)) < 0.02
  assert mean_random_cosine(*(noise + 10.0)) > 0.98


def test_evaluation_needs_no_tensorflow():
  """A stranger's predictions are scored without it: design.md."""
  modules = "similarity", "metrics", "report"
  code = "import sys\n" + "".join(f"import bert_flow_tf.evaluation.{module}\n" for module in modules)
  code += "print(sorted({name.split('.')[0] for name in sys.modules} & {'tensorflow', 'tf_keras', 'transformers'}))"
  done = subprocess.run([sys.executable, "-c", code], cwd=REPO, capture_output=True, text=True, timeout=60, check=True)
  assert done.stdout.strip() == "[]"
