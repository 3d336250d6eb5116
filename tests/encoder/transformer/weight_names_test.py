"""encoder/transformer/weight_names.py names what a `Transformer` makes, and in that order."""

import pytest
import tensorflow as tf

from bert_flow_tf.encoder.transformer.architectures import ARCHITECTURES
from bert_flow_tf.encoder.transformer.config import EncoderConfig
from bert_flow_tf.encoder.transformer.transformer import Transformer
from bert_flow_tf.encoder.transformer.weight_names import shapes_of

SIZES = {
  "vocab_size": 24,
  "hidden_size": 12,
  "num_hidden_layers": 3,
  "num_attention_heads": 3,
  "intermediate_size": 20,
  "max_position_embeddings": 16,
  "type_vocab_size": 2,
  "pad_token_id": 1,
  "position_buckets": 4,
  "embedding_size": 8,
  "global_attn_every_n_layers": 2,
  "local_attention": 4,
}


@pytest.mark.parametrize("model_type", ARCHITECTURES)
@pytest.mark.parametrize("word_size", [8, 12])
def test_names_shapes_and_order(model_type, word_size):
  architecture = ARCHITECTURES[model_type]
  values = {architecture.key(name) or name: size for name, size in SIZES.items()}
  config = EncoderConfig({**values, "embedding_size": word_size, "model_type": model_type})
  for has_pooler in {False, bool(architecture.pooler)}:
    made = []

    def variable(path, shape, made=made):
      made.append((path, tuple(shape)))
      return tf.zeros(shape)

    Transformer(config, variable, has_pooler)
    assert list(shapes_of(config, has_pooler).items()) == made
