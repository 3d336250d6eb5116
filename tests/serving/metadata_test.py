"""serving/metadata.py and signatures.py: descriptions of the served model in an export and docs/serving.md."""

import base64
import json
import shutil

import numpy as np
import pytest
import tensorflow as tf

from bert_flow_tf import SentenceModel
from bert_flow_tf.calibration.saving import load_calibration
from bert_flow_tf.io import checksums
from bert_flow_tf.io.files import read_json
from bert_flow_tf.report import result_files
from bert_flow_tf.serving import golden, metadata
from bert_flow_tf.serving.served_model import ServedModel
from bert_flow_tf.serving.settings import METADATA
from bert_flow_tf.serving.signatures import SIGNATURES
from tests.runs import small_runs
from tests.runs.small_runs import write_pairs
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


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
  """Returns the folder of a run with two calibrations, and a warning about one of them."""
  folder = tmp_path_factory.mktemp("ran")
  fit_in(folder / "run", write_pairs(folder / "pairs.tsv"), low_dim=None)
  return folder / "run"


def fit_in(folder, file, **arguments):
  small_runs.fit(folder, file, "mean", "sn", **arguments).evaluate({})
  change(folder, lambda results: results["warnings"].update({"mean": [SENTENCE]}))


def change(folder, change_values):
  """Changes the values of a results.json."""
  values = checksums.verified(read_json(folder / "results.json"))
  change_values(values)
  result_files.write_results(folder, values)


def test_the_card_has_the_scores_of_its_own_calibration_alone(ran):
  results = json.loads((ran / "results.json").read_text())
  for name in ("mean", "sn"):
    about = metadata.read_origin(ran / name, SentenceModel.load(ran / name))
    assert about == metadata.read_origin(ran / name) and about["origin"]["task"] == "custom"
    of_run = results["results"]["test"]
    assert about["figures"] == {"test": {"without_flow": of_run["without_flow"], name: of_run[name]}}
    sizes = results["fitted_on"]
    assert f"without labels on {sizes['sentences']} sentences and 0 queries;" in metadata.card({**CONTENTS, **about})
    assert about["warnings"] == [SENTENCE] * (name == "mean")
    card = metadata.card({**CONTENTS, **about})
    assert (f"**Warning**: {SENTENCE}." in card) == (name == "mean")
    assert "on custom, with embeddings of static:mini" in card
    lines = [line.split(":")[0] for line in card.splitlines() if line.startswith("- test, ")]
    matches = [f"- test, string match without an encoder ({name})" for name in about["controls"]["test"]]
    assert lines == ["- test, uncalibrated", f"- test, {name}", *matches] and len(matches) == 2
  assert "fitted without labels;" in metadata.card(CONTENTS)


def test_another_model_gets_no_scores(ran, tmp_path, caplog):
  """One line of the log says what differs."""
  mine = SentenceModel.from_pretrained("static:mini").fit(["a dog", "two cats", "prices rose"], "mean")
  mine.save(ran / "mine")
  others = [
    (ran / "mine", None, "of which mean is the nearest: calibration_sha256"),
    (ran / "mean", SentenceModel.load(ran / "mean", max_seq_length=9, allow_other_encoder=True), "max_seq_length"),
    (ran / "mean", SentenceModel.load(ran / "mean", low_dim=64, allow_other_encoder=True), "low_dim none, now 64"),
    (ran / "mean", mine, "calibration_sha256"),
  ]
  for folder, model, reason in others:
    caplog.clear()
    assert metadata.read_origin(folder, model) == {}
    (record,) = [record for record in caplog.records if "gets no scores" in record.message]
    assert reason in record.message
  # A copy is the same model under another name, and keeps its warning.
  shutil.copytree(ran / "mean", ran / "copy")
  assert metadata.read_origin(ran / "copy")["warnings"] == [SENTENCE]
  for reason, change_values in (
    ("before 0.3", lambda results: results.pop("models")),
    ("no file of a run that fits", lambda results: results.pop("task")),
  ):
    caplog.clear()
    shutil.copytree(ran, tmp_path / reason)
    change(tmp_path / reason, change_values)
    assert metadata.read_origin(tmp_path / reason / "mean") == {} and reason in caplog.text


