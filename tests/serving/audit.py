"""Operations of a SavedModel that a stock TF Serving may not have."""

import pathlib
from collections.abc import Iterator

from tensorflow.core.framework import graph_pb2, node_def_pb2
from tensorflow.core.protobuf import saved_model_pb2

# Operations of exported models. All of them are in the op registry of tensorflow-cpu 2.12.1.
_CORE_OPS = """
AddN AddV2 All Any Assert AssignVariableOp BatchMatMulV2 BiasAdd BroadcastArgs BroadcastTo Cast ConcatV2 Const Cumsum
DenseBincount DisableCopyOnRead DivNoNan Equal Erf Erfc Exp ExpandDims Fill FloorDiv GatherNd GatherV2 Greater
GreaterEqual Identity IdentityN If InvertPermutation Less LessEqual Log LogicalAnd LogicalOr MatMul MatrixBandPart
MatrixSetDiagV3 MatrixTriangularSolve Max Maximum Mean MergeV2Checkpoints Minimum Mul Neg NoOp Pack Pad PadV2
ParseExampleV2 PartitionedCall Placeholder Pow PrintV2 Prod RaggedRange RaggedTensorToTensor Range ReadVariableOp
RealDiv Relu Reshape ResourceGather RestoreV2 Rsqrt SaveV2 ScatterNd Select SelectV2 Shape ShardedFilename Sigmoid
Size Slice Softmax Softplus Split SplitV Sqrt Square SquaredDifference StatefulPartitionedCall StatelessWhile
StaticRegexFullMatch StaticRegexReplace StopGradient StridedSlice StringFormat StringJoin StringLength StringLower
StringSplitV2 Sub Substr Sum Tanh TensorListConcatV2 TensorListReserve TensorListSetItem Transpose UnicodeTranscode
Unpack VarHandleOp VarIsInitializedOp Where While ZerosLike
"""
# Operations of TF Text; in 2.12.1.
_TEXT_OPS = ("FastWordpieceTokenizeWithOffsets", "NormalizeUTF8")
SERVER_OPS = frozenset([*_CORE_OPS.split(), *_TEXT_OPS])


def unknown_ops(folder: pathlib.Path) -> list[str]:
  """Returns the operations of a SavedModel that TensorFlow 2.12 may not have; asserts that XLA must compile none."""
  ops, functions = set(), set()
  for graph in _graphs(folder):
    ops |= {node.op for node in _nodes(graph)}
    for function in graph.library.function:
      functions.add(function.signature.name)
      must_compile = function.attr["_XlaMustCompile"].b or any(n.attr["_XlaMustCompile"].b for n in function.node_def)
      assert not must_compile, f"{function.signature.name} has jit_compile=True, which TF Serving disables"
  return sorted(ops - functions - SERVER_OPS)


def _graphs(folder: pathlib.Path) -> list[graph_pb2.GraphDef]:
  model = saved_model_pb2.SavedModel.FromString((folder / "saved_model.pb").read_bytes())
  return [meta.graph_def for meta in model.meta_graphs]


def _nodes(graph: graph_pb2.GraphDef) -> Iterator[node_def_pb2.NodeDef]:
  yield from graph.node
  for function in graph.library.function:
    yield from function.node_def
