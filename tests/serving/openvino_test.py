"""Exports to OpenVINO: answers of a process with openvino and tokenizers alone, files of a version, rejections."""

import json
import re

import numpy as np
import pytest

from bert_flow_tf import SentenceEncoder, SentenceModel, distill, export_model
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.serving import served_file
from bert_flow_tf.serving.metadata import summary
from bert_flow_tf.serving.settings import CARD, GOLDEN, METADATA, OVMS_CONFIG, ExportError
from tests.encoder import tiny
from tests.serving.small_models import OTHERS, SENTENCES, check_answers, close, fitted
from tests.testing import REPO, golden_encoder, openvino_or_skip, rejected

openvino_or_skip()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  """Returns the folder of a tiny BERT."""
  return tiny.save_tiny(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def models(folder, tmp_path_factory):
  """Returns {name: model}; keys that end in "unit" are exported with normalized embeddings."""
  table = tmp_path_factory.mktemp("table") / "distilled"
  distill(SentenceEncoder.from_pretrained(str(folder)), table)
  found = {
    "flow": fitted(folder, "flow"),
    "whitening unit": fitted(folder, "whitening-2", token_weights="idf", engine="openvino"),
    "cls": fitted(folder, None, sentence_embedding_type="cls", low_dim=3),
    "first token": fitted(folder, None, sentence_embedding_type="cls-token", truncate_dim=10),
    "mix": fitted(folder, "mean", sentence_embedding_type="mix", engine="openvino"),
    "characters": fitted(folder, "soft-whitening+characters-8"),
    "characters alone unit": fitted(folder, "characters-8"),
    "static unit": fitted(f"static:{folder}", "soft-whitening", max_seq_length=None),
    "table of model2vec": fitted(f"static:{table}", "soft-whitening", max_seq_length=None),
  }
  for name in OTHERS:
    try:
      found[name] = fitted(golden_encoder(name), "soft-whitening", sentence_embedding_type="avg-top-2")
    except pytest.skip.Exception:
      continue
  return found


@pytest.fixture(scope="module")
def folders(models, tmp_path_factory):
  """Returns {name: folder of the exported version}."""
  base = tmp_path_factory.mktemp("served")
  exported = {}
  for name, model in models.items():
    exported[name] = export_model(model, base / name, format="openvino", normalize=name.endswith("unit"))
  return exported


def test_answers_of_a_process_with_openvino_and_tokenizers_alone(models, folders):
  assert {"flow", "whitening unit"} <= set(folders)
  check_answers(models, folders)


def test_files_of_a_version(models, folders):
  folder, model = folders["whitening unit"], models["whitening unit"]
  files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
  extra = {f"assets.extra/{name}" for name in ("README.md", "config.json", "golden.json", "metadata.json")}
  assert files == {"model.xml", "model.bin", "tokenizer.json", *extra}
  metadata = json.loads((folder / METADATA).read_text())
  assert metadata["format"] == "openvino" and metadata["normalize"] is True
  assert metadata["encoder"]["weights_sha256"] == model.encoder.weights_checksum
  assert metadata["encoder"]["engine"] == "openvino" and metadata["versions"]["openvino"]
  assert set(metadata["sha256"]) == {*files, "values"} - {METADATA, CARD}
  assert metadata["signatures"]["embed"]["inputs"] == {
    "input_ids": ["int64", [-1, -1]],
    "attention_mask": ["int64", [-1, -1]],
  }
  rows = json.loads((folder / GOLDEN).read_text())["embed"]
  close(rows["outputs"]["embedding"], model.encode(rows["inputs"]["text"], normalize_embeddings=True))
  (config,) = json.loads((folder / OVMS_CONFIG).read_text())["model_config_list"]
  assert config["config"]["plugin_config"] == {"INFERENCE_PRECISION_HINT": "f32"}
  card = (folder / CARD).read_text()
  assert "openvino/model_server" in card and "TF Text" not in card and '"input_ids": input_ids' in card
  lines = summary(folder)
  assert "openvino/model_server" in lines[-1] and lines[1] == "signatures: embed"
  assert lines[2].endswith(f", {metadata['agreement_with_python']['whole']:.1g} of both together")
  # Without folders of this machine.
  assert str(REPO) not in (folder / "model.xml").read_text()


def test_a_calibration_alone(models, tmp_path):
  from bert_flow_tf.encoder.engines import openvino_export

  for name in ("flow", "whitening unit"):
    model = models[name]
    vectors = model.encode(SENTENCES, calibrated=False)
    folder = export_model(model.calibration, tmp_path / name, format="openvino")
    found = openvino_export.run_file(folder / "model.xml", {"vectors": vectors})["embedding"]
    close(found, model.calibration.transform(vectors))
    assert not (folder / "tokenizer.json").exists()
    assert list(json.loads((folder / GOLDEN).read_text())["embed"]["inputs"]) == ["vectors"]


def test_prompts_and_roles(folder, tmp_path):
  """A client puts the prompt before a text; queries have an export of their own."""
  encoder = SentenceEncoder.from_pretrained(str(folder), prompt="cat: ")
  version = export_model(SentenceModel(encoder, max_seq_length=12), tmp_path / "prompt", format="openvino")
  assert "'cat: '" in (version / CARD).read_text()
  model = fitted(folder, None).fit(SENTENCES, "sn", queries=[f"b {sentence}" for sentence in SENTENCES])
  version = export_model(model, tmp_path / "all", format="openvino")
  assert "for_queries" in json.dumps(json.loads((version / METADATA).read_text())["without"])
  of_queries = export_model(model.for_queries(), tmp_path / "queries", format="openvino")
  rows = json.loads((of_queries / GOLDEN).read_text())["embed"]
  close(rows["outputs"]["embedding"], model.encode_query(rows["inputs"]["text"]))


def test_trained_weights_are_exported_as_they_are(folder, tmp_path):
  encoder = SentenceEncoder.from_pretrained(str(folder))
  layer = encoder.as_layer(trainable=True)
  for weight in layer.trainable_variables:
    weight.assign(weight * 1.5)
  model = SentenceModel(encoder, max_seq_length=12)
  rows = json.loads((export_model(model, tmp_path, format="openvino") / GOLDEN).read_text())["embed"]
  close(rows["outputs"]["embedding"], model.encode(rows["inputs"]["text"]))


def test_a_tokenizer_that_tokenizers_does_not_have(folder, tmp_path, monkeypatch):
  model = fitted(folder, None)
  monkeypatch.setattr(type(model.encoder.tokenizer), "definition", lambda *arguments: None)
  version = export_model(model, tmp_path, format="openvino")
  assert (version / "vocab.txt").exists() and not (version / "tokenizer.json").exists()
  assert "tokenizer.json" in json.dumps(json.loads((version / METADATA).read_text())["without"])


def test_a_client_is_told_where_long_texts_are_cut(models, folders):
  name = "table of model2vec"
  without = json.loads((folders[name] / METADATA).read_text())["without"]
  (limit,) = re.findall(r"the first (\d+) characters", " ".join(without))
  text = "dog " * int(limit)
  tokenizer, length = models[name].encoder.tokenizer, models[name].max_seq_length
  (ids,) = tokenizer([text], length, warn=False)
  for characters, is_same in ((int(limit), True), (int(limit) - 4, False)):
    (cut,) = tokenizer([text[:characters]], length, warn=False)
    assert np.array_equal(cut, ids) == is_same
  assert "characters" not in (folders["static unit"] / METADATA).read_text()


def test_what_cannot_be_exported(folder, tmp_path, monkeypatch):
  base = tmp_path / "served"
  model = fitted(folder, None)
  with rejected(ConfigError, "format", match="saved_model, openvino"):
    export_model(model, base, format="tensorrt")
  with rejected(ConfigError, "format", match="engine=openvino"):
    export_model(fitted(folder, None, precision="int8"), base, format="openvino")
  with rejected(ConfigError, "precision"):
    export_model(fitted(folder, None, precision="bfloat16", engine="openvino"), base, format="openvino")
  glove = tmp_path / "words.txt"
  glove.write_text("a 1 2 3\ndog 2 1 0\n")
  with rejected(ConfigError, "format", match="use format=saved_model"):
    export_model(SentenceModel.from_pretrained(f"glove:{glove}"), base, format="openvino")
  with monkeypatch.context() as patched:
    patched.setenv("ONEDNN_MAX_CPU_ISA", "avx2")
    with rejected(ConfigError, "format", match="ONEDNN_MAX_CPU_ISA=avx2"):
      export_model(model, base, format="openvino")
  # OpenVINO's answers are compared before a version is written.
  answer = served_file.IdsFile.answer
  monkeypatch.setattr(served_file.IdsFile, "answer", lambda *arguments: [1.001 * part for part in answer(*arguments)])
  with pytest.raises(ExportError, match=r"differ from Python's by 0.001 .*not written"):
    export_model(model, base, format="openvino")
  assert not base.exists() or not list(base.iterdir())
