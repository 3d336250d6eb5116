"""Names of the weights of the Model Garden's encoders, in checkpoints of TensorFlow 2 and in SavedModels.

model/layer_with_weights-4/_attention_layer/_query_dense/kernel   objects of a BertEncoder or AlbertEncoder
encoder/_transformer_layers/0/_attention_layer/...                objects of a BertEncoderV2
transformer/layer_0/self_attention/query/kernel                   name of a variable in a SavedModel

A checkpoint holds a graph of objects; a variable's key in it is one of several paths to the variable.
"""

import collections
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from bert_flow_tf.encoder.checkpoints.tf1 import Checkpoint
from bert_flow_tf.errors import EncoderError

EXPECTED = "expected all weights of a BertEncoder, BertEncoderV2 or AlbertEncoder of the Model Garden"
WORDS, POSITIONS, TYPES, NORM, PROJECTION, POOLER = _PARTS = (
  "words",
  "positions",
  "types",
  "norm",
  "projection",
  "pooler",
)
# {part: its name as an attribute of a BertEncoderV2, and its name in the names of variables}
_ATTRIBUTES = {
  WORDS: ("_embedding_layer", "word_embeddings"),
  POSITIONS: ("_position_embedding_layer", "position_embedding"),
  TYPES: ("_type_embedding_layer", "type_embeddings"),
  NORM: ("_embedding_norm_layer", "embeddings/layer_norm"),
  PROJECTION: ("_embedding_projection", "embedding_projection"),
  POOLER: ("_pooler_layer", "pooler_transform"),
}
_BLOCKS = "_transformer_layers"
_LAYER, _ATTENTION = "layer_with_weights-", "_attention_layer"
# {layer of a block: its paths as an object below the block, and its names in the names of variables}; the second of two
# is of releases of 2020.
_LAYERS = {
  "query": (("_attention_layer/_query_dense",), ("self_attention/query",)),
  "key": (("_attention_layer/_key_dense",), ("self_attention/key",)),
  "value": (("_attention_layer/_value_dense",), ("self_attention/value",)),
  "attended": (
    ("_attention_layer/_output_dense", "_attention_output_dense"),
    ("self_attention/attention_output", "self_attention_output"),
  ),
  "attended_norm": (("_attention_layer_norm",), ("self_attention_layer_norm",)),
  "inner": (("_intermediate_dense",), ("intermediate",)),
  "outer": (("_output_dense",), ("output",)),
  "outer_norm": (("_output_layer_norm",), ("output_layer_norm",)),
}
_WEIGHTS = ("embeddings", "kernel", "bias", "gamma", "beta")
# "bert_encoder/transformer/layer_0/self_attention/query/kernel"; ALBERT's block has no number.
_NAME_OF_BLOCK = re.compile(r"(?:.*/)?transformer/(?:layer_(\d+)/)?(.+)/(\w+)")


class WeightPlace(NamedTuple):
  """Place of a weight in an encoder; `block` is None for one that is in no block."""

  block: int | None
  layer: str
  weight: str


class FoundWeights(NamedTuple):
  """Weights of an encoder: {place: key in the checkpoint}, and whether all blocks have the same."""

  keys: dict[WeightPlace, str]
  is_shared: bool


def weights_by_names(checkpoint: Checkpoint) -> FoundWeights:
  """Returns the weights of the encoder in a SavedModel, by the names of its variables."""
  keys, is_shared = {}, False
  parts = {name: part for part, (_, name) in _ATTRIBUTES.items()}
  layers = {name: layer for layer, (_, names) in _LAYERS.items() for name in names}
  for _, attribute in _variables(checkpoint.objects()):
    name = attribute.full_name.partition(":")[0]
    place = None
    match = _NAME_OF_BLOCK.fullmatch(name)
    if match and match[2] in layers:
      place = WeightPlace(int(match[1] or 0), layers[match[2]], match[3])
      is_shared |= match[1] is None
    stem, _, weight = name.rpartition("/")
    for part_name, part in parts.items():
      if stem == part_name or stem.endswith(f"/{part_name}"):
        place = WeightPlace(None, part, weight)
    if place is None or place.weight not in _WEIGHTS:
      continue
    if place in keys:
      message = f"several variables are named {name}, as of two encoders"
      raise EncoderError(f"{checkpoint.prefix}: {message}; expected a SavedModel of one encoder")
    keys[place] = attribute.checkpoint_key
  if not any(place.block is not None for place in keys):
    keys = {}
  return FoundWeights(keys, is_shared)


