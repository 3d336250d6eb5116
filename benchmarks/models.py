"""A BERT of random weights for the encoder's benchmark."""

import os
import pathlib
from typing import Any

import numpy as np

from bert_flow_tf.encoder.saving import write_encoder
from bert_flow_tf.encoder.tf1_names import bert_shapes
from bert_flow_tf.io.files import read_json

# BERT-base (Devlin et al. 2019, section 3).
BASE = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072}


def write_random_bert(
  folder: str | os.PathLike,
  tokenizer_folder: str | os.PathLike,
  sizes: dict[str, int] | None = None,
  seed: int = 0,
) -> None:
  """Writes a Hugging Face folder that both TensorFlow and PyTorch load."""
  source = pathlib.Path(tokenizer_folder)
  vocabulary = (source / "vocab.txt").read_bytes()
  config = {
    "model_type": "bert",
    "vocab_size": len(vocabulary.rstrip(b"\n").split(b"\n")),
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-12,
    **(sizes or BASE),
  }
  rng = np.random.default_rng(seed)
  variables = {name: _initial(name, shape, rng) for name, shape in bert_shapes(config).items()}
  path = source / "tokenizer_config.json"
  tokenizer = read_json(path) if path.exists() else {}
  write_encoder(folder, config, variables, vocabulary, tokenizer)


def _initial(name, shape, rng):
  if name.endswith("/gamma"):
    return np.ones(shape, np.float32)
  if name.endswith(("/beta", "/bias")):
    return np.zeros(shape, np.float32)
  return (0.02 * rng.standard_normal(shape)).astype(np.float32)


def flops_per_token(config: Any, length: int) -> int:
  """Returns BERT's floating-point operations per token of a sentence of `length` tokens.

  Only matrix products count, an addition and a multiplication each: four of width x width, two of width x inner, and
  the two of attention, whose cost grows with the sentence.
  """
  width, inner = config.hidden_size, config.intermediate_size
  return config.num_hidden_layers * (8 * width * width + 4 * width * inner + 4 * width * length)
