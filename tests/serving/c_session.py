"""A SavedModel in a session of TensorFlow's C API, as in a server: no Python graph, XLA compilation disabled."""

import ctypes
import pathlib

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2

_STRING, _STRING_BYTES = 7, 24
_DTYPES = {1: np.float32, 3: np.int32}


class _Output(ctypes.Structure):
  _fields_ = [("operation", ctypes.c_void_p), ("index", ctypes.c_int)]


class _Buffer(ctypes.Structure):
  _fields_ = [("data", ctypes.c_void_p), ("length", ctypes.c_size_t), ("free", ctypes.c_void_p)]


def _library():
  library = ctypes.CDLL(str(next(pathlib.Path(tf.sysconfig.get_lib()).glob("libtensorflow_cc.so*"))))
  pointers = "NewStatus NewSessionOptions NewGraph NewBuffer LoadSessionFromSavedModel GraphOperationByName"
  for name in (*pointers.split(), "AllocateTensor", "TensorData"):
    getattr(library, f"TF_{name}").restype = ctypes.c_void_p
  library.TF_Message.restype = ctypes.c_char_p
  library.TF_Dim.restype = ctypes.c_int64
  library.TF_TensorByteSize.restype = ctypes.c_size_t
  return library


def disable_xla():
  """Disables XLA for the rest of the process, as the server's main does (tensorflow/compiler/jit/flags.h)."""
  _library()._ZN10tensorflow21DisableXlaCompilationEv()


class CSession:
  """Session of a loaded SavedModel."""

  def __init__(self, folder):
    self._c, self.folder = _library(), folder
    status = ctypes.c_void_p(self._c.TF_NewStatus())
    self._graph = ctypes.c_void_p(self._c.TF_NewGraph())
    options, meta = ctypes.c_void_p(self._c.TF_NewSessionOptions()), ctypes.c_void_p(self._c.TF_NewBuffer())
    tags = (ctypes.c_char_p * 1)(b"serve")
    session = self._c.TF_LoadSessionFromSavedModel(
      options, None, str(folder).encode(), tags, 1, self._graph, meta, status
    )
    self._check(status)
    self._session = ctypes.c_void_p(session)
    buffer = ctypes.cast(meta, ctypes.POINTER(_Buffer)).contents
    graph = meta_graph_pb2.MetaGraphDef.FromString(ctypes.string_at(buffer.data, buffer.length))
    self.signatures = dict(graph.signature_def)

  def run(self, signature, inputs):
    """Returns outputs {name: array} for inputs {name: list or array}; several threads may call it."""
    definition = self.signatures[signature]
    status = ctypes.c_void_p(self._c.TF_NewStatus())
    tensors = [self._tensor(inputs[name], info.dtype) for name, info in definition.inputs.items()]
    sources = self._outputs(definition.inputs.values())
    names = sorted(definition.outputs)
    targets = self._outputs(definition.outputs[name] for name in names)
    values, results = (ctypes.c_void_p * len(tensors))(*tensors), (ctypes.c_void_p * len(names))()
    self._c.TF_SessionRun(
      self._session, None, sources, values, len(tensors), targets, results, len(names), None, 0, None, status
    )
    self._check(status)
    return {name: self._array(result) for name, result in zip(names, results, strict=True)}

  def _check(self, status):
    if self._c.TF_GetCode(status):
      raise RuntimeError(self._c.TF_Message(status).decode())

  def _outputs(self, infos):
    outputs = []
    for info in infos:
      name, _, index = info.name.partition(":")
      operation = self._c.TF_GraphOperationByName(self._graph, name.encode())
      assert operation, name
      outputs.append(_Output(operation, int(index)))
    return (_Output * len(outputs))(*outputs)

  def _tensor(self, value, number):
    array = np.ascontiguousarray(value, _DTYPES.get(number, object))
    size = array.size * _STRING_BYTES if number == _STRING else array.nbytes
    dims = (ctypes.c_int64 * array.ndim)(*array.shape)
    tensor = self._c.TF_AllocateTensor(number, dims, array.ndim, ctypes.c_size_t(size))
    data = self._c.TF_TensorData(ctypes.c_void_p(tensor))
    if number != _STRING:
      ctypes.memmove(data, array.ctypes.data, size)
      return tensor
    for i, content in enumerate(array.ravel()):
      place = ctypes.c_void_p(data + i * _STRING_BYTES)
      self._c.TF_StringInit(place)
      self._c.TF_StringCopy(place, content, ctypes.c_size_t(len(content)))
    return tensor

  def _array(self, tensor):
    tensor = ctypes.c_void_p(tensor)
    shape = [self._c.TF_Dim(tensor, i) for i in range(self._c.TF_NumDims(tensor))]
    data = ctypes.string_at(self._c.TF_TensorData(tensor), self._c.TF_TensorByteSize(tensor))
    return np.frombuffer(data, _DTYPES[self._c.TF_TensorType(tensor)]).reshape(shape)
