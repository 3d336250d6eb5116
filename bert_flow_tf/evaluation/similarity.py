"""How alike two embeddings are."""

import numpy as np


def cosine_similarity(a, b):
  """Cosine of each pair of rows.

  Args:
    a, b: [n, dim] each.

  Returns:
    float64 [n]; NaN where a row is zero or not finite, as it has no direction.
  """
  a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
  with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
    return np.sum(a * b, axis=1) / (np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1))
