"""Tiny random BERT in a folder, embeddings without a graph, and BERT's forward pass in NumPy as in the paper."""

import json
import math

import numpy as np
from safetensors.numpy import save_file

from bert_flow_tf.encoder.text.word_piece import pad_batch
from bert_flow_tf.encoder.transformer.transformer import path_of_variable
from bert_flow_tf.encoder.transformer.weights import from_pytorch, name_of_path
from tests.testing import tf_bert

CONFIG = {
  "vocab_size": 24,
  "hidden_size": 12,
  "num_hidden_layers": 3,
  "num_attention_heads": 3,
  "intermediate_size": 20,
  "max_position_embeddings": 16,
  "type_vocab_size": 2,
  "hidden_act": "gelu",
  "layer_norm_eps": 1e-12,
  "model_type": "bert",
}
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[", "]", "mask", "a", "b", "dog", "cat", "##s", "Dog", "."]
# Two sentences, the second with padding.
IDS = np.array([[2, 8, 10, 12, 3], [2, 11, 3, 0, 0]], np.int32)
MASK = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]], np.int32)


def random_weights(config=CONFIG, seed=0, pooler=True, head=False):
  """Returns weights under PyTorch's names, large enough that no non-linearity is nearly linear."""
  rng = np.random.default_rng(seed)
  h, inner = config["hidden_size"], config["intermediate_size"]
  shapes = {
    "embeddings.word_embeddings.weight": (config["vocab_size"], h),
    "embeddings.position_embeddings.weight": (config["max_position_embeddings"], h),
    "embeddings.token_type_embeddings.weight": (config["type_vocab_size"], h),
    "embeddings.LayerNorm.weight": (h,),
    "embeddings.LayerNorm.bias": (h,),
  }
  for i in range(config["num_hidden_layers"]):
    layer = f"encoder.layer.{i}."
    for name in ("query", "key", "value"):
      shapes[f"{layer}attention.self.{name}.weight"] = (h, h)
      shapes[f"{layer}attention.self.{name}.bias"] = (h,)
    for name, shape in {"attention.output": (h, h), "intermediate": (inner, h), "output": (h, inner)}.items():
      shapes[f"{layer}{name}.dense.weight"] = shape
      shapes[f"{layer}{name}.dense.bias"] = shape[:1]
    for name in ("attention.output", "output"):
      shapes[f"{layer}{name}.LayerNorm.weight"] = (h,)
      shapes[f"{layer}{name}.LayerNorm.bias"] = (h,)
  if pooler:
    shapes |= {"pooler.dense.weight": (h, h), "pooler.dense.bias": (h,)}
  weights = {f"bert.{name}": rng.normal(0, 0.5, shape).astype(np.float32) for name, shape in shapes.items()}
  if head:
    weights["cls.predictions.bias"] = rng.normal(size=config["vocab_size"]).astype(np.float32)
    weights["cls.predictions.transform.dense.weight"] = rng.normal(size=(h, h)).astype(np.float32)
  return weights


def save_tiny(folder, weights=None, config=CONFIG, kind="pt"):
  """Writes a folder: `kind` pt (safetensors as PyTorch saves them), or tf (safetensors), h5 or shards.

  All but pt are written by a TFBertModel; the calling test is skipped if transformers has none.
  """
  folder.mkdir(parents=True, exist_ok=True)
  weights = random_weights(config) if weights is None else weights
  (folder / "config.json").write_text(json.dumps(config))
  (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in VOCABULARY))
  (folder / "tokenizer_config.json").write_text('{"do_lower_case": true, "tokenizer_class": "BertTokenizer"}')
  if kind == "pt":
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
  else:
    model = tf_model(weights, config)
    model.save_pretrained(folder, safe_serialization=kind != "h5", max_shard_size="4KB" if kind == "shards" else "1GB")
  return folder


def tf_model(weights, config=CONFIG):
  """Returns a TFBertModel with `weights`; skips the calling test if transformers has none."""
  # Not by from_pretrained: transformers 4.54 and later cannot read safetensors into it.
  transformers = tf_bert()
  model = transformers.TFBertModel(transformers.BertConfig(**config))
  model.build_in_name_scope()
  for variable in model.weights:
    path = path_of_variable(variable)
    variable.assign(from_pytorch(path, weights[f"bert.{name_of_path(path)}"]))
  return model


