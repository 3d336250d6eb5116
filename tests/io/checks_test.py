import numpy as np
import pytest

from bert_flow_tf.errors import CalibrationError, FlowError
from bert_flow_tf.io import checks
from bert_flow_tf.io.checks import check_rows, is_integer
from tests.testing import rejected


@pytest.mark.parametrize(
  "embeddings",
  [
    [1.0, 2.0],
    np.ones([2, 3, 4]),
    np.ones([3, 0]),
    5.0,
    [[1.0], [1.0, 2.0]],
    [["a", "b"]],
    [[1 + 2j]],
    [[None, 1.0]],
    np.array([[True, False]]),
    [[1.0, 2.0], [np.nan, 0.0]],
    [[1.0, 2.0], [1.0, 2.0], [0.0, -np.inf]],
    [[1e39, 2.0]],
    np.ma.masked_equal([[1.0, 2.0], [3.0, 4.0]], 2.0),
    list(np.ma.masked_equal([[1.0, 2.0], [3.0, 4.0]], 2.0)),
  ],
)
@pytest.mark.parametrize("error", [CalibrationError, FlowError])
def test_rejected_rows(embeddings, error):
  with rejected(error, "embeddings"):
    check_rows(embeddings, error=error)


def test_forms_of_the_same_rows():
  rows = np.arange(12, dtype=np.float32).reshape(4, 3)
  cells = np.empty(4, object)  # as of a column of pandas
  cells[:] = rows.tolist()
  for form in (rows.tolist(), tuple(map(tuple, rows.tolist())), list(rows), tuple(rows), cells):
    np.testing.assert_array_equal(check_rows(form), rows)
  for form in (
    np.ma.masked_array(rows),
    np.ma.masked_array(rows, mask=np.zeros([4, 3])),
    list(np.ma.masked_array(rows)),
  ):
    checked = check_rows(form)
    assert type(checked) is np.ndarray
    np.testing.assert_array_equal(checked, rows)


def test_what_is_wrong_with_rows_is_said_in_a_sentence():
  with rejected(CalibrationError, "embeddings", "got rows of different lengths$"):
    check_rows([[1.0, 2.0], [1.0]])
  with rejected(CalibrationError, "embeddings", "missing numbers"):
    check_rows(np.ma.masked_equal([[1.0, 2.0]], 2.0))


def test_bad_row_of_a_later_chunk(monkeypatch):
  monkeypatch.setattr(checks, "_CHUNK", 4)
  rows = np.ones([20, 2])
  rows[13, 1] = np.nan
  with pytest.raises(CalibrationError, match="row 13 "):
    check_rows(rows)


def test_width():
  assert check_rows([[1, 2, 3]], 3).shape == (1, 3)
  with rejected(CalibrationError, "embeddings"):
    check_rows([[1, 2, 3]], 4)


def test_integers():
  assert is_integer(3) and is_integer(np.int64(3), 3) and is_integer(0, 0)
  assert not any(map(is_integer, (True, np.bool_(True), 3.0, "3", None, [3]))) and not is_integer(2, 3)
