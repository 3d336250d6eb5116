import re

import numpy as np
import pytest
import tensorflow as tf

from bert_flow_tf.calibration.characters import Characters
from bert_flow_tf.calibration.low_dim import LowDim
from bert_flow_tf.calibration.names import parse_calibration
from bert_flow_tf.errors import BertFlowError, CalibrationError, ConfigError, FlowError
from bert_flow_tf.flow.config import FlowConfig, check_arguments
from bert_flow_tf.io import checks
from bert_flow_tf.io.checks import check_counts, check_rows, is_integer
from bert_flow_tf.serving.distill import check_leading
from bert_flow_tf.training.calibrate import fit_calibration
from bert_flow_tf.training.settings import FlowSettings
from bert_flow_tf.vectors import find_duplicates
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


@pytest.mark.parametrize(
  ("values", "match"),
  [
    ((row for row in np.eye(4)), r"got generator, .*np\.vstack\(list\(values\)\)"),
    (tf.data.Dataset.from_tensor_slices(np.eye(4)), "got .*Dataset, .*np.vstack"),
    (tf.data.Dataset.from_tensor_slices(np.eye(4)).batch(3), "got .*Dataset, .*np.vstack"),
    (np.eye(4).astype(object), "got ndarray, .*np.vstack"),
    (["a text", "another"], r"got list of text; SentenceModel\.encode"),
    ("vectors.npy", r"got str of text; .*np\.load"),
  ],
)
def test_what_makes_numbers_of_others_is_said_and_works(values, match):
  with rejected(CalibrationError, "vectors", match=match):
    fit_calibration(values, "mean")
  if "vstack" in match:
    np.testing.assert_array_equal(check_rows(np.vstack(list(values)).astype("float32")), np.eye(4))


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


@pytest.mark.parametrize(("value", "text"), [("2", "'2'"), (0, "0"), (1.5, "1.5"), (np.eye(2), "[[1. 0.] [0. 1.]]")])
def test_a_wrong_value_is_shown_in_a_line(value, text):
  with rejected(ConfigError, "top_k", match=f"^top_k={re.escape(text)}: expected a positive integer$"):
    check_counts(top_k=value)


@pytest.mark.parametrize(
  ("call", "argument"),
  [
    (lambda text: find_duplicates(np.eye(2), threshold=text), "threshold"),
    (lambda text: find_duplicates(np.eye(2), against=text), "against"),
    (lambda text: LowDim(text).output_dim_of(12), "low_dim"),
    (Characters, "characters"),
    (lambda text: check_arguments(FlowConfig(), text, "data", "reverse", None, "float32"), "dim"),
    (lambda text: check_arguments(FlowConfig(), 16, "data", "reverse", text, "float32"), "seed"),
    (lambda text: check_leading(parse_calibration("whitening"), text, 12), "dim"),
    (lambda text: FlowSettings(num_train_epochs=text), "num_train_epochs"),
  ],
)
def test_a_text_in_place_of_a_number_has_its_quotation_marks(call, argument):
  with rejected(BertFlowError, argument, match=f"^{argument}='8': expected "):
    call("8")
