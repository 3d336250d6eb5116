"""Rows that are kept against a loop over all pairs, in blocks of any size."""

import tracemalloc

import numpy as np
import pytest

from bert_flow_tf.vectors.inverted_lists import EXACT
from bert_flow_tf.vectors.kept_rows import first_similar
from bert_flow_tf.vectors.unit_rows import UnitRows
from tests.vectors.toy_rows import all_cosines, embeddings


def kept_of(rows, threshold, block_rows, kept_rows):
  """Returns the result of `first_similar` for all rows."""
  keys, positions = np.zeros(len(rows), np.int64), np.arange(len(rows))
  units, sizes = UnitRows([rows], rows.shape[1]), {"block_rows": block_rows, "kept_rows": kept_rows}
  return first_similar(units, positions, threshold, EXACT, False, keys, **sizes)


@pytest.mark.parametrize("sizes", [(1024, 4096), (7, 5)])
@pytest.mark.parametrize("threshold", [0.7, 1.0])
def test_kept_rows_are_those_of_a_loop(sizes, threshold):
  rows = embeddings(120, dim=4)[:-1]
  cosines = all_cosines(rows, rows)
  expected, first_rows = [], []
  for row in range(len(rows)):
    close = [before for before in first_rows if cosines[row, before] >= threshold]
    expected.append(close[0] if close else row)
    if not close:
      first_rows.append(row)
  found, _ = kept_of(rows, threshold, *sizes)
  assert found.tolist() == expected
  assert 1 < len(first_rows) < len(rows)


def test_no_array_of_all_pairs():
  rows = np.random.default_rng(0).normal(size=[5000, 16]).astype(np.float32)
  tracemalloc.start()
  kept_of(rows, 0.95, 256, 1024)
  peak = tracemalloc.get_traced_memory()[1]
  tracemalloc.stop()
  assert peak < 5000 * 5000 / 2
