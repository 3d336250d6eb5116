"""What several tests share: the optional `../shared` folder and one skip reason for it."""

import pathlib

import pytest

REPO = pathlib.Path(__file__).resolve().parent.parent
SHARED = REPO.parent / "shared"


def shared(path):
  """Path of a file or folder of `../shared`; skips the calling test where it is absent."""
  found = SHARED / path
  if not found.exists():
    pytest.skip(f"{found} is not there: this test compares with data that is not part of the project")
  return found
