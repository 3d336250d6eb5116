"""A process with TensorFlow, TF Text and no project code: `python tf_only.py BASE NAME REQUESTS.json OUT.npz`.

It answers every request of REQUESTS.json through the C API and writes the answers. It prints a line of JSON: port,
replayed warm-up requests, imported project modules, whether XLA is disabled, errors {REQUEST: message}. Then it serves
BASE over gRPC until its standard input ends.
"""

import json
import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import c_session
import numpy as np
import prediction_service
import tensorflow as tf
import tensorflow_text  # noqa: F401 (its ops)


def as_inputs(values):
  """Returns the inputs of a request from JSON: text as lists of byte values, ids as int32, latents as float32."""
  return {
    name: [bytes(text) for text in value["bytes"]]
    if "bytes" in value
    else np.array(value["array"], value["dtype"]).reshape(value["shape"])
    for name, value in values.items()
  }


def xla_is_disabled():
  """Returns whether a compiled function fails in this process, as it does in a server."""
  try:
    tf.function(lambda x: x + x, jit_compile=True)(tf.constant(1.0))
  except tf.errors.OpError as error:
    return "XLA" in str(error)
  return False


def main(base, name, requests, out):
  """Runs the process; see the module's docstring."""
  c_session.disable_xla()
  server, port, service = prediction_service.serve(base, name)
  with open(requests, encoding="utf-8") as file:
    requests = json.load(file)
  answers, errors = {}, {}
  for key, (version, signature, values) in requests.items():
    try:
      outputs = service.models[version].run(signature, as_inputs(values))
    except RuntimeError as error:
      errors[key] = str(error)
    else:
      answers |= {f"{key}/{output}": array for output, array in outputs.items()}
  np.savez(out, **answers)
  foreign = sorted({module.split(".")[0] for module in sys.modules} & {"bert_flow_tf", "transformers", "tf_keras"})
  seen = {"port": port, "replayed": service.replayed, "foreign": foreign, "xla_is_disabled": xla_is_disabled()}
  print(json.dumps({**seen, "errors": errors}), flush=True)
  sys.stdin.read()
  server.stop(None)


if __name__ == "__main__":
  main(*sys.argv[1:])
