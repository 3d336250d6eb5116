"""Hidden states of a frozen encoder by OpenVINO, on a CPU, from the weights as arrays.

A model is built of OpenVINO's operations, in less than a second, without a converter and without TensorFlow.
Two models compute the same states: one of batches with padding, one of batches without, a single sentence above all.
"""

import contextlib
import functools
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from logging import root as root_logger
from typing import Any, NamedTuple

import numpy as np
from absl import logging

from bert_flow_tf.encoder.transformer.config import EncoderConfig
from bert_flow_tf.encoder.transformer.int8_inputs import random_ids
from bert_flow_tf.encoder.transformer.number_formats import FLOAT32, INT8
from bert_flow_tf.errors import ConfigError, install_command, one_line
from bert_flow_tf.io.cpus import usable_cpus

_OPENVINO = "openvino"
# The versions that setup.py allows: the first, and the first that is too new.
_FIRST, _END = (2026, 2), (2027, 0)
# Variables that limit oneDNN's instructions, and values without a limit.
_LIMITS, _NO_LIMIT = ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"), ("", "ALL", "DEFAULT")
# {precision: its name in OpenVINO's settings, and among the abilities of a CPU}
_HALVES = {"bfloat16": ("bf16", "BF16"), "float16": ("f16", "FP16")}
# A text of more windows than this is computed window by window, as in `transformer/blocks/modernbert`.
_MAX_WINDOWS = 2
# Values of a row that share a range in int8. Errors of MiniLM-MLM's embeddings, STS-B's test sentences: .030 with 32
# values, .032 with 64, .035 with 128, .044 with a whole row, 384 (TensorFlow's int8: .043); BERT-base is 1.04 times as
# fast with a whole row, and .9 times with 64. Rows of fewer values stay float32.
_GROUP = 128
_GROUP_SIZE = "DYNAMIC_QUANTIZATION_GROUP_SIZE"
POOLED_OUTPUT = "pooled_output"
# Settings that a CPU reads from the file of a model, too. INFERENCE_PRECISION_HINT is none of them (OpenVINO 2026.4).
_OPTIONS_OF_FILES = (_GROUP_SIZE,)


class States(NamedTuple):
  """Hidden states of a batch.

  Attributes:
    hidden_states: {number of block, 0 for the embedding layer: its states, float32 [n, seq_len, hidden]}; seq_len is
      the longest text's. Values at padding are finite, and else arbitrary. With `first_token`, the last block's are
      [n, 1, hidden].
    pooled_output: float32 [n, hidden]; None if it was not asked for.
  """

  hidden_states: dict[int, np.ndarray]
  pooled_output: np.ndarray | None


class BatchModel(NamedTuple):
  """A model of OpenVINO of batches with padding, which is not compiled.

  Attributes:
    model: the model, an `openvino.Model`; its inputs are those of `OpenVinoEngine`.
    outputs: its outputs: "block_N" are the states of block N, "pooled_output" is the pooled output.
    first_position: position of a text's first token.
    runtime_options: settings that a file of the model gives to programs that load it.
  """

  model: Any
  outputs: tuple[str, ...]
  first_position: int
  runtime_options: dict[str, str]


