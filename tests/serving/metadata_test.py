"""serving/metadata.py and signatures.py: descriptions of the served model in an export and docs/serving.md."""

import base64
import json

import tensorflow as tf

from bert_flow_tf.serving import metadata
from bert_flow_tf.serving.signatures import SIGNATURES
from tests.testing import REPO

SENTENCE = "the flow makes Spearman worse on test: -2.00, 95% interval -3.00 to -1.00; do without it"
CONTENTS = {
  "model_name": "bert_flow",
  "version": 1,
  "encoder": {"name": "mini", "pooled": "avg", "max_seq_length": 64},
  "calibration": {"name": "flow", "dim": 256, "output_dim": 256},
  "normalize": False,
  "created": "today",
  "versions": {"bert_flow_tf": "1"},
  "signatures": {},
}


def test_the_card_warns_of_its_own_calibration_alone(tmp_path):
  run = {"task": "STS-B", "results": {"test": {"with_flow": {"spearman": 80.0}}}, "warnings": {"flow": [SENTENCE]}}
  (tmp_path / "results.json").write_text(json.dumps(run))
  for name, warned in (("flow", True), ("whitening", False)):
    about = metadata.read_origin(tmp_path / name)
    assert about["origin"]["task"] == "STS-B" and about["warnings"] == [SENTENCE] * warned
    card = metadata.card({**CONTENTS, **about})
    assert (f"**Warning**: {SENTENCE}." in card) == warned


def test_no_folder_of_this_machine_is_published(tmp_path):
  published = {
    "/home/me/my pairs": "my pairs",
    "/a/b": "b",
    "static:/home/me/encoder": "static:encoder",
    "~/c.txt": "c.txt",
  }
  flags = {"paths": list(published), "urls": ["https://a.org/b/c", "s3://b/c"], "seed": 1}
  run = {"task": "custom", "data": "9 pairs of /home/me/data/x.tsv, and/or more", "flags": flags, "results": {}}
  (tmp_path / "results.json").write_text(json.dumps(run))
  about = metadata.read_origin(tmp_path / "flow")
  assert about["warnings"] == [] and metadata.read_origin(None) == {}
  origin = about["origin"]
  assert origin["folder"] == f"{tmp_path.name}/flow"
  assert origin["data"] == "9 pairs of x.tsv, and/or more"
  assert origin["flags"] == {**flags, "paths": list(published.values())}


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
