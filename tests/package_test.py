"""The package itself: public names, what an import costs, and any order of imports around a user's Keras."""

import importlib.util
import json

import numpy as np
import pytest

import bert_flow_tf
from tests import import_orders
from tests.testing import REPO, finished_python, run_python, tf_bert

pytestmark = pytest.mark.packages

# This order is among the fast tests.
_FAST_ORDER = "tf.keras"


def run(code, **options):
  """Returns what code prints in a fresh Python; TF_USE_LEGACY_KERAS as a stranger has it: unset."""
  return run_python("-c", code, **{"TF_USE_LEGACY_KERAS": None, "TF_CPP_MIN_LOG_LEVEL": "2", **options})


def test_import_imports_nothing_heavy():
  code = "import bert_flow_tf, sys; heavy = {'tensorflow', 'tf_keras', 'keras', 'transformers', 'numpy', 'scipy'}\n"
  assert run(code + "print(sorted(heavy & {name.split('.')[0] for name in sys.modules}))") == "[]\n"


def test_public_names():
  assert "__version__" in bert_flow_tf.__all__ and len(set(bert_flow_tf.__all__)) == len(bert_flow_tf.__all__)
  for name in bert_flow_tf.__all__:
    found = getattr(bert_flow_tf, name)
    assert name == "__version__" or (found.__name__ == name and found.__doc__)
  assert dir(bert_flow_tf) == sorted(bert_flow_tf.__all__)
  with pytest.raises(AttributeError, match="nonsense"):
    bert_flow_tf.nonsense  # noqa: B018


def test_version_is_the_setups():
  text = (REPO / "setup.py").read_text(encoding="utf-8")
  assert f'VERSION = "{bert_flow_tf.__version__}"' in text


def all_orders():
  """Returns the orders of imports as parameters of a test, most of them slow."""
  parameters = []
  for order in import_orders.ORDERS:
    marks = () if order == _FAST_ORDER else pytest.mark.slow
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
  printed = run(f"from tests import import_orders; import_orders.main({order!r})")
  found = json.loads(printed.splitlines()[-1])
  np.testing.assert_allclose(found["users_model"], expected["users_model"], rtol=1e-5)
  for name, values in expected["flow"].items():
    np.testing.assert_allclose(found["flow"][name], values, rtol=1e-5, atol=1e-6, err_msg=name)
  # transformers alone chooses Keras 2, where `tf.keras` was not used before.
  is_2 = order == "TFBertModel"
  assert found["tf.keras"] == ("tf_keras" if is_2 else "keras")
  assert found["users_keras"] == ("tf_keras" if is_2 or users_keras == "tf_keras" else "keras")


@pytest.mark.slow
@pytest.mark.parametrize(("saving", "loading", "ways"), [("1", "0", 4), ("0", "1", 3)], ids=["2 to 3", "3 to 2"])
def test_files_of_one_keras_are_equal_in_the_other(tmp_path, saving, loading, ways):
  code = f"from tests.flow import keras_files; keras_files.{{}}({str(tmp_path)!r})"
  run(code.format("save"), TF_USE_LEGACY_KERAS=saving)
  assert run(code.format("load"), TF_USE_LEGACY_KERAS=loading).endswith(f"equal {ways}\n")


@pytest.mark.slow
def test_another_backend_of_keras_is_one_sentence():
  """JAX and PyTorch are not installed with the tests: only the backend's name is theirs."""
  code = "import keras; keras.backend.backend = lambda: 'jax'\nfrom bert_flow_tf.flow import Glow"
  done = finished_python("-c", code, status=1, KERAS_BACKEND="tensorflow", TF_USE_LEGACY_KERAS="0")
  error = done.stderr.splitlines()[-1]
  assert error.startswith("ImportError: bert_flow_tf") and "KERAS_BACKEND=tensorflow" in error


@pytest.mark.slow
def test_the_user_chooses_keras_2():
  code = "import bert_flow_tf, os; from bert_flow_tf.flow import Glow\nimport tensorflow as tf\n"
  code += "print(tf.keras.layers.Dense.__module__.partition('.')[0], issubclass(Glow, tf.keras.layers.Layer))"
  assert run(code, TF_USE_LEGACY_KERAS="1") == "tf_keras True\n"