class OpenVinoEngine:
  """Encoder whose hidden states OpenVINO computes. Threads may share it; a fork may not use it."""

  def __init__(
    self,
    config: EncoderConfig,
    read: Callable[[str], np.ndarray],
    has_pooler: bool,
    precision: str,
    threads: int | None = None,
  ) -> None:
    """Makes an engine; its models are built when they are needed.

    Args:
      config: the encoder's settings.
      read: returns the weight of a path, float32; called when a model is built, which keeps what it needs.
      has_pooler: whether there are weights of the pooled output.
      precision: number format of the products, "float32", "bfloat16", "float16" or "int8".
      threads: number of threads that compute; None for the CPUs that the process may use.

    Raises:
      ConfigError: OpenVINO is not installed, or of another version.
    """
    check_openvino()
    # Here, and not above: they import OpenVINO.
    from bert_flow_tf.encoder.engines import openvino_layers, openvino_model

    self._layers, self._model = openvino_layers, openvino_model
    self._config, self._read, self._has_pooler = config, read, has_pooler
    self._is_int8 = precision == INT8
    self._settings = settings_of(precision)
    if threads is not None:
      self._settings["INFERENCE_NUM_THREADS"] = threads
    self._requests: dict[Any, Any] = {}
    self._arrays: dict[str, Any] = {}  # which the models need, too
    self._largest: dict[Any, dict[str, np.ndarray]] = {}
    self._lock = threading.Lock()

  def __call__(
    self, ids: Sequence[np.ndarray], blocks: Sequence[int], pooled: bool = False, first_token: bool = False
  ) -> States:
    """Returns the states of blocks for a batch of texts.

    Args:
      ids: ids of tokens, n arrays int32 [length] without padding, of any lengths from 1 on.
      blocks: numbers of the blocks whose states are wanted, 0 for the embedding layer; none above is computed.
      pooled: whether the pooled output is wanted, if the encoder has weights for it.
      first_token: whether the last block of the encoder computes the state of the first token alone.
    """
    last = self._config.num_hidden_layers
    pooled = pooled and self._has_pooler
    if not blocks and not pooled:
      return States({}, None)
    lengths = np.array([len(row) for row in ids])
    longest = int(lengths.max())
    by_windows = self._has_windows(longest)
    form = self._model.ModelForm(
      blocks=tuple(sorted(set(blocks))),
      pooled=pooled,
      first_token=first_token and last in blocks,
      # Windows need the mask, by which the text's end is known.
      packed=by_windows or int(lengths.min()) < longest,
      by_windows=by_windows,
    )
    values = self._inputs(ids, lengths, form.packed)
    with self._lock:
      request, names = self._request(form)
      request.infer({name: values[name] for name in names}, share_inputs=True)
      outputs = [request.get_output_tensor(number).data.copy() for number in range(len(form.blocks) + pooled)]
    pooled_output = None
    if pooled:
      pooled_output = outputs.pop()
    return States(dict(zip(form.blocks, outputs, strict=True)), pooled_output)

  def _has_windows(self, length):
    """Returns whether local attention is computed window by window."""
    if "local_attention" not in self._config.architecture.attention:
      return False
    reach = self._config.local_attention // 2
    return reach > 0 and length > 2 * reach * _MAX_WINDOWS

  def _inputs(self, ids, lengths, packed):
    """Returns {name: array} of all inputs of a model: with padding, ids and positions of tokens alone."""
    mask = np.arange(lengths.max()) < lengths[:, np.newaxis]
    padded = np.zeros(mask.shape, np.int32)
    padded[mask] = np.concatenate(ids)
    first = self._config.first_position
    positions = np.broadcast_to(np.arange(mask.shape[1], dtype=np.int32), mask.shape)
    if first:
      # Padding tokens in a text have the position of their id, as in PyTorch.
      is_token = padded != first - 1
      positions = np.cumsum(is_token, axis=1, dtype=np.int32) * is_token + np.int32(first - 1)
    if not packed:
      return {"ids": padded, "positions": np.ascontiguousarray(positions)}
    rows = np.maximum(np.cumsum(mask.reshape(-1), dtype=np.int32) - 1, 0).reshape(mask.shape)
    places = np.flatnonzero(mask).astype(np.int32)
    tokens = {"ids": padded[mask], "positions": positions[mask]}
    return {**tokens, "rows": rows, "places": places, "mask": mask.astype(np.float32)}

  def _request(self, form):
    """Returns what runs the model of a form, and the names of its inputs."""
    if form not in self._requests:
      model, names = self._build(form)
      self._requests[form] = self._compile(model, self._settings), names
    return self._requests[form]

  def _build(self, form):
    """Returns the model of a form, and the names of its inputs."""
    seen = None
    if self._is_int8:
      seen = self._largest_inputs(form)
    graph = self._layers.LayerGraph(self._config, self._read, self._arrays, seen)
    return self._model.build_model(graph, form), list(graph.inputs)

  def model_of_batches(self, blocks: Sequence[int], pooled: bool, first_token: bool, longest: int) -> BatchModel:
    """Returns the model of batches with padding, not compiled.

    Args:
      blocks: see `__call__`.
      pooled: see `__call__`.
      first_token: see `__call__`.
      longest: the number of tokens of the longest text.
    """
    form = self._model.ModelForm(
      blocks=tuple(sorted(set(blocks))),
      pooled=pooled and self._has_pooler,
      first_token=first_token and self._config.num_hidden_layers in blocks,
      packed=True,
      by_windows=self._has_windows(longest),
    )
    model, _ = self._build(form)
    outputs = [f"block_{number}" for number in form.blocks]
    if form.pooled:
      outputs.append(POOLED_OUTPUT)
    options = {name: str(self._settings[name]) for name in _OPTIONS_OF_FILES if name in self._settings}
    return BatchModel(model, tuple(outputs), self._config.first_position, options)

  def _largest_inputs(self, form):
    """Returns {path of a dense layer: the largest absolute values of its inputs}, for random tokens, in float32."""
    blocks = (self._model.count_blocks(self._config, form),)
    watched = form._replace(blocks=blocks, first_token=False, packed=False, by_windows=False)
    if watched not in self._largest:
      graph = self._layers.LayerGraph(self._config, self._read, {}, None, watches=True)
      request = self._compile(self._model.build_model(graph, watched), settings_of(FLOAT32))
      ids = random_ids(self._config)
      values = self._inputs(ids, np.full(len(ids), ids.shape[1]), packed=False)
      request.infer({name: values[name] for name in graph.inputs})
      outputs = [request.get_output_tensor(number).data.copy() for number in range(len(request.output_tensors))]
      self._largest[watched] = dict(zip(graph.largest, outputs[len(outputs) - len(graph.largest) :], strict=True))
    return self._largest[watched]

  def _compile(self, model, settings):
    """Returns what runs a model on the CPU."""
    return process_core().compile_model(model, "CPU", settings).create_infer_request()


