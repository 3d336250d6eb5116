"""The signatures of a served model: all that names them reads this table. No TensorFlow here, for clients over REST."""

import dataclasses
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class Tensor:
  """An input or output of a signature."""

  dtype: str  # "string", "int32" or "float32"
  # "n" is the number of rows of a request, "seq_len" the number of tokens; "dim" and "output_dim" are the dimensions of
  # an embedding before and after the calibration, "latent_dim" those of a flow.
  axes: tuple[str, ...]
  example: Any = None  # an input's value for one row; a number stands for every element of the row

  def shape(self, sizes: dict[str, int]) -> list[int | None]:
    """Returns the shape, with None for every axis that is not in `sizes`."""
    return [sizes.get(axis) for axis in self.axes]

  def example_rows(self, n: int, sizes: dict[str, int]) -> np.ndarray:
    """Returns the example n times: an array [n, ...], of bytes objects for text."""
    if self.dtype == "string":
      return np.array([self.example.encode()] * n, object)
    shape = [n]
    for axis in self.axes[1:]:
      shape.append(sizes.get(axis) or len(self.example))
    return np.broadcast_to(np.array(self.example, self.dtype), shape)


@dataclasses.dataclass(frozen=True)
class Signature:
  """A function of a served model; `needs_flow` if only a model with a flow has it."""

  name: str
  meaning: str
  inputs: dict[str, Tensor]  # names do not end in `_bytes`, which means base64 to the REST interface
  outputs: dict[str, Tensor]
  needs_flow: bool = False

  def example_inputs(self, n: int, sizes: dict[str, int]) -> dict[str, np.ndarray]:
    """Returns the inputs of a request of n rows: {name: array [n, ...]}."""
    return {name: tensor.example_rows(n, sizes) for name, tensor in self.inputs.items()}

  def describe(self, sizes: dict[str, int]) -> dict:
    """Returns JSON values: meaning, and [dtype, shape] of every input and output, -1 for an axis of any size."""
    described: dict[str, Any] = {"meaning": self.meaning, "inputs": {}, "outputs": {}}
    for key, tensors in (("inputs", self.inputs), ("outputs", self.outputs)):
      for name, tensor in tensors.items():
        described[key][name] = [tensor.dtype, [sizes.get(axis, -1) for axis in tensor.axes]]
    return described


_TEXT = Tensor("string", ("n",), "A man is playing a guitar.")
_EMBEDDING = Tensor("float32", ("n", "output_dim"))
_POOLED = Tensor("float32", ("n", "dim"))
_NUMBER = Tensor("float32", ("n",))

_TABLE = (
  Signature("serving_default", "text -> calibrated embedding", {"text": _TEXT}, {"embedding": _EMBEDDING}),
  Signature(
    "similarity",
    "two texts -> cosine of their calibrated embeddings",
    {"text_a": _TEXT, "text_b": Tensor("string", ("n",), "Someone plays music.")},
    {"score": _NUMBER},
  ),
  Signature(
    "embed_pooled", "text -> the encoder's embedding, before calibration", {"text": _TEXT}, {"pooled": _POOLED}
  ),
  Signature(
    "embed_ids",
    "token ids, [CLS] and [SEP] included, and the number of tokens of each row, 1 to seq_len -> calibrated embedding",
    # [CLS] and [SEP] of `mini`; every vocabulary has these ids.
    {"ids": Tensor("int32", ("n", "seq_len"), (2, 3)), "lengths": Tensor("int32", ("n",), 2)},
    {"embedding": _EMBEDDING},
  ),
  Signature(
    "log_prob",
    "text -> log-density of its embedding under the flow: -log2 p / dim (the loss), and log p in nats",
    {"text": _TEXT},
    {"bits_per_dim": _NUMBER, "nats": _NUMBER},
    needs_flow=True,
  ),
  Signature(
    "inverse",
    "latent of the flow, not normalized -> embedding before calibration, or the mix of its views",
    {"latent": Tensor("float32", ("n", "latent_dim"), 0.0)},
    {"pooled": Tensor("float32", ("n", "latent_dim"))},
    needs_flow=True,
  ),
)
SIGNATURES = {signature.name: signature for signature in _TABLE}


def signatures_of(has_flow: bool) -> list[Signature]:
  """Returns the signatures of a model with or without a flow."""
  return [signature for signature in SIGNATURES.values() if has_flow or not signature.needs_flow]
