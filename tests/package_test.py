"""The package itself: public names, what an import costs, and any order of imports around a user's Keras."""

import importlib.util
import json
import os
import subprocess
import sys

import numpy as np
import pytest

import bert_flow_tf
from tests import import_orders
from tests.testing import REPO, tf_bert

# Of the orders, these are among the fast tests.
_FAST_ORDERS = ("tf.keras", "us before all others")


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


def all_orders():
  """Returns the orders of imports as parameters of a test, most of them slow."""
  parameters = []
  for order in import_orders.ORDERS:
    marks = () if order in _FAST_ORDERS else pytest.mark.slow
    parameters.append(pytest.param(order, marks=marks, id=order))
  return parameters


@pytest.fixture(scope="module")
def expected():
  """Returns the numbers that no order of imports may change, from this process."""
  import tensorflow as tf

  from bert_flow_tf.flow import Glow

  model = import_orders.make_model(tf.keras)
  losses = [import_orders.train(model) for _ in range(3)]
  return {"users_model": losses, "flow": import_orders.use_flow(tf.keras, Glow)}


@pytest.mark.parametrize("order", all_orders())
def test_any_order_of_imports(order, expected):
  before, after, users_keras = import_orders.ORDERS[order]
  modules = [*before, *after]
  if "transformers.TFBertModel" in modules:
    tf_bert()
  for module in modules:
    name = module.partition(".")[0]
    if name != "tf" and importlib.util.find_spec(name) is None:
      pytest.skip(f"{name} is not installed")
  done = run(f"from tests import import_orders; import_orders.main({order!r})")
  assert done.returncode == 0, done.stderr[-3000:]
  found = json.loads(done.stdout.splitlines()[-1])
  np.testing.assert_allclose(found["users_model"], expected["users_model"], rtol=1e-5)
  for name, values in expected["flow"].items():
    np.testing.assert_allclose(found["flow"][name], values, rtol=1e-5, atol=1e-6, err_msg=name)
  # transformers alone chooses Keras 2, where `tf.keras` was not used before.
  is_2 = order == "TFBertModel"
  assert found["tf.keras"] == ("tf_keras" if is_2 else "keras")
  assert found["users_keras"] == ("tf_keras" if is_2 or users_keras == "tf_keras" else "keras")


@pytest.mark.slow
@pytest.mark.parametrize("legacy", ["1", "0"], ids=["Keras 2", "Keras 3"])
@pytest.mark.parametrize("ending", [".keras", ".h5", ""], ids=["keras", "h5", "saved_model"])
def test_keras_loads_a_saved_flow_without_custom_objects(tmp_path, ending, legacy):
  """In another process, which imports the flow's classes before it loads."""
  if legacy == "0" and ending == "":
    pytest.skip("Keras 3 writes no SavedModel by save")
  path = str(tmp_path / f"flow{ending}")
  show = "print(model(tf.ones([1, 8])).numpy().tolist())"
  save = "import tensorflow as tf; from bert_flow_tf import Glow\n"
  save += "flow = Glow({'n_levels': 1, 'depth': 1}, 8, 'glorot', seed=1)\n"
  save += f"model = tf.keras.Sequential([tf.keras.Input([8]), flow]); model.save({path!r}); {show}"
  load = "import tensorflow as tf; from bert_flow_tf.flow import Glow\n"
  load += f"model = tf.keras.models.load_model({path!r}); {show}"
  saved, loaded = run(save, TF_USE_LEGACY_KERAS=legacy), run(load, TF_USE_LEGACY_KERAS=legacy)
  assert (saved.returncode, loaded.returncode) == (0, 0), saved.stderr + loaded.stderr
  assert loaded.stdout == saved.stdout


@pytest.mark.slow
@pytest.mark.parametrize(("saving", "loading", "ways"), [("1", "0", 4), ("0", "1", 3)], ids=["2 to 3", "3 to 2"])
def test_files_of_one_keras_are_equal_in_the_other(tmp_path, saving, loading, ways):
  code = f"from tests.flow import keras_files; keras_files.{{}}({str(tmp_path)!r})"
  saved = run(code.format("save"), TF_USE_LEGACY_KERAS=saving)
  assert saved.returncode == 0, saved.stderr
  loaded = run(code.format("load"), TF_USE_LEGACY_KERAS=loading)
  assert loaded.stdout.endswith(f"equal {ways}\n"), loaded.stderr


def test_no_error_of_tensorflow_is_printed_at_its_start():
  """Neither at its import nor at its first operations; no finder of ours is in a user's process."""
  code = "import os, sys; del os.environ['TF_CPP_MIN_LOG_LEVEL']; finders = list(sys.meta_path)\n"
  code += "import bert_flow_tf; assert sys.meta_path == finders\n"
  code += "import tensorflow as tf; tf.config.list_physical_devices(); tf.cast(1.0, tf.float16)"
  done = run(code)
  lines = [line[:6] for line in done.stderr.splitlines()]
  assert done.returncode == 0 and set(lines) <= {"I0000 ", "WARNIN"}, done.stderr


@pytest.mark.slow
def test_another_backend_of_keras_is_one_sentence():
  """JAX and PyTorch are not installed with the tests: only the backend's name is theirs."""
  code = "import keras; keras.backend.backend = lambda: 'jax'\nfrom bert_flow_tf.flow import Glow"
  done = run(code, KERAS_BACKEND="tensorflow", TF_USE_LEGACY_KERAS="0")
  assert done.returncode == 1
  assert done.stderr.splitlines()[-1] == (
    "ImportError: bert_flow_tf computes with TensorFlow, and Keras' backend is jax: set KERAS_BACKEND=tensorflow, or "
    "TF_USE_LEGACY_KERAS=1 for Keras 2, before starting Python"
  )


@pytest.mark.slow
@pytest.mark.parametrize(("legacy", "expected"), [("1", "tf_keras"), ("true", "tf_keras"), ("0", "keras")])
def test_the_user_chooses_keras(legacy, expected):
  code = "import bert_flow_tf, os; from bert_flow_tf.flow import Glow\nimport tensorflow as tf\n"
  code += "print(tf.keras.layers.Dense.__module__.partition('.')[0], issubclass(Glow, tf.keras.layers.Layer))\n"
  code += "print(os.environ['TF_USE_LEGACY_KERAS'])"
  done = run(code, TF_USE_LEGACY_KERAS=legacy)
  assert (done.returncode, done.stdout) == (0, f"{expected} True\n{legacy}\n"), done.stderr
