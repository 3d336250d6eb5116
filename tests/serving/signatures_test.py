"""The table of signatures."""

import base64
import json

import numpy as np
import pytest
import tensorflow as tf

from bert_flow_tf.serving.signatures import SIGNATURES, VECTOR_SIGNATURES
from tests.testing import REPO

SIZES = {"dim": 4, "output_dim": 2, "latent_dim": 3, "max_seq_length": 5}


@pytest.mark.parametrize("signature", [*SIGNATURES.values(), *VECTOR_SIGNATURES.values()])
def test_a_row_keeps_the_rules_of_the_server(signature):
  tensors = {**signature.inputs, **signature.outputs}
  assert all(tensor.axes[0] == "n" and tensor.dtype in ("string", "int32", "float32") for tensor in tensors.values())
  assert not [name for name in tensors if name.endswith("_bytes")]
  for name, value in signature.example_inputs(3, SIZES).items():
    assert len(value) == 3 and value.dtype == np.dtype({"string": "O"}.get(tensors[name].dtype, tensors[name].dtype))
  assert json.loads(json.dumps(signature.describe(SIZES)))["meaning"] == signature.meaning


def test_the_example_of_examples():
  text = tf.io.parse_single_example(
    SIGNATURES["embed_examples"].inputs["examples"].example, {"text": tf.io.FixedLenFeature([], tf.string)}
  )
  assert text["text"].numpy().decode() == SIGNATURES["serving_default"].inputs["text"].example


def example_in_json(tensor):
  """Returns the example of a row in the format of the REST interface, with "..." for all but two equal numbers."""
  if isinstance(tensor.example, bytes):
    return {"b64": base64.b64encode(tensor.example).decode()}
  if len(tensor.axes) > 1 and not isinstance(tensor.example, tuple):
    return [tensor.example, "...", tensor.example]
  return tensor.example


def markdown_table() -> str:
  """Returns the table of docs/serving.md."""

  def tensors(table: dict) -> str:
    cells = [f"`{name}` {tensor.dtype} [{', '.join(tensor.axes)}]" for name, tensor in table.items()]
    return ", ".join(cells)

  rows = [["Signature", "Meaning", "Inputs", "Outputs", "Example of a row"], ["---"] * 5]
  for signature in SIGNATURES.values():
    example = {name: example_in_json(tensor) for name, tensor in signature.inputs.items()}
    meaning = signature.meaning + (" (flow only)" if signature.needs_flow else "")
    cells = [f"`{signature.name}`", meaning, tensors(signature.inputs), tensors(signature.outputs)]
    rows.append([*cells, f"`{json.dumps(example)}`".replace('"..."', "...")])
  return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def test_the_docs_have_the_table():
  assert markdown_table() in (REPO / "docs" / "serving.md").read_text(encoding="utf-8")
