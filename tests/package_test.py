"""The package itself: Keras 2, public names, what an import costs."""

import os
import subprocess
import sys

import pytest

import bert_flow_tf
from tests.testing import REPO


def run(code, timeout=120, **environment):
  """A fresh Python; TF_USE_LEGACY_KERAS as a stranger has it: unset."""
  variables = {name: value for name, value in os.environ.items() if name != "TF_USE_LEGACY_KERAS"}
  variables |= {"TF_CPP_MIN_LOG_LEVEL": "2", **environment}
  command = [sys.executable, "-c", code]
  return subprocess.run(command, cwd=REPO, env=variables, capture_output=True, text=True, timeout=timeout)


def test_import_imports_nothing_heavy():
  code = "import bert_flow_tf, sys; heavy = {'tensorflow', 'tf_keras', 'keras', 'transformers', 'numpy', 'scipy'}\n"
  done = run(code + "print(sorted(heavy & {name.split('.')[0] for name in sys.modules}))")
  assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


def test_public_names():
  assert "__version__" in bert_flow_tf.__all__ and len(set(bert_flow_tf.__all__)) == len(bert_flow_tf.__all__)
  for name in bert_flow_tf.__all__:
    found = getattr(bert_flow_tf, name)
    assert name == "__version__" or (found.__name__ == name and found.__doc__)
  assert dir(bert_flow_tf) == sorted(bert_flow_tf.__all__)
  with pytest.raises(AttributeError, match="module 'bert_flow_tf' has no attribute 'nonsense'"):
    bert_flow_tf.nonsense  # noqa: B018


def test_version_is_the_setups():
  text = (REPO / "setup.py").read_text(encoding="utf-8")
  assert f'VERSION = "{bert_flow_tf.__version__}"' in text


@pytest.mark.slow
@pytest.mark.parametrize(("name", "before"), [("flow.keras", ""), ("flow.h5", "import tf_keras; "), ("flow", "")])
def test_keras_loads_a_saved_flow_without_custom_objects(tmp_path, before, name):
  """In a process that imports the package and none of its parts, before Keras or after it."""
  save = (
    "from bert_flow_tf import Glow; import tf_keras; flow = Glow({'n_levels': 1, 'depth': 1}, 8, 'glorot', seed=1)\n"
    "model = tf_keras.Sequential([tf_keras.Input([8]), flow])\n"
    f"model.save({str(tmp_path / name)!r}); print(model(tf_keras.backend.ones([1, 8])).numpy().tolist())"
  )
  load = f"{before}import bert_flow_tf, importlib.util; importlib.util.find_spec('tf_keras')\n"
  load += f"import tf_keras; model = tf_keras.models.load_model({str(tmp_path / name)!r})\n"
  load += "print(model(tf_keras.backend.ones([1, 8])).numpy().tolist())"
  saved, loaded = run(save), run(load, TF_USE_LEGACY_KERAS="1")
  assert (saved.returncode, loaded.returncode) == (0, 0), saved.stderr + loaded.stderr
  assert loaded.stdout == saved.stdout


def test_nothing_of_tensorflow_is_printed_at_its_start():
  """Neither at its import nor at its first operation; devices can still be configured."""
  code = "import bert_flow_tf, importlib.util; importlib.util.find_spec('tensorflow'); import tensorflow as tf\n"
  code += "device = tf.config.list_physical_devices('CPU')[0]\n"
  code += "tf.config.set_logical_device_configuration(device, [tf.config.LogicalDeviceConfiguration()] * 2)\n"
  code += "print(len(tf.config.list_logical_devices('CPU')), (tf.constant(1.0) + 1).numpy())"
  done = run(code, TF_CPP_MIN_LOG_LEVEL="2")
  assert (done.stdout, done.stderr) == ("2 2.0\n", "")


@pytest.mark.slow
def test_keras_3_first_is_refused_in_one_sentence():
  done = run("import tensorflow as tf; tf.keras.layers.Dense(1); import bert_flow_tf")
  assert done.returncode == 1
  last = done.stderr.strip().splitlines()[-1]
  assert last.startswith("ImportError: bert_flow_tf needs Keras 2, but tf.keras is already loaded from 'keras.")
  assert last.endswith("or set TF_USE_LEGACY_KERAS=1 before starting Python.")


@pytest.mark.slow
@pytest.mark.parametrize(
  ("before", "environment"),
  [
    ("import tensorflow as tf", {}),
    ("import tensorflow as tf; tf.keras.layers.Dense(1)", {"TF_USE_LEGACY_KERAS": "1"}),
    ("import tf_keras", {}),
  ],
  ids=["tf.keras untouched", "Keras 2 chosen by the user", "tf_keras first"],
)
def test_tensorflow_first_works(before, environment):
  code = f"{before}\nimport bert_flow_tf\nimport tensorflow as tf\nprint(tf.keras.layers.Dense.__module__)"
  code += "\nimport tensorflow_probability\ntensorflow_probability.distributions.Normal"
  done = run(code, **environment)
  assert done.returncode == 0, done.stderr
  assert done.stdout.startswith("tf_keras.")
