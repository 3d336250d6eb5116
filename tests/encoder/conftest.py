"""The packaged encoder, loaded once for the tests of a process."""

import pytest

from bert_flow_tf import SentenceEncoder


@pytest.fixture(scope="session")
def mini():
  """Returns the packaged encoder; a test that changes it restores it."""
  return SentenceEncoder.from_pretrained("mini")
