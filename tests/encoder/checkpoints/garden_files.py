"""Checkpoints and SavedModels with the names of the Model Garden, of the weights of a `Transformer`."""

import json

import numpy as np
import tensorflow as tf

from bert_flow_tf.encoder.transformer.transformer import path_of_variable
from tests.encoder.tiny import VOCABULARY

# {layer of this package: (its object below a block, its name in the names of variables)}
LAYERS = {
  "query": ("_attention_layer/_query_dense", "self_attention/query"),
  "key": ("_attention_layer/_key_dense", "self_attention/key"),
  "value": ("_attention_layer/_value_dense", "self_attention/value"),
  "attended": ("_attention_layer/_output_dense", "self_attention/attention_output"),
  "attended_norm": ("_attention_layer_norm", "self_attention_layer_norm"),
  "inner": ("_intermediate_dense", "intermediate"),
  "outer": ("_output_dense", "output"),
  "outer_norm": ("_output_layer_norm", "output_layer_norm"),
}
PARTS = {
  "embeddings/word_embeddings": ("_embedding_layer", "word_embeddings"),
  "embeddings/position_embeddings": ("_position_embedding_layer", "position_embedding"),
  "embeddings/token_type_embeddings": ("_type_embedding_layer", "type_embeddings"),
  "embeddings/LayerNorm": ("_embedding_norm_layer", "embeddings/layer_norm"),
  "embeddings_project": ("_embedding_projection", "embedding_projection"),
  "encoder/embedding_hidden_mapping_in": ("_embedding_projection", "embedding_projection"),
  "pooler/dense": ("_pooler_layer", "pooler_transform"),
  "pooler": ("_pooler_layer", "pooler_transform"),
}


def weights(bert):
  """Yields (number of a block or None, (object, name), weight, array in the Model Garden's shape)."""
  config = bert.config
  heads, size = config.num_attention_heads, config.hidden_size // config.num_attention_heads
  blocks = {}
  for number in range(1 if config.architecture.shares_weights else config.num_hidden_layers):
    for layer, path in config.architecture.layers.items():
      blocks[f"{config.architecture.block.format(number)}/{path}"] = (number, layer)
  for variable in bert.weights:
    stem, _, weight = path_of_variable(variable).rpartition("/")
    array, number, names = variable.numpy(), None, PARTS.get(stem)
    if names is None:
      number, layer = blocks[stem]
      names = LAYERS[layer]
      if layer in ("query", "key", "value"):
        array = array.reshape((-1, heads, size)[array.ndim == 1 :])
      elif layer == "attended" and weight == "kernel":
        array = array.reshape(heads, size, -1)
    yield number, names, weight if stem not in list(PARTS)[:3] else "embeddings", array


def objects(bert, named=False, replace=None):
  """Returns the objects of a BertEncoder or AlbertEncoder; `named`: of a BertEncoderV2."""
  parts, blocks = {}, {}
  for number, (path, name), weight, array in weights(bert):
    node = parts.setdefault(path, tf.Module()) if number is None else blocks.setdefault(number, tf.Module())
    if number is not None:
      for part in path.split("/"):
        if not hasattr(node, part):
          setattr(node, part, tf.Module())
        node = getattr(node, part)
    prefix = "" if number is None else "transformer/"
    if number is not None and not bert.config.architecture.shares_weights:
      prefix += f"layer_{number}/"
    setattr(node, weight, tf.Variable(array, name=f"{prefix}{name}/{weight}"))
  encoder = tf.Module()
  if named:
    for name, part in parts.items():
      setattr(encoder, name, part)
    encoder._transformer_layers = [blocks[number] for number in sorted(blocks)]
    return encoder
  order = [parts[name] for name in dict.fromkeys(path for path, _ in PARTS.values()) if name in parts]
  pooler = [parts["_pooler_layer"]] if "_pooler_layer" in parts else []
  for number, layer in enumerate([*order[: len(order) - len(pooler)], *blocks.values(), *pooler]):
    setattr(encoder, f"layer_with_weights-{number}", layer)
  return encoder


def write_vocabulary(folder, config=None):
  """Writes a vocab.txt, and a bert_config.json if it is given."""
  folder.mkdir(parents=True, exist_ok=True)
  (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in VOCABULARY))
  if config is not None:
    (folder / "bert_config.json").write_text(json.dumps(config))


def write_checkpoint(folder, bert, config=None, named=False, **others):
  """Writes a checkpoint with the encoder as `encoder`, and other objects; returns the folder."""
  write_vocabulary(folder, config)
  tf.train.Checkpoint(encoder=objects(bert, named), **others).write(str(folder / "bert_model.ckpt"))
  return folder


def write_saved_model(folder, bert, prefix="", lower=True):
  """Writes a SavedModel of the encoder's variables, which have their names alone; returns the folder."""
  model = tf.Module()
  model.weights = [
    tf.Variable(array, name=f"{prefix}{'' if number is None else f'transformer/layer_{number}/'}{name}/{weight}")
    for number, (_, name), weight, array in weights(bert)
  ]
  model.do_lower_case = tf.Variable(lower, trainable=False)
  write_vocabulary(folder / "files")
  model.vocab_file = tf.saved_model.Asset(str(folder / "files/vocab.txt"))
  call = tf.function(lambda input_word_ids: input_word_ids + 1, [tf.TensorSpec([None, None], tf.int32)])
  tf.saved_model.save(model, str(folder), signatures=call)
  return folder


def states(bert, ids, mask):
  """Returns the hidden states, [blocks + 1, batch, length, width], 0 at padding."""
  return np.stack([state.numpy() * mask[..., None] for state in bert(tf.constant(ids), tf.constant(mask))[0]])
