"""What several tests share: the optional `../shared` folder and one skip reason for it."""

import pathlib

import pytest

REPO = pathlib.Path(__file__).resolve().parent.parent
SHARED = REPO.parent / "shared"
# Numbers that the original's code computed: {kind: folder of ../shared}; some of them are in tests/golden.
_GOLDEN = {"flow": "golden", "siamese": "golden_siamese"}


def shared(path):
  """Path of a file or folder of `../shared`; skips the calling test where it is absent."""
  found = SHARED / path
  if not found.exists():
    pytest.skip(f"{found} is not there: this test compares with data that is not part of the project")
  return found


def golden_files(kind):
  """Returns the paths of the original's numbers of a kind: all files of `../shared`, or those in tests/golden."""
  return sorted((SHARED / _GOLDEN[kind]).glob("*.npz")) or sorted((REPO / "tests/golden" / kind).glob("*.npz"))
