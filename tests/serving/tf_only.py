"""A process with TensorFlow, TF Text and no project code: `python tf_only.py BASE NAME REQUESTS OUT.npz`.

It answers every request of the pickled REQUESTS in a session and writes the answers. It prints a line of JSON: port,
replayed warm-up requests, imported project modules, errors {REQUEST: message}. Then it serves BASE over gRPC until its
standard input ends.
"""

import json
import os
import pickle
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import numpy as np
import prediction_service
import tensorflow as tf
import tensorflow_text  # noqa: F401 (its ops)


def main(base, name, requests, out):
  """Runs the process; see the module's docstring."""
  server, port, service = prediction_service.serve(base, name)
  with open(requests, "rb") as file:
    requests = pickle.load(file)
  answers, errors = {}, {}
  for key, (version, signature, inputs) in requests.items():
    try:
      outputs = service.models[version].run(signature, inputs)
    except tf.errors.OpError as error:
      errors[key] = str(error)
    else:
      answers |= {f"{key}/{output}": array for output, array in outputs.items()}
  np.savez(out, **answers)
  foreign = sorted({module.split(".")[0] for module in sys.modules} & {"bert_flow_tf", "transformers", "tf_keras"})
  seen = {"port": port, "replayed": service.replayed, "foreign": foreign}
  print(json.dumps({**seen, "errors": errors}), flush=True)
  sys.stdin.read()
  server.stop(None)


if __name__ == "__main__":
  main(*sys.argv[1:])
