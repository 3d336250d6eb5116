"""A BERT of random weights, and any number of distinct sentences, for the encoder's benchmark."""

import os
import pathlib
from collections.abc import Sequence
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
  """Writes a Hugging Face folder that both TensorFlow and PyTorch load.

  Args:
    folder: the new folder.
    tokenizer_folder: folder of a BERT whose vocab.txt and tokenizer_config.json are copied.
    sizes: values for config.json; default: BERT-base.
    seed: seed of the weights, whose standard deviation is that of BERT's initial weights (0.02).
  """
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


def many_sentences(sentences: Sequence[str], count: int, seed: int = 0) -> list[str]:
  """Returns `count` distinct sentences: first the given ones, then random words in sentences of the same lengths."""
  rng = np.random.default_rng(seed)
  distinct = dict.fromkeys(sentences[:count])
  lengths = np.array([len(sentence.split()) for sentence in sentences])
  words = np.array([word for sentence in sentences for word in sentence.split()])
  while len(distinct) < count:
    # Sometimes a few words longer, so that the loop ends even if there are hardly any words.
    longer = rng.geometric(0.8) - 1
    distinct[" ".join(rng.choice(words, rng.choice(lengths) + longer))] = None
  return list(distinct)
