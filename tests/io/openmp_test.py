"""io/openmp.py: how the threads of OpenMP wait is decided before TensorFlow, whose import can load it."""

import os

import pytest

from tests.testing import REPO, run_python

# Keras imports scikit-learn, if it is installed, and this loads OpenMP.
_TENSORFLOW = "import os\nprint(os.environ.get('OMP_WAIT_POLICY'))\nraise ImportError\n"
_AFTER = "\nexcept ImportError:\n  import os\n  print(os.environ.get('OMP_WAIT_POLICY'))"
_IMPORTS = (
  "from bert_flow_tf import Glow",
  "from bert_flow_tf import SentenceModel; SentenceModel.from_pretrained()",
  "from run_scripts.quiet import import_tensorflow as f; f()",
)


@pytest.mark.parametrize("code", _IMPORTS)
@pytest.mark.parametrize(("given", "expected"), [(None, ["PASSIVE", "None"]), ("ACTIVE", ["ACTIVE", "ACTIVE"])])
def test_tensorflow_is_imported_with_threads_that_sleep(tmp_path, code, given, expected):
  (tmp_path / "tensorflow").mkdir()
  (tmp_path / "tensorflow/__init__.py").write_text(_TENSORFLOW)
  variables = {"OMP_WAIT_POLICY": given, "PYTHONPATH": f"{tmp_path}{os.pathsep}{REPO}"}
  assert run_python("-c", f"try:\n  {code}{_AFTER}", **variables).split() == expected