def weights_by_objects(checkpoint: Checkpoint) -> FoundWeights:
  """Returns the weights of the encoder in a checkpoint, by the paths of its objects."""
  graph = checkpoint.objects()
  children = [{child.local_name: child.node_id for child in node.children} for node in graph.nodes]

  def below(node: int | None, path: str) -> int | None:
    for name in path.split("/"):
      node = None if node is None else children[node].get(name)
    return node

  places = {0: ""}
  encoders: dict[int | None, tuple[str, dict[str, int], list[int]]] = {}
  queue = collections.deque(places)
  while queue:
    node = queue.popleft()
    parts, blocks = _parts_of(children, node, below)
    words = below(parts.get(WORDS), "embeddings")
    if words is not None and blocks:
      encoders.setdefault(words, (places[node] or "the root", parts, blocks))
    for name, child in children[node].items():
      if child not in places:
        places[child] = f"{places[node]}/{name}".lstrip("/")
        queue.append(child)
  if not encoders:
    names = ", ".join(sorted(children[0])[:8])
    message = f"a checkpoint of TensorFlow 2 without an encoder of the Model Garden (its objects are {names})"
    raise EncoderError(f"{checkpoint.prefix}: {message}; {EXPECTED}")
  if len(encoders) > 1:
    where = ", ".join(path for path, _, _ in encoders.values())
    message = f"{len(encoders)} encoders, at {where}; save one alone, with tf.train.Checkpoint(encoder=...)"
    raise EncoderError(f"{checkpoint.prefix}: {message}")
  _, parts, blocks = next(iter(encoders.values()))
  keys, names = {}, []

  def add(block, layer, node):
    for weight in _WEIGHTS:
      variable = below(node, weight)
      for attribute in graph.nodes[variable].attributes if variable is not None else ():
        if attribute.name == "VARIABLE_VALUE":
          keys[WeightPlace(block, layer, weight)] = attribute.checkpoint_key
          names.append(attribute.full_name)

  for number, block in enumerate(blocks):
    for layer, (paths, _) in _LAYERS.items():
      for path in paths:
        add(number, layer, below(block, path))
  is_shared = any(match and match[1] is None for match in map(_NAME_OF_BLOCK.fullmatch, names))
  for part, node in parts.items():
    add(None, part, node)
  return FoundWeights(keys, is_shared and len(blocks) == 1)


def _parts_of(
  children: list[dict[str, int]], node: int, below: Callable[[int | None, str], int | None]
) -> tuple[dict[str, int], list[int]]:
  """Returns {part: object} and the blocks of an object that may be an encoder."""

  def numbered(names: Mapping[str, int], prefix: str) -> list[int]:
    numbers = {name: name.removeprefix(prefix) for name in names if name.startswith(prefix)}
    return [names[name] for name in sorted(numbers, key=lambda name: int(numbers[name])) if numbers[name].isdigit()]

  layers = numbered(children[node], _LAYER)
  blocks = [layer for layer in layers if below(layer, _ATTENTION) is not None]
  if blocks:
    # The embeddings come in the order of _PARTS; a projection is before the blocks, the pooler after them.
    first = layers.index(blocks[0])
    parts = dict(zip(_PARTS, layers[:first], strict=False))
    after = [layer for layer in layers[first:] if layer not in blocks]
    parts |= {POOLER: after[0]} if after else {}
    return parts, blocks
  named = {part: below(node, attribute) for part, (attribute, _) in _ATTRIBUTES.items()}
  return {part: child for part, child in named.items() if child is not None}, numbered(
    children[blocks_node] if (blocks_node := below(node, _BLOCKS)) is not None else {}, ""
  )


def name_of_place(place):
  """Returns the name of a weight in the names of variables, for a message."""
  if place.block is None:
    return f"{_ATTRIBUTES[place.layer][1]}/{place.weight}"
  return f"transformer/layer_{place.block}/{_LAYERS[place.layer][1][0]}/{place.weight}"


def describe_variables(checkpoint):
  """Returns some names of variables for a message."""
  names = [attribute.full_name or attribute.checkpoint_key for _, attribute in _variables(checkpoint.objects())]
  return f"{len(names)} variables, first {', '.join(names[:2])}" if names else "it has none"


def _variables(graph):
  """Yields node and attribute of each variable of a graph of objects."""
  for node in graph.nodes:
    for attribute in node.attributes:
      if attribute.name == "VARIABLE_VALUE":
        yield node, attribute