def test_a_calibration_alone_has_scores_unless_the_run_had_a_further_step(ran, tmp_path, caplog):
  about = metadata.read_origin(ran / "mean", load_calibration(ran / "mean"))
  assert list(about["figures"]["test"]) == ["without_flow", "mean"]
  fit_in(tmp_path / "run", write_pairs(tmp_path / "pairs.tsv"), low_dim=64)
  assert metadata.read_origin(tmp_path / "run/mean")["figures"]
  assert metadata.read_origin(tmp_path / "run/mean", load_calibration(tmp_path / "run/mean")) == {}
  assert "its scores are of low_dim=64, which a calibration alone does not have" in caplog.text


def test_accuracies_of_a_classifier_are_no_scores_of_the_model(ran, tmp_path):
  shutil.copytree(ran, tmp_path / "run")
  change(tmp_path / "run", lambda results: results.update(results={"test": {"accuracy": 50.0, "pairs": 4}}))
  about = metadata.read_origin(tmp_path / "run/mean")
  assert about["figures"] == {} and "Scores" not in metadata.card({**CONTENTS, **about}).split("Scores are not")[1]


def test_no_folder_of_this_machine_is_published(ran, tmp_path):
  published = {
    "/home/me/my pairs": "my pairs",
    "/a/b": "b",
    "static:/home/me/encoder": "static:encoder",
    "~/c.txt": "c.txt",
  }
  flags = {"paths": list(published), "urls": ["https://a.org/b/c", "s3://b/c"], "seed": 1}
  shutil.copytree(ran, tmp_path / "run")
  data = "9 pairs of /home/me/data/x.tsv, and/or more"
  change(tmp_path / "run", lambda results: results.update(data=data, flags=flags, warnings={}))
  about = metadata.read_origin(tmp_path / "run/mean")
  assert about["warnings"] == [] and metadata.read_origin(None) == {}
  origin = about["origin"]
  assert origin["folder"] == "run/mean"
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
    meaning += " (where texts have roles)" if signature.needs_roles else ""
    cells = [f"`{signature.name}`", meaning, tensors(signature.inputs), tensors(signature.outputs)]
    rows.append([*cells, f"`{json.dumps(example)}`".replace('"..."', "...")])
  return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def test_the_docs_have_the_table():
  assert markdown_table() in (REPO / "docs" / "serving.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("normalize", [False, True])
def test_the_agreement_of_the_whole_way(normalize):
  """A whitening magnifies what rounding does to the encoder's embeddings; the calibration alone agrees."""
  model = SentenceModel.from_pretrained("static:mini").fit([f"{word} dog {word}" for word in "abcdefgh"], "whitening")
  sentences = list(golden.SENTENCES)
  pooled = model.encode(sentences, calibrated=False)
  rounded = pooled + np.float32(5e-5) * np.abs(pooled).max() * np.sign(
    np.random.default_rng(0).normal(size=pooled.shape)
  )
  of_graph = model.transform(rounded)
  of_python = model.encode(sentences, normalize_embeddings=normalize)
  if normalize:
    of_graph = of_graph / np.linalg.norm(of_graph, axis=1, keepdims=True)
  answers = {"serving_default": {"outputs": {"embedding": of_graph}}, "embed_pooled": {"outputs": {"pooled": rounded}}}
  found = golden.compare(answers, ServedModel(model, normalize=normalize))
  expected = np.abs(of_graph - of_python).max() / np.abs(of_python).max()
  assert found["whole"] == pytest.approx(expected, rel=0.01) and expected > 1e-4
  assert found["pooled"] == pytest.approx(5e-5, rel=0.01) and found["calibrated"] < 1e-6


def test_the_summary_names_each_difference(tmp_path):
  """A version of 0.2 has no number of the whole way."""
  (tmp_path / METADATA).parent.mkdir()
  for agreement, expected in (
    ({"pooled": 2e-7, "calibrated": 0.0, "whole": 3e-5, "min_cosine": 1.0}, ", 3e-05 of both together"),
    ({"pooled": 2e-7, "calibrated": 0.0, "min_cosine": 1.0}, ""),
  ):
    (tmp_path / METADATA).write_text(json.dumps({**CONTENTS, "agreement_with_python": agreement}))
    line = metadata.summary(tmp_path)[2]
    assert line.partition("value: ")[2] == f"2e-07 of the encoder, 0 of the calibration{expected}"
