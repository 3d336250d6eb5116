"""bert_flow_tf/io/checksums.py: a change of a value or a file is noticed; other folders' files are not read."""

import hashlib
import json

import pytest

from bert_flow_tf.io import checksums


def test_values_and_files(tmp_path):
  (tmp_path / "a.bin").write_bytes(b"abc")
  values = {"rate": 0.1, "name": "é", "list": [1, None]}
  sealed = json.loads(json.dumps(checksums.sealed(values, tmp_path, ["a.bin"])))
  assert sealed[checksums.KEY]["a.bin"] == hashlib.sha256(b"abc").hexdigest()
  assert checksums.verified(sealed, tmp_path) == values == checksums.verified(values, tmp_path)
  with pytest.raises(ValueError, match="values"):
    checksums.verified({**sealed, "rate": 0.2}, tmp_path)
  (tmp_path / "a.bin").write_bytes(b"abd")
  assert checksums.verified(sealed) == values
  with pytest.raises(ValueError, match=r"a\.bin"):
    checksums.verified(sealed, tmp_path)


@pytest.mark.parametrize("name", ["/dev/zero", "../a.bin", "inner/../../a.bin"])
def test_a_name_outside_the_folder_is_rejected(tmp_path, name):
  with pytest.raises(ValueError, match="not in the folder"):
    checksums.verified({checksums.KEY: {name: "0"}}, tmp_path)
