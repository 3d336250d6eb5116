"""Requests that a server answers before it calls a version available, so that the first client does not wait."""

import numpy as np
import tensorflow as tf

from bert_flow_tf.data.features import pad_batch
from bert_flow_tf.serving.layout import ExportError

# The first request of a signature is the slow one; the second shape is for the ops that prepare for shapes.
_BATCHES = (1, 8)


def write(path, model_name, encoder, max_seq_length, answers):
  """Writes `tf_serving_warmup_requests`: a TFRecord file of `PredictionLog`s, a request a signature and batch size.

  A bad record stops a server from loading the model; requests are made of inputs that were answered already.

  Args:
    path: the file.
    model_name: str.
    encoder: `SentenceEncoder`, for the ids.
    max_seq_length: int.
    answers: of `golden.answer`.
  """
  logs = prediction_logs()
  sentences = answers["serving_default"]["inputs"]["text"]
  ids, mask = pad_batch(encoder.tokenizer(sentences, max_seq_length), encoder.tokenizer.pad_id)
  requests = {name: of["inputs"] for name, of in answers.items()}
  requests["embed_ids"] = {"ids": ids, "lengths": mask.sum(axis=1).astype(np.int32)}
  if "log_prob" in answers:
    requests["inverse"] = {"latent": np.zeros_like(answers["serving_default"]["outputs"]["embedding"], np.float32)}
  with tf.io.TFRecordWriter(str(path)) as writer:
    for name, inputs in requests.items():
      for size in _BATCHES:
        log = logs.PredictionLog()
        request = log.predict_log.request
        request.model_spec.name = model_name
        request.model_spec.signature_name = name
        for key, value in inputs.items():
          request.inputs[key].CopyFrom(tf.make_tensor_proto(value[:size]))
        writer.write(log.SerializeToString(deterministic=True))


def prediction_logs():
  """tensorflow-serving-api's module of `PredictionLog`.

  Raises:
    ExportError: it is not installed.
  """
  try:
    from tensorflow_serving.apis import prediction_log_pb2
  except ImportError as error:
    raise ExportError(
      f"tensorflow-serving-api cannot be imported ({error}): install it with pip install 'bert-flow-tf[serving]'"
    ) from error
  return prediction_log_pb2
