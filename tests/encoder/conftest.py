"""The packaged encoder, loaded once for the tests of a process, and copies of encoders that tests change."""

import pathlib
import shutil

import pytest

from bert_flow_tf import SentenceEncoder
from tests.testing import golden_encoder


@pytest.fixture(scope="session")
def mini():
  """Returns the packaged encoder; a test that changes it restores it."""
  return SentenceEncoder.from_pretrained("mini")


@pytest.fixture
def folder(request, tmp_path):
  """Returns a copy of a golden encoder, by default RoBERTa's."""
  name = getattr(request, "param", "roberta")
  return pathlib.Path(shutil.copytree(golden_encoder(name), tmp_path / name, copy_function=shutil.copyfile))
