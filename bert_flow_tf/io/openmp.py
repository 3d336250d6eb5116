"""How threads of OpenMP wait, which programs compute with in this process."""

import contextlib
import os
from collections.abc import Iterator

_VARIABLE = "OMP_WAIT_POLICY"


@contextlib.contextmanager
def sleeping_threads() -> Iterator[None]:
  """Lets OpenMP's threads sleep while they wait, if it is loaded within; a given OMP_WAIT_POLICY is kept.

  By default, threads that wait for one that has no CPU keep theirs busy: beside two other processes on two cores,
  near-duplicates of 10,000 rows by FAISS took 7 times the CPU seconds, and 5 times the time. OpenMP reads its
  settings when it is loaded, by the first package that has it. This may be TensorFlow: Keras imports scikit-learn,
  whose copy is also FAISS's.
  """
  if _VARIABLE in os.environ:
    yield
    return
  os.environ[_VARIABLE] = "PASSIVE"
  try:
    yield
  finally:
    os.environ.pop(_VARIABLE, None)