def check_openvino(argument: str = "engine") -> None:
  """Raises a ConfigError unless OpenVINO is installed, in a version that works, and may use the CPU's instructions.

  `argument`: the setting that asks for OpenVINO.
  """
  asked = f"{argument}={_OPENVINO}"
  try:
    with _without_side_effects():
      import openvino
  except ImportError as error:
    needed = f"needs OpenVINO, which cannot be imported ({one_line(error)}): {install_command(_OPENVINO)}"
    raise ConfigError(f"{asked}: {needed}", argument=argument) from error
  version = openvino.__version__
  match = re.match(r"(\d+)\.(\d+)", version)
  if match is None or not _FIRST <= (int(match[1]), int(match[2])) < _END:
    expected = f"expected {'.'.join(map(str, _FIRST))} or later, below {_END[0]}"
    found = f"OpenVINO {version.split('-')[0]} is installed, {expected}: {install_command(_OPENVINO)}"
    raise ConfigError(f"{asked}: {found}", argument=argument)
  # A part of OpenVINO obeys the limit and another part does not: it fails, or ends the process.
  for variable in _LIMITS:
    limit = os.environ.get(variable, "")
    if limit.upper() not in _NO_LIMIT:
      mend = f"unset {variable}, or use engine=tensorflow" if argument == "engine" else f"unset {variable}"
      problem = f"{variable}={limit} limits the CPU's instructions; OpenVINO fails with it"
      raise ConfigError(f"{asked}: {problem}; {mend}", argument)


@contextlib.contextmanager
def _without_side_effects() -> Iterator[None]:
  """Keeps OpenVINO's import from a report to Google Analytics, and from removing absl's handler of log lines."""
  name = "openvino_telemetry"  # without which OpenVINO works, and reports nothing
  loaded, handlers = name in sys.modules, list(root_logger.handlers)
  if not loaded:
    sys.modules[name] = None  # type: ignore[assignment] # an import of it is an ImportError
  try:
    yield
  finally:
    root_logger.handlers[:] = handlers
    if not loaded:
      del sys.modules[name]


@functools.cache
def process_core() -> Any:
  """Returns OpenVINO's core, one for the process."""
  # A core replaces the thread's stack for signals. Of two that are deleted, the first one's can stay in use although it
  # is gone: the next signal, as of Ctrl-C, ends the process (OpenVINO 2026.4).
  import openvino

  return openvino.Core()


def settings_of(precision: str) -> dict[str, Any]:
  """Returns OpenVINO's settings for a precision."""
  settings: dict[str, Any] = {
    "PERFORMANCE_HINT": "LATENCY",
    "INFERENCE_NUM_THREADS": _threads(),
    "ENABLE_CPU_PINNING": False,
    "INFERENCE_PRECISION_HINT": "f32",
  }
  if precision == INT8:
    settings[_GROUP_SIZE] = _GROUP
  elif precision != FLOAT32:
    if computes_in(precision):
      settings["INFERENCE_PRECISION_HINT"] = _HALVES[precision][0]
    else:
      logging.warning("precision=%s: OpenVINO has no products of it for this CPU; float32 is computed", precision)
  return settings


def computes_in(precision: str) -> bool:
  """Returns whether OpenVINO has products of a precision for this CPU; without them it computes in float32."""
  if precision not in _HALVES:
    return True
  return _HALVES[precision][1] in process_core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")


def _threads():
  """Returns the number of threads: of CPUs that the process may use, or fewer where OMP_NUM_THREADS is a number."""
  given = os.environ.get("OMP_NUM_THREADS", "")
  if given.isascii() and given.isdigit() and int(given):
    return min(int(given), usable_cpus())
  return usable_cpus()
