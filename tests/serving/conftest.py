"""The served models, shared by the tests of a process."""

import pytest


@pytest.fixture(scope="session")
def served():
  """Returns `exported.served()`; skips the test if a package of extra [serving] is not installed."""
  from tests.serving import exported

  return exported.served()
