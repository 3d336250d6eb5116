"""What is in a SavedModel, and whether a stock server can run it."""

import tensorflow as tf

from bert_flow_tf.serving.layout import ExportError

# Ops that exports are known to use, all in TensorFlow 2.12's registry (looked up in tensorflow-cpu 2.12.1).
_CORE_OPS = """
  AddN AddV2 All Assert AssignVariableOp BatchMatMulV2 BiasAdd Cast ConcatV2 Const Cumsum DenseBincount
  DisableCopyOnRead Equal Erfc Exp ExpandDims GatherV2 Greater GreaterEqual Identity IdentityN If Less LessEqual
  MatMul Max Maximum Mean MergeV2Checkpoints Minimum Mul Neg NoOp Pack Pad PartitionedCall Placeholder Pow Prod
  RaggedRange RaggedTensorToTensor Range ReadVariableOp RealDiv Relu Reshape ResourceGather RestoreV2 Rsqrt SaveV2
  Select SelectV2 Shape ShardedFilename Sigmoid Size Softmax Softplus Split Square SquaredDifference
  StatefulPartitionedCall StaticRegexFullMatch StaticRegexReplace StopGradient StridedSlice StringJoin StringLength
  StringLower StringSplitV2 Sub Sum Tanh Transpose UnicodeTranscode VarHandleOp VarIsInitializedOp ZerosLike
"""
# Those of TF Text, in 2.12.1's.
_TEXT_OPS = ("FastWordpieceTokenizeWithOffsets", "NormalizeUTF8")
SERVER_OPS = frozenset([*_CORE_OPS.split(), *_TEXT_OPS])


def ops_of(folder):
  """Names of all ops in the graphs and functions of a SavedModel's folder, a set."""
  return {node.op for graph in _graphs(folder) for node in _nodes(graph)} - {
    function.signature.name for graph in _graphs(folder) for function in graph.library.function
  }


def check_servable(folder):
  """Refuses what a stock server cannot run; returns the ops that it is not known to have, sorted.

  Raises:
    ExportError: a function must be compiled by XLA, which the server has switched off.
  """
  for graph in _graphs(folder):
    for function in graph.library.function:
      if function.attr["_XlaMustCompile"].b or any(node.attr["_XlaMustCompile"].b for node in function.node_def):
        raise ExportError(
          f"function {function.signature.name} must be compiled by XLA (jit_compile=True), which TF Serving does not "
          "do: build encoder and flow without it"
        )
  return sorted(ops_of(folder) - SERVER_OPS)


def _graphs(folder):
  from tensorflow.core.protobuf import saved_model_pb2

  model = saved_model_pb2.SavedModel()
  with tf.io.gfile.GFile(str(folder / "saved_model.pb"), "rb") as file:
    model.ParseFromString(file.read())
  return [meta.graph_def for meta in model.meta_graphs]


def _nodes(graph):
  yield from graph.node
  for function in graph.library.function:
    yield from function.node_def
