"""Names, shapes and checksum of the weights of a `Transformer`, without TensorFlow.

`transformer` and `blocks/` make layers with them; tests/encoder/transformer/weight_names_test.py compares both.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from bert_flow_tf.encoder.transformer.architectures import bare_name
from bert_flow_tf.encoder.transformer.config import EncoderConfig
from bert_flow_tf.encoder.transformer.distances import MPNET_BUCKETS

# Paths and shapes.
_Weights = Iterator[tuple[str, tuple[int, ...]]]


def shapes_of(config: EncoderConfig, has_pooler: bool) -> dict[str, tuple[int, ...]]:
  """Returns {path: shape} of the weights of a model, in the order in which it makes them."""
  return {path: tuple(map(int, shape)) for path, shape in _weights(config, has_pooler)}


def _weights(config: EncoderConfig, has_pooler: bool) -> _Weights:
  architecture, size, width = config.architecture, config.hidden_size, config.word_size
  yield architecture.words, (config.vocab_size, width)
  if architecture.key("type_vocab_size"):
    yield "embeddings/token_type_embeddings/embeddings", (config.type_vocab_size, width)
  if architecture.has_positions:
    yield "embeddings/position_embeddings/embeddings", (config.max_position_embeddings, width)
  yield from _norm(architecture.norm, width, architecture.has_biases)
  if config.projection:
    yield from _dense(config.projection, width, size)
  if architecture.has_relative_positions:
    yield "encoder/relative_attention_bias/embeddings", (MPNET_BUCKETS, config.num_attention_heads)
  if architecture.blocks == "deberta":
    yield "encoder/rel_embeddings.weight", (2 * config.position_buckets, size)
    yield from _norm("encoder/LayerNorm", size)
  count = 1 if architecture.shares_weights else config.num_hidden_layers
  for number in range(count):
    yield from _BLOCKS[architecture.blocks](architecture.block.format(number), config, number)
  if architecture.final_norm:
    yield from _norm(architecture.final_norm, size, architecture.has_biases)
  if has_pooler:
    yield from _dense(architecture.pooler, size, size)


def _dense(path: str, size: int, units: int, has_bias: bool = True) -> _Weights:
  yield f"{path}/kernel", (size, units)
  if has_bias:
    yield f"{path}/bias", (units,)


def _norm(path: str, size: int, has_beta: bool = True) -> _Weights:
  yield f"{path}/gamma", (size,)
  if has_beta:
    yield f"{path}/beta", (size,)


def _block(path: str, config: EncoderConfig, number: int) -> _Weights:
  """Yields the weights of BERT's block, which is also DeBERTa's."""
  size, inner = config.hidden_size, config.intermediate_size
  paths = {layer: f"{path}/{name}" for layer, name in config.architecture.layers.items()}
  for layer in ("query", "key", "value", "attended"):
    yield from _dense(paths[layer], size, size)
  yield from _norm(paths["attended_norm"], size)
  yield from _dense(paths["inner"], size, inner)
  yield from _dense(paths["outer"], inner, size)
  yield from _norm(paths["outer_norm"], size)


def _rotary_block(path: str, config: EncoderConfig, number: int) -> _Weights:
  """Yields the weights of ModernBERT's block; the first one does not normalize its input."""
  size, inner = config.hidden_size, config.intermediate_size
  if number:
    yield from _norm(f"{path}/attn_norm", size, has_beta=False)
  yield from _dense(f"{path}/attn/Wqkv", size, 3 * size, has_bias=False)
  yield from _dense(f"{path}/attn/Wo", size, size, has_bias=False)
  yield from _norm(f"{path}/mlp_norm", size, has_beta=False)
  yield from _dense(f"{path}/mlp/Wi", size, 2 * inner, has_bias=False)
  yield from _dense(f"{path}/mlp/Wo", inner, size, has_bias=False)


# {`Architecture.blocks`: function of the weights of a block}
_BLOCKS: dict[str, Callable[[str, EncoderConfig, int], _Weights]] = {
  "bert": _block,
  "deberta": _block,
  "modernbert": _rotary_block,
}


def path_of_variable(variable: Any) -> str:
  """Returns the path of a variable of a `Transformer` or of transformers' TensorFlow models."""
  return bare_name(variable).partition(":")[0].partition("/")[2]


def checksum_of(weights: Sequence[Any]) -> str:
  """Returns the hexadecimal SHA-256 of the names, shapes and values of variables, whatever their order."""
  return checksum_of_values({bare_name(weight): weight.numpy for weight in weights})


def checksum_of_values(reads: Mapping[str, Callable[[], np.ndarray]]) -> str:
  """Returns the same of {bare name of a variable: function that reads its value}; one value at a time is read."""
  digest = hashlib.sha256()
  for name in sorted(reads):
    value = np.ascontiguousarray(reads[name]())
    digest.update(f"{name} {value.dtype} {value.shape} ".encode())
    digest.update(value.data)
  return digest.hexdigest()
