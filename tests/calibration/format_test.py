"""Calibrations of each released `format_version` load, and give the embeddings of their time (docs/stability.md).

`tests/golden/formats/N` is never written again: a new number gets a new folder.
"""

import json
import zipfile

import numpy as np
import pytest

from bert_flow_tf import load_calibration
from bert_flow_tf.errors import CalibrationError
from bert_flow_tf.io.archive import FORMAT_VERSION
from tests.testing import REPO

_FORMATS = REPO / "tests/golden/formats"
_FOLDERS = sorted(path.parent for path in _FORMATS.rglob("calibration.npz"))


def test_the_number_that_is_written_has_files():
  assert {folder.parent.name for folder in _FOLDERS} == {str(number + 1) for number in range(FORMAT_VERSION)}


@pytest.mark.parametrize("folder", _FOLDERS, ids=lambda folder: f"{folder.parent.name}-{folder.name}")
def test_a_released_file_gives_its_embeddings(folder):
  outputs = np.load(folder.parent / "outputs.npz")
  embeddings = load_calibration(folder).transform(outputs["inputs"])
  np.testing.assert_allclose(embeddings, outputs[folder.name], rtol=1e-4, atol=1e-5)


def test_a_later_number_is_named(tmp_path):
  with (
    zipfile.ZipFile(_FORMATS / "1/sn/calibration.npz") as old,
    zipfile.ZipFile(tmp_path / "calibration.npz", "w") as new,
  ):
    for name in old.namelist():
      content = old.read(name)
      if name == "settings.json":
        content = json.dumps({**json.loads(content), "format_version": FORMAT_VERSION + 1}).encode()
      new.writestr(name, content)
  with pytest.raises(CalibrationError, match=f"format_version {FORMAT_VERSION + 1}, expected {FORMAT_VERSION}"):
    load_calibration(tmp_path)
