"""A small PredictionService with TF Serving's protos and error codes and none of its code.

It loads every version of a model as the server does and replays each version's warm-up requests before it answers.
"""

import concurrent.futures
import pathlib

import grpc
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_log_pb2, prediction_service_pb2_grpc


class Model:
  """A SavedModel in a session of TensorFlow 1, as the server runs it; several threads may call `run`."""

  def __init__(self, folder):
    self.folder = folder
    self._session = tf.compat.v1.Session(graph=tf.Graph())
    with self._session.graph.as_default():
      self.signatures = tf.compat.v1.saved_model.load(self._session, ["serve"], str(folder)).signature_def

  def run(self, signature, inputs):
    """Returns outputs {name: array} for inputs {name: list or array}."""
    definition = self.signatures[signature]
    values = {info.name: inputs[name] for name, info in definition.inputs.items()}
    return self._session.run({name: info.name for name, info in definition.outputs.items()}, values)


class PredictionService(prediction_service_pb2_grpc.PredictionServiceServicer):
  """Service with Predict for every version in a folder."""

  def __init__(self, base, name):
    self._name = name
    self.models = {int(path.name): Model(path) for path in pathlib.Path(base).iterdir() if path.name.isdigit()}
    self.replayed = {version: self._warm_up(model) for version, model in self.models.items()}

  def Predict(self, request, context):
    """Answers as TF Serving's Predict."""
    version, model = self._model(request.model_spec, context)
    name = request.model_spec.signature_name or "serving_default"
    try:
      outputs = model.run(name, {key: tf.make_ndarray(tensor) for key, tensor in request.inputs.items()})
    except (KeyError, ValueError, TypeError, tf.errors.OpError) as error:
      context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error)[:500])
    response = predict_pb2.PredictResponse()
    response.model_spec.name, response.model_spec.version.value = self._name, version
    response.model_spec.signature_name = name
    for key, value in outputs.items():
      response.outputs[key].CopyFrom(tf.make_tensor_proto(value))
    return response

  def _model(self, spec, context):
    version = spec.version.value if spec.HasField("version") else max(self.models)
    if spec.name != self._name or version not in self.models:
      context.abort(grpc.StatusCode.NOT_FOUND, f"Servable not found for request: Specific({spec.name}, {version})")
    return version, self.models[version]

  def _warm_up(self, model):
    """Answers the warm-up requests, as the server does before it serves a version; returns their signatures."""
    signatures = []
    for record in tf.compat.v1.io.tf_record_iterator(str(model.folder / "assets.extra" / "tf_serving_warmup_requests")):
      log = prediction_log_pb2.PredictionLog.FromString(record)
      assert log.WhichOneof("log_type") == "predict_log" and log.predict_log.request.model_spec.name == self._name
      request = log.predict_log.request
      name = request.model_spec.signature_name
      model.run(name, {key: tf.make_ndarray(tensor) for key, tensor in request.inputs.items()})
      signatures.append(name)
    return signatures


def serve(base, name, threads=8, port=0):
  """Starts a server; returns it, its port (of its choice if `port` is 0) and the service."""
  service = PredictionService(base, name)
  server = grpc.server(concurrent.futures.ThreadPoolExecutor(threads))
  prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(service, server)
  port = server.add_insecure_port(f"localhost:{port}")
  server.start()
  return server, port, service
