"""The table of a served model's signatures, without TensorFlow: export, clients, warm-up, docs and tests read it."""

import dataclasses
from typing import Any

import numpy as np

from bert_flow_tf.encoder.checkpoints.declared import DOCUMENT, QUERY


@dataclasses.dataclass(frozen=True)
class Tensor:
  """An input or output of a signature."""

  dtype: str  # "string", "int32", "int64" or "float32"
  # "n" is the number of rows of a request, "seq_len" the number of tokens; "dim" and "output_dim" are the dimensions of
  # an embedding before and after the calibration, "latent_dim" the dimensions of a flow.
  axes: tuple[str, ...]
  # An input's value for one row: text, a serialized tf.Example as bytes, ids, or a number for every element of the row.
  example: Any = None

  @property
  def is_source(self) -> bool:
    """True for an input that is text, or an embedding of another program."""
    return isinstance(self.example, str) or self.axes[1:] == ("dim",)

  def shape(self, sizes: dict[str, int]) -> list[int | None]:
    """Returns the shape, with None for every axis that is not in `sizes`."""
    return list(map(sizes.get, self.axes))

  def example_rows(self, n: int, sizes: dict[str, int]) -> np.ndarray:
    """Returns the example n times: an array [n, ...], of bytes objects for text."""
    if self.dtype == "string":
      example = self.example
      if isinstance(example, str):
        example = example.encode()
      return np.array([example] * n, object)
    shape = [n]
    for axis in self.axes[1:]:
      shape.append(sizes.get(axis) or len(self.example))
    return np.broadcast_to(np.array(self.example, self.dtype), shape)


@dataclasses.dataclass(frozen=True)
class Signature:
  """A function of a served model; `needs_flow`, `needs_roles`: whether only a model with a flow, or roles, has it."""

  name: str
  meaning: str
  inputs: dict[str, Tensor]  # names do not end in `_bytes`, which means base64 to the REST interface
  outputs: dict[str, Tensor]
  needs_flow: bool = False
  needs_roles: bool = False  # of texts, by their prompts or by a calibration that was fitted with queries
  at_once: bool = False  # whether all rows of a request are computed at once, which bounds their number

  def example_inputs(self, n: int, sizes: dict[str, int]) -> dict[str, np.ndarray]:
    """Returns the inputs of a request of n rows: {name: array [n, ...]}."""
    return {name: tensor.example_rows(n, sizes) for name, tensor in self.inputs.items()}

  def describe(self, sizes: dict[str, int]) -> dict:
    """Returns JSON values: meaning, and [dtype, shape] of every input and output, -1 for an axis of any size."""
    described: dict[str, dict[str, list]] = {"inputs": {}, "outputs": {}}
    for key, tensors in (("inputs", self.inputs), ("outputs", self.outputs)):
      for name, tensor in tensors.items():
        described[key][name] = [tensor.dtype, [sizes.get(axis, -1) for axis in tensor.axes]]
    return {"meaning": self.meaning, **described}


TEXT_FEATURE = "text"  # of a tf.Example
_TEXT = Tensor("string", ("n",), "A man is playing a guitar.")
# The same text as the text feature of a serialized tf.Example.
_EXAMPLE = Tensor("string", ("n",), b"\n(\n&\n\x04text\x12\x1e\n\x1c\n\x1aA man is playing a guitar.")
_EMBEDDING = Tensor("float32", ("n", "output_dim"))
_POOLED = Tensor("float32", ("n", "dim"))
_NUMBER = Tensor("float32", ("n",))

_VECTORS = Tensor("float32", ("n", "dim"), 0.0)
_LENGTHS = Tensor("int32", ("n",), 2)
_INVERSE = Signature(
  "inverse",
  "latent of the flow, not normalized -> embedding before calibration",
  {"latent": Tensor("float32", ("n", "latent_dim"), 0.0)},
  {"pooled": Tensor("float32", ("n", "latent_dim"))},
  needs_flow=True,
)


