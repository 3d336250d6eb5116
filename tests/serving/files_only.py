"""Program of a client of exported files, without this package: it has tokenizers, and openvino or onnxruntime.

Reads {folder: texts} as JSON from its standard input, and prints JSON: {folder: embeddings of the texts as a batch, and
of each alone}, and the modules that a client would not have.
"""

import json
import pathlib
import sys

import numpy as np
import tokenizers


def load(folder):
  """Returns the function of a version's folder from {input: array} to embeddings."""
  if (folder / "model.onnx").exists():
    import onnxruntime

    session = onnxruntime.InferenceSession(folder / "model.onnx")
    return lambda inputs: session.run(["embedding"], inputs)[0]
  import openvino

  model = openvino.compile_model(folder / "model.xml", "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
  return lambda inputs: model(inputs)["embedding"]


def embeddings(folder, texts):
  """Returns the embeddings of texts as one batch, and one by one."""
  model = load(folder)
  tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
  tokenizer.encode_special_tokens = True

  def embed(batch):
    encodings = tokenizer.encode_batch(batch)
    ids = np.array([encoding.ids for encoding in encodings])
    mask = np.array([encoding.attention_mask for encoding in encodings])
    return model({"input_ids": ids, "attention_mask": mask}).tolist()

  return embed(texts), [embed([text])[0] for text in texts]


if __name__ == "__main__":
  answers = {folder: embeddings(pathlib.Path(folder), texts) for folder, texts in json.load(sys.stdin).items()}
  foreign = {"tensorflow", "tensorflow_text", "bert_flow_tf", "transformers", "keras", "tf_keras"} & {*sys.modules}
  print(json.dumps({"answers": answers, "foreign": sorted(foreign)}))
