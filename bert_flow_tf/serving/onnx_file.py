"""Functions of TensorFlow as files of ONNX: converted by tf2onnx, and run by ONNX Runtime."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

# Version of ONNX's operations.
_OPSET = 18
# Largest file of ONNX without others beside it.
MAX_BYTES = 2**31 - 1


def write_onnx(function: Any, path: str | os.PathLike, output: str) -> None:
  """Writes a concrete function whose inputs and outputs have names, with one of its outputs."""
  from tf2onnx import optimizer, tf_loader, tfonnx

  inputs = [tensor.name for tensor in function.structured_input_signature[0]]
  placeholders = [tensor.name for tensor in function.inputs[: len(inputs)]]
  renamed = dict(zip(placeholders, inputs, strict=True))
  outputs = [tensor.name for tensor in function.outputs]
  renamed |= {tensor.name: name for name, tensor in function.structured_outputs.items()}
  frozen = tf_loader.from_function(function, placeholders, outputs)
  # All optimizers but that of operations one after the other, which joins reshapes to two unknown sizes wrongly.
  optimizers = {
    "optimize_transpose": optimizer.TransposeOptimizer,
    "fold_constants": optimizer.ConstFoldOptimizer,
    "merge_duplication": optimizer.MergeDuplicatedNodesOptimizer,
    "reshape_optimizer": optimizer.ReshapeOptimizer,
    "remove_identity": optimizer.IdentityOptimizer,
  }
  with tf.Graph().as_default() as graph:
    tf.import_graph_def(frozen, name="")
    converted = tfonnx.process_tf_graph(
      graph, opset=_OPSET, input_names=placeholders, output_names=outputs, tensors_to_rename=renamed
    )
    model = optimizer.optimize_graph(converted, optimizers=optimizers).make_model("sentence_embedding")
  kept = [value for value in model.graph.output if value.name == output]
  del model.graph.output[:]
  model.graph.output.extend(kept)
  with open(path, "wb") as file:
    file.write(model.SerializeToString())


def run_onnx(path: str | os.PathLike, inputs: Mapping[str, np.ndarray], inner: Sequence[str] = ()) -> dict[str, Any]:
  """Returns {name: array} of the outputs of a file, and of tensors in it."""
  import onnx
  import onnxruntime

  model = onnx.load(os.fspath(path))
  for name in inner:
    model.graph.output.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None))
  names = [value.name for value in model.graph.output]
  session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
  return dict(zip(names, session.run(names, dict(inputs)), strict=True))