def name_of_role(role: str) -> str:
  """Returns the name of the signature that embeds texts of a role."""
  return f"embed_{role}"


def _of_role(role: str, meaning: str, name: str, tensor: Tensor) -> Signature:
  return Signature(name_of_role(role), meaning, {name: tensor}, {"embedding": _EMBEDDING}, needs_roles=True)


def _log_prob(meaning: str, inputs: dict[str, Tensor]) -> Signature:
  return Signature("log_prob", meaning, inputs, {"bits_per_dim": _NUMBER, "nats": _NUMBER}, needs_flow=True)


def _by_name(*signatures: Signature) -> dict[str, Signature]:
  return {signature.name: signature for signature in signatures}


SIGNATURES = _by_name(
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
    {"ids": Tensor("int32", ("n", "seq_len"), (2, 3)), "lengths": _LENGTHS},
    {"embedding": _EMBEDDING},
  ),
  Signature(
    "embed_ids_fixed",
    "embed_ids in rows of max_seq_length, by operations that TensorFlow Lite has",
    {"ids": Tensor("int32", ("n", "max_seq_length"), 2), "lengths": _LENGTHS},
    {"embedding": _EMBEDDING},
    at_once=True,
  ),
  Signature(
    "embed_examples",
    "serialized tf.Example with a feature `text` -> calibrated embedding",
    {"examples": _EXAMPLE},
    {"embedding": _EMBEDDING},
  ),
  _of_role(QUERY, "text of a query -> calibrated embedding", "text", _TEXT),
  _of_role(DOCUMENT, "text of a document that is searched -> calibrated embedding", "text", _TEXT),
  _log_prob(
    "text -> log-density of its embedding under the flow: -log2 p / dim (the loss), and log p in nats", {"text": _TEXT}
  ),
  _INVERSE,
)
# Signatures of a calibration that is served without an encoder.
VECTOR_SIGNATURES = _by_name(
  Signature("serving_default", "embedding -> calibrated embedding", {"vectors": _VECTORS}, {"embedding": _EMBEDDING}),
  _of_role(QUERY, "embedding of a query -> calibrated embedding", "vectors", _VECTORS),
  _log_prob(
    "embedding -> its log-density under the flow, as -log2 p / dim and as log p in nats", {"vectors": _VECTORS}
  ),
  _INVERSE,
)
# The one function of files for other engines: of an encoder, and of a calibration alone.
IDS_SIGNATURES = _by_name(
  Signature(
    "embed",
    "token ids, [CLS] and [SEP] included, and 1 for tokens, 0 for the padding behind them -> calibrated embedding",
    {
      "input_ids": Tensor("int64", ("n", "seq_len"), (2, 3)),
      "attention_mask": Tensor("int64", ("n", "seq_len"), (1, 1)),
    },
    {"embedding": _EMBEDDING},
  )
)
VECTOR_FILE_SIGNATURES = _by_name(
  Signature("embed", "embedding -> calibrated embedding", {"vectors": _VECTORS}, {"embedding": _EMBEDDING})
)


def signatures_of(
  table: dict[str, Signature], has_flow: bool, takes_ids: bool = True, takes_text: bool = True, has_roles: bool = False
) -> dict[str, Signature]:
  """Returns the signatures of a table that a model has, with a flow or not, whose encoder takes ids, text or both.

  `has_roles`: whether queries and documents have embeddings of their own.
  """
  signatures = {}
  for name, signature in table.items():
    needs_ids = "ids" in signature.inputs
    needs_text = any(tensor.dtype == "string" for tensor in signature.inputs.values())
    is_possible = (takes_ids or not needs_ids) and (takes_text or not needs_text)
    is_possible &= (has_flow or not signature.needs_flow) and (has_roles or not signature.needs_roles)
    if is_possible:
      signatures[name] = signature
  return signatures
