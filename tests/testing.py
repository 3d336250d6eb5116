"""Helpers of several tests: the optional folder `../shared`, new processes, errors, and changes of saved files."""

import contextlib
import json
import os
import pathlib
import socket
import subprocess
import sys
from unittest import mock

import numpy as np
import pytest

from bert_flow_tf.errors import BertFlowError
from bert_flow_tf.io import archive

REPO = pathlib.Path(__file__).resolve().parent.parent
SHARED = REPO.parent / "shared"
# Ends a process that hangs; no test depends on it, however slow the machine is.
LIMIT_SECONDS = 1800
# Numbers that the original's code computed: {kind: folder of ../shared}; some of them are in tests/golden.
_GOLDEN = {"flow": "golden", "siamese": "golden_siamese"}


def shared(path):
  """Returns the path of a file or folder of `../shared`; skips the calling test where it is absent."""
  full = SHARED / path
  if not full.exists():
    pytest.skip(f"{full} does not exist: this test compares with data that is not part of the project")
  return full


def golden_encoder(model_type):
  """Returns the folder of a tiny encoder of an architecture, with PyTorch's numbers."""
  newer = {"modernbert": "modernbert", "deberta-v2": "deberta-v3"}
  if model_type in newer:
    return shared(f"golden_encoders_newer/{newer[model_type]}")
  return shared(f"golden_encoders/{model_type}")


def golden_files(kind):
  """Returns the paths of the original's numbers of a kind: all files of `../shared`, or those in tests/golden."""
  return sorted((SHARED / _GOLDEN[kind]).glob("*.npz")) or sorted((REPO / "tests/golden" / kind).glob("*.npz"))


def below(arrays, prefix):
  """Returns {name: array} of the keys PREFIX/name of a golden file."""
  return {key.removeprefix(f"{prefix}/"): arrays[key] for key in arrays if key.startswith(f"{prefix}/")}


def hub_folder(cache, name="someone/tiny", revision="v1"):
  """Makes a revision known to a cache of the hub; returns the path of its files, which do not exist yet."""
  commit = "c0ffee" * 6 + "0000"
  folder = pathlib.Path(cache, f"models--{name.replace('/', '--')}")
  (folder / "refs").mkdir(parents=True)
  (folder / "refs" / revision).write_text(commit)
  return folder / "snapshots" / commit


def openvino_or_skip():
  """Returns the module openvino; skips the module of tests where engine=openvino is not possible."""
  openvino = pytest.importorskip("openvino", reason="openvino is not installed: it is the extra openvino")
  if is_openvino_limited():
    pytest.skip("a limit of oneDNN's instructions is set, with which OpenVINO fails", allow_module_level=True)
  return openvino


def is_openvino_limited():
  """Returns whether a variable limits oneDNN's instructions."""
  return any(os.environ.get(name) for name in ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"))


def tf_bert():
  """Returns the module transformers; skips the calling test where it has no TFBertModel."""
  import transformers

  import bert_flow_tf.flow.keras  # noqa: F401 (chooses the Keras of this process first)

  # transformers sets TF_USE_LEGACY_KERAS, which programs that later tests start would inherit.
  with mock.patch.dict(os.environ):
    has_models = hasattr(transformers, "TFBertModel")
  if not has_models:
    pytest.skip(f"transformers {transformers.__version__} has no TFBertModel; versions before 5 have one")
  return transformers


def finished_python(*arguments, status=0, cwd=REPO, text=None, stdout=subprocess.PIPE, **variables):
  """Runs Python, whose exit status must be `status`; returns the finished process.

  Args:
    text: standard input.
    variables: changes of the environment; None removes a variable.
  """
  environment = {name: value for name, value in (os.environ | variables).items() if value is not None}
  options = {"input": text, "stdout": stdout, "stderr": subprocess.PIPE, "text": True, "timeout": LIMIT_SECONDS}
  done = subprocess.run([sys.executable, *map(str, arguments)], cwd=cwd, env=environment, check=False, **options)
  assert done.returncode == status, f"{done.stdout}"[-2000:] + done.stderr[-4000:]
  return done


def run_python(*arguments, **options):
  """Returns the output of Python; see `finished_python`."""
  return finished_python(*arguments, **options).stdout


@contextlib.contextmanager
def reserved_ports(count):
  """Gives ports that no other program gets until the end.

  A server can listen at them if it sets SO_REUSEPORT, as gRPC's do; TensorFlow's if TF_GRPC_REUSE_PORT is 1.
  """
  with contextlib.ExitStack() as stack:
    ports = []
    for _ in range(count):
      reserved = stack.enter_context(socket.socket())
      reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
      reserved.bind(("localhost", 0))
      ports.append(reserved.getsockname()[1])
    yield ports


def pause_when_saved(count):
  """Lets this process print "saved" and wait for its standard input when it has saved `count` checkpoints."""
  import tensorflow as tf

  save, paths = tf.train.CheckpointManager.save, []

  def save_and_pause(manager, *arguments, **options):
    paths.append(save(manager, *arguments, **options))
    if len(paths) == count:
      print("saved", flush=True)
      sys.stdin.read()
    return paths[-1]

  tf.train.CheckpointManager.save = save_and_pause


def edit_json(path, **changes):
  """Changes values of a dict in a JSON file; None removes a key."""
  content = json.loads(path.read_text()) | changes
  for key, value in changes.items():
    if value is None:
      del content[key]
  path.write_text(json.dumps(content))


@contextlib.contextmanager
def rejected(error, argument, match=None):
  """Expects an error in one line that names an argument."""
  with pytest.raises(error, match=match) as raised:
    yield raised
  assert raised.value.argument == argument and "\n" not in str(raised.value)


def rewrite_archive(folder, kind, arrays=None, **settings):
  """Changes settings and arrays of a saved model, with valid checksums; None removes a value."""
  with archive.opened(folder, kind, BertFlowError) as content:
    for values, changes in zip(content, (settings, arrays or {}), strict=True):
      values.update(changes)
      for name in changes:
        if changes[name] is None:
          del values[name]
    archive.write(folder, kind, *content)


def nudged(weights, rng):
  """Returns {name: weight} some units in the last place up or down; permutations and the like stay."""

  def nudge(array):
    if array.dtype != np.float32 or np.isin(array, [-1, 0, 1]).all():
      return array
    for _ in range(4):
      array = np.nextafter(array, np.where(rng.random(array.shape) < 0.5, -np.inf, np.inf).astype(np.float32))
    return array

  return {name: nudge(array) for name, array in weights.items()}
