"""ModernBERT and DeBERTa-v3 in NumPy, float64, for comparison: hidden states by a folder's config.json and weights."""

import math

import numpy as np
from scipy import special


def _gelu(x):
  return x * (1 + special.erf(x / math.sqrt(2))) / 2


def _softmax(x):
  x = np.exp(x - x.max(-1, keepdims=True))
  return x / x.sum(-1, keepdims=True)


def _norm(x, epsilon, gamma, beta=0.0):
  return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + epsilon) * gamma + beta


def _heads(x, count):
  """[batch, seq_len, size] -> [batch, heads, seq_len, head_size]."""
  return x.reshape(*x.shape[:-1], count, -1).swapaxes(-3, -2)


def _rotate(x, theta):
  """Multiplies pairs of dimensions, as complex numbers, by exp(i position theta^(-2 k / head_size))."""
  half = x.shape[-1] // 2
  pairs = x[..., :half] + 1j * x[..., half:]
  turned = pairs * np.exp(1j * np.outer(np.arange(x.shape[-2]), theta ** (-np.arange(half) / half)))
  return np.concatenate([turned.real, turned.imag], -1)


def modernbert(config, weights, ids, mask):
  """Returns the states [blocks + 1, batch, seq_len, size]; weights {PyTorch's name without "model.": array}."""
  count, epsilon, blocks = config["num_attention_heads"], config["norm_eps"], config["num_hidden_layers"]
  position = np.arange(ids.shape[1])
  is_far = np.abs(position[:, None] - position) > config["local_attention"] // 2
  x = _norm(weights["embeddings.tok_embeddings.weight"][ids], epsilon, weights["embeddings.norm.weight"])
  states = [x]
  for i in range(blocks):
    is_global = i % config["global_attn_every_n_layers"] == 0
    theta = config["global_rope_theta"] if is_global else config["local_rope_theta"]
    normed = x if i == 0 else _norm(x, epsilon, weights[f"layers.{i}.attn_norm.weight"])
    parts = np.split(normed @ weights[f"layers.{i}.attn.Wqkv.weight"].T, 3, -1)
    q, k, v = (_heads(part, count) for part in parts)
    logits = _rotate(q, theta) @ _rotate(k, theta).swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    logits = np.where(mask[:, None, None, :] > 0, logits, -np.inf)
    if not is_global:
      logits = np.where(is_far & mask[:, None, :, None] > 0, -np.inf, logits)  # padding attends to all
    context = (_softmax(logits) @ v).swapaxes(1, 2).reshape(x.shape)
    x = x + context @ weights[f"layers.{i}.attn.Wo.weight"].T
    normed = _norm(x, epsilon, weights[f"layers.{i}.mlp_norm.weight"])
    inner, gates = np.split(normed @ weights[f"layers.{i}.mlp.Wi.weight"].T, 2, -1)
    x = x + (_gelu(inner) * gates) @ weights[f"layers.{i}.mlp.Wo.weight"].T
    states.append(x)
  states[-1] = _norm(x, epsilon, weights["final_norm.weight"])
  return np.stack(states)


def deberta(config, weights, ids, mask):
  """Returns the states [blocks + 1, batch, seq_len, size]; weights {PyTorch's name without "deberta.": array}."""
  count, epsilon, buckets = config["num_attention_heads"], config["layer_norm_eps"], config["position_buckets"]

  def norm(x, name):
    return _norm(x, epsilon, weights[f"{name}.LayerNorm.weight"], weights[f"{name}.LayerNorm.bias"])

  def dense(x, name):
    return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

  longest = config["max_relative_positions"]
  if longest < 1:
    longest = config["max_position_embeddings"]
  position, middle = np.arange(ids.shape[1]), buckets // 2
  distance = position[:, None] - position
  size = np.where(np.abs(distance) < middle, middle - 1, np.abs(distance))
  far = np.ceil(np.log(size / middle) / np.log((longest - 1) / middle) * (middle - 1)) + middle
  bucket = np.where(size <= middle, distance, far * np.sign(distance)).astype(int)
  by_query, by_key = (np.clip(signed + buckets, 0, 2 * buckets - 1) for signed in (bucket, -bucket))
  table = norm(weights["encoder.rel_embeddings.weight"], "encoder")
  x = norm(weights["embeddings.word_embeddings.weight"][ids], "embeddings")
  states = [x]
  for i in range(config["num_hidden_layers"]):
    block = f"encoder.layer.{i}"
    names = [f"{block}.attention.self.{name}_proj" for name in ("query", "key", "value")]
    q, k, v = (_heads(dense(x, name), count) for name in names)
    near_q, near_k = (_heads(dense(table, name), count) for name in names[:2])
    shape = (*q.shape[:2], *distance.shape)
    logits = q @ k.swapaxes(-1, -2)
    logits += np.take_along_axis(q @ near_k.swapaxes(-1, -2), np.broadcast_to(by_query, shape), -1)
    seen_by_key = np.take_along_axis(k @ near_q.swapaxes(-1, -2), np.broadcast_to(by_key, shape), -1)
    logits = (logits + seen_by_key.swapaxes(-1, -2)) / math.sqrt(3 * q.shape[-1])
    logits = np.where(mask[:, None, None, :] > 0, logits, -np.inf)
    context = (_softmax(logits) @ v).swapaxes(1, 2).reshape(x.shape)
    x = norm(dense(context, f"{block}.attention.output.dense") + x, f"{block}.attention.output")
    inner = _gelu(dense(x, f"{block}.intermediate.dense"))
    x = norm(dense(inner, f"{block}.output.dense") + x, f"{block}.output")
    states.append(x)
  return np.stack(states)