def convertible(graph):
  """Asserts that converters to ONNX can take the GELUs and reshapes of a graph; returns the number of reshapes."""
  operations = graph.get_operations()
  assert "Erfc" not in {operation.type for operation in operations}
  shapes = [operation.outputs[0].shape.as_list() for operation in operations if operation.type == "Reshape"]
  assert max(shape.count(None) for shape in shapes) <= 1
  return len(shapes)


def embed(encoder, sentences, pooling="avg", max_seq_length=64):
  """Returns the embeddings that `encoder.encode` returns, by TensorFlow eagerly: a graph takes longer to trace."""
  return embed_padded(
    encoder, *pad_batch(encoder.tokenizer(sentences, max_seq_length), encoder.tokenizer.pad_id), pooling
  )


def embed_padded(encoder, ids, mask, pooling="avg"):
  """Returns the embeddings of ids and mask [batch, seq_len] by the encoder's engine."""
  if encoder.engine == "tensorflow":
    return encoder.embed_batch(ids, mask, pooling).numpy()
  return encoder.embed_ids([row[is_token] for row, is_token in zip(ids, mask > 0, strict=True)], pooling)


def _tanh_of_gelu(x):
  """Returns the original's approximation of erf(x), tanh(sqrt(2 / pi) (y + 0.044715 y^3)) for y = sqrt(2) x."""
  y = math.sqrt(2.0) * x
  return np.tanh(math.sqrt(2.0 / math.pi) * (y + 0.044715 * y**3))


def numpy_bert(weights, ids, mask, config=CONFIG, bias=0.0):
  """Returns hidden states (the embeddings, then every block's output) and the pooled output of BERT in float64.

  `bias` [heads, length, length] is added to the logits of attention.
  """
  w = {name.removeprefix("bert."): value.astype(np.float64) for name, value in weights.items()}
  gelu = {"gelu": np.vectorize(math.erf), "gelu_new": _tanh_of_gelu}[config["hidden_act"]]

  def dense(x, name):
    return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

  def layer_norm(x, name):
    variance = ((x - x.mean(-1, keepdims=True)) ** 2).mean(-1, keepdims=True)
    normal = (x - x.mean(-1, keepdims=True)) / np.sqrt(variance + config["layer_norm_eps"])
    return normal * w[f"{name}.LayerNorm.weight"] + w[f"{name}.LayerNorm.bias"]

  batch, length = ids.shape
  heads = config["num_attention_heads"]
  size = config["hidden_size"] // heads
  x = w["embeddings.word_embeddings.weight"][ids] + w["embeddings.position_embeddings.weight"][:length]
  x = layer_norm(x + w["embeddings.token_type_embeddings.weight"][0], "embeddings")
  states = [x]
  for i in range(config["num_hidden_layers"]):
    layer = f"encoder.layer.{i}"
    q, k, v = (
      dense(x, f"{layer}.attention.self.{name}").reshape(batch, length, heads, size).transpose(0, 2, 1, 3)
      for name in ("query", "key", "value")
    )
    scores = q @ k.transpose(0, 1, 3, 2) / math.sqrt(size) + bias + np.where(mask, 0.0, -np.inf)[:, None, None, :]
    attention = np.exp(scores - scores.max(-1, keepdims=True))
    attention /= attention.sum(-1, keepdims=True)
    context = (attention @ v).transpose(0, 2, 1, 3).reshape(batch, length, -1)
    x = layer_norm(dense(context, f"{layer}.attention.output.dense") + x, f"{layer}.attention.output")
    inner = dense(x, f"{layer}.intermediate.dense")
    inner = inner * 0.5 * (1.0 + gelu(inner / math.sqrt(2.0)))
    x = layer_norm(dense(inner, f"{layer}.output.dense") + x, f"{layer}.output")
    states.append(x)
  pooled = np.tanh(dense(x[:, 0], "pooler.dense")) if "pooler.dense.weight" in w else None
  return states, pooled
