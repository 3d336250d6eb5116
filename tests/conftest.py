"""What all tests have: threads that wait without keeping a CPU busy, before NumPy and FAISS are imported; engines."""

import os

import pytest

# Threads of OpenBLAS wait in a loop: on a busy machine, a whitening of 1,024 dimensions took 11 times the CPU seconds.
# Processes that tests start have it, too.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Here scikit-learn may load the OpenMP of FAISS, which the package would load with this.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


@pytest.fixture(scope="session", params=["tensorflow", "openvino"])
def engine(request):
  """Returns the name of each engine; skips the tests of OpenVINO where it is not possible."""
  from tests.testing import openvino_or_skip

  if request.param == "openvino":
    openvino_or_skip()
  return request.param
