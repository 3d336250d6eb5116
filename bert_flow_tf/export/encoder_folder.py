"""An encoder as a Hugging Face folder that TensorFlow and PyTorch load alike."""

import json
import pathlib
import shutil

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import save_file

from bert_flow_tf.encoder import tf1_names
from bert_flow_tf.errors import EncoderError
from bert_flow_tf.files import write_text


def write_encoder(folder, config, variables, vocab_file, tokenizer):
  """Writes config.json, vocab.txt, tokenizer_config.json and model.safetensors.

  Args:
    folder: made if absent.
    config: dict, the content of config.json.
    variables: {TensorFlow 1's name: float32 array} of the encoder.
    vocab_file: copied as it is.
    tokenizer: dict, what tokenizer_config.json says beside the tokenizer's class; do_lower_case in any case.

  Raises:
    EncoderError: it cannot be written.
  """
  config = {**config, "architectures": ["BertModel"], "torch_dtype": "float32"}
  tokenizer = {"model_max_length": config["max_position_embeddings"], "tokenizer_class": "BertTokenizer", **tokenizer}
  tensors = {}
  for name, array in variables.items():
    array = array.T if tf1_names.is_kernel(name) else array
    tensors[tf1_names.of_torch(name)] = np.ascontiguousarray(array)
  folder = pathlib.Path(folder)
  try:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in {"config.json": config, "tokenizer_config.json": tokenizer}.items():
      write_text(folder / name, json.dumps(content, indent=2, sort_keys=True) + "\n")
    shutil.copyfile(vocab_file, folder / "vocab.txt")
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
  except (OSError, SafetensorError) as error:
    raise EncoderError(f"encoder folder {folder}: cannot be written ({error})") from error
