"""Models of OpenVINO in files, from ids of tokens, or from vectors, to calibrated embeddings.

The encoder is built as in `openvino_model`. What comes after it, pooling and calibration, is a function of TensorFlow,
which OpenVINO converts. What the engine computes of the lengths of texts, a file computes of their mask.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from openvino import Model, Node, serialize
from openvino import opset15 as op
from openvino.frontend import FrontEndManager
from openvino.frontend.tensorflow.utils import create_tf_graph_iterator

from bert_flow_tf.encoder.engines.openvino_engine import BatchModel, process_core, settings_of
from bert_flow_tf.encoder.engines.openvino_layers import integers, size_of, slice_axis
from bert_flow_tf.encoder.transformer.number_formats import FLOAT32


def converted_model(rest: Any) -> Model:
  """Returns a concrete function of TensorFlow as a model, whose constants are the memory of its variables."""
  # As openvino.convert_model, which reports to OpenVINO's telemetry from processes that it forks.
  converter = FrontEndManager().load_by_framework("tf")
  graph = create_tf_graph_iterator(rest, None, None, None, True)
  loaded = converter.load(graph, True)
  return converter.convert(loaded)


def joined_model(rest: Any, encoder: BatchModel | None, pad_id: int, max_tokens: int) -> Model:
  """Returns a model of ids of tokens, `input_ids`, and 1 for tokens, `attention_mask`, int64 [n, seq_len].

  Padding stands at the end of a row.

  Args:
    rest: concrete function of TensorFlow from ids and mask, int32 [n, seq_len], and the encoder's outputs to the
      model's.
    encoder: model of the blocks; None if no input needs it.
    pad_id: id of padding, in place of any other that a row has there.
    max_tokens: largest number of tokens of a text; those behind it are not read.
  """
  inputs = []
  for name in ("input_ids", "attention_mask"):
    inputs.append(op.parameter([-1, -1], np.int64, name))
    inputs[-1].output(0).get_tensor().set_names({name})
  ids, mask = (slice_axis(values, integers(0), integers(max_tokens), 1) for values in inputs)
  is_token = op.greater(mask, op.constant(np.int64(0)))
  ids = op.select(is_token, op.convert(ids, "i32"), op.constant(np.int32(pad_id)))
  sources = {"ids": ids, "mask": op.convert(is_token, "i32")}
  if encoder is not None:
    _connect(encoder.model, _values_of_batch(ids, is_token, encoder.first_position))
    for name, result in zip(encoder.outputs, encoder.model.get_results(), strict=True):
      sources[name] = result.input_value(0)
  model = converted_model(rest)
  _connect(model, sources)
  return Model(model.get_results(), inputs, "sentence_embedding")


def _connect(model, sources):
  """Puts values, {name: node or output}, in the place of the inputs of a model."""
  for parameter in model.get_parameters():
    (name,) = parameter.output(0).get_names()
    source = sources[name]
    if isinstance(source, Node):
      source = source.output(0)
    for target in parameter.output(0).get_target_inputs():
      target.replace_source_output(source)


def _values_of_batch(ids, is_token, first_position):
  """Returns {name: node} of the inputs of a model of batches with padding, as `OpenVinoEngine` computes them."""
  zero, one = op.constant(np.int32(0)), op.constant(np.int32(1))
  columns = op.range(zero, op.convert(op.squeeze(size_of(ids, 1), integers(0)), "i32"), one, "i32")
  # A text without tokens has a row all the same: no gather of rows may find none.
  is_row = op.logical_or(is_token, op.equal(columns, zero))
  flat = op.reshape(is_row, integers(-1), False)
  places = op.convert(op.squeeze(op.non_zero(flat, "i64"), integers(0)), "i32")
  numbers = op.subtract(op.cumsum(op.convert(flat, "i32"), zero), one)
  positions = op.broadcast(columns, op.shape_of(ids))
  if first_position:
    # Padding tokens in a text have the position of their id.
    of_padding = op.constant(np.int32(first_position - 1))
    is_other = op.convert(op.not_equal(ids, of_padding), "i32")
    positions = op.add(op.multiply(op.cumsum(is_other, one), is_other), of_padding)

  def of_tokens(values):
    return op.gather(op.reshape(values, integers(-1), False), places, op.constant(np.int64(0)))

  return {
    "ids": of_tokens(ids),
    "positions": of_tokens(positions),
    "rows": op.reshape(op.maximum(numbers, zero), op.shape_of(ids), False),
    "places": places,
    "mask": op.convert(is_token, "f32"),
  }


def write_ir(model: Model, path: str | os.PathLike, output: str, options: Mapping[str, str]) -> None:
  """Writes a model with one of its outputs to a file, model.xml, and its weights beside it, model.bin.

  `options`: settings of programs that load the file and have no others.
  """
  results = [result for result in model.get_results() if output in result.input_value(0).get_names()]
  written = Model(results, model.get_parameters(), model.get_friendly_name())
  for name, value in options.items():
    written.set_rt_info(value, ["runtime_options", name])
  serialize(written, os.fspath(path))


def run_file(path: str | os.PathLike, inputs: Mapping[str, np.ndarray], inner: Sequence[str] = ()) -> dict[str, Any]:
  """Returns {name: array} of the outputs of a model in a file, and of tensors in it, computed in float32."""
  model = process_core().read_model(os.fspath(path))
  if inner:
    model.add_outputs(list(inner))
  request = process_core().compile_model(model, "CPU", settings_of(FLOAT32)).create_infer_request()
  request.infer(dict(inputs))
  arrays = {}
  for output, tensor in zip(model.outputs, request.output_tensors, strict=True):
    for name in output.get_names():
      arrays[name] = tensor.data.copy()
  return arrays
