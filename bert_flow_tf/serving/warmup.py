"""Warm-up requests, which a server answers before it serves a version, so that the first client does not wait."""

import pathlib
from typing import Any

import tensorflow as tf

from bert_flow_tf.serving.signatures import SIGNATURES

# The first request of a signature is the slow one. A second size prepares operations that depend on the shape.
_BATCH_SIZES = (1, 8)


def write(path: pathlib.Path, model_name: str, served: Any, sizes: dict[str, int]) -> None:
  """Writes `tf_serving_warmup_requests`, a TFRecord file of `PredictionLog`: two requests per signature.

  A request that fails stops the server from loading the model, so the exported model answers each one first.

  Args:
    path: the file.
    model_name: name of the model on the server.
    served: the signatures of the loaded SavedModel, {name: function}.
    sizes: {"dim": ..., "output_dim": ...} of the model.
  """
  from tensorflow_serving.apis import prediction_log_pb2

  with tf.io.TFRecordWriter(str(path)) as writer:
    for signature in SIGNATURES.values():
      for size in _BATCH_SIZES if signature.name in served else ():
        log = prediction_log_pb2.PredictionLog()
        request = log.predict_log.request
        request.model_spec.name, request.model_spec.signature_name = model_name, signature.name
        inputs = signature.example_inputs(size, sizes)
        served[signature.name](**{name: tf.constant(value) for name, value in inputs.items()})
        for name, value in inputs.items():
          request.inputs[name].CopyFrom(tf.make_tensor_proto(value))
        writer.write(log.SerializeToString(deterministic=True))
