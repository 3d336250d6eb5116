"""Exports to ONNX: answers of a process with onnxruntime and tokenizers alone, and rejections."""

import importlib.util
import json

import pytest

from bert_flow_tf import SentenceEncoder, distill, export_model
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.serving import onnx_file, settings
from bert_flow_tf.serving.metadata import summary
from bert_flow_tf.serving.settings import CARD, METADATA
from tests.encoder import tiny
from tests.serving.small_models import OTHERS, SENTENCES, check_answers, close, fitted
from tests.testing import golden_encoder, rejected

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  """Returns the folder of a tiny BERT."""
  return tiny.save_tiny(tmp_path_factory.mktemp("tiny"))


def skip_without_packages():
  for package in ("tf2onnx", "onnx", "onnxruntime"):
    if importlib.util.find_spec(package) is None:
      pytest.skip(f"{package} is not installed: it is in the extra onnx")


def test_answers_of_a_process_with_onnxruntime_and_tokenizers_alone(folder, tmp_path):
  skip_without_packages()
  distill(SentenceEncoder.from_pretrained(str(folder)), tmp_path / "distilled")
  models = {
    "flow": fitted(folder, "flow"),
    "whitening unit": fitted(folder, "whitening-2", token_weights="idf"),
    "cls": fitted(folder, None, sentence_embedding_type="cls", low_dim=3),
    "mix": fitted(folder, "mean", sentence_embedding_type="mix", engine="openvino", truncate_dim=8),
    "characters": fitted(folder, "soft-whitening+characters-8"),
    "static": fitted(f"static:{folder}", "soft-whitening", max_seq_length=None),
    "table of model2vec": fitted(f"static:{tmp_path / 'distilled'}", "soft-whitening", max_seq_length=None),
  }
  if importlib.util.find_spec("openvino") is None:
    del models["mix"]
  for name in OTHERS:
    try:
      models[name] = fitted(golden_encoder(name), "soft-whitening", sentence_embedding_type="avg-top-2")
    except pytest.skip.Exception:
      continue
  folders = {}
  for name, model in models.items():
    folders[name] = export_model(model, tmp_path / name, format="onnx", normalize=name.endswith("unit"))
  check_answers(models, folders)
  version = folders["flow"]
  files = {path.relative_to(version).as_posix() for path in version.rglob("*") if path.is_file()}
  extra = {f"assets.extra/{name}" for name in ("README.md", "golden.json", "metadata.json")}
  assert files == {"model.onnx", "tokenizer.json", *extra}
  assert json.loads((version / METADATA).read_text())["versions"]["tf2onnx"]
  assert "onnxruntime.InferenceSession" in (version / CARD).read_text() and "docker" not in "".join(summary(version))
  assert summary(version)[2].endswith(" of both together")


def test_a_calibration_alone(folder, tmp_path):
  skip_without_packages()
  model = fitted(folder, "flow")
  vectors = model.encode(SENTENCES, calibrated=False)
  version = export_model(model.calibration, tmp_path, format="onnx")
  found = onnx_file.run_onnx(version / "model.onnx", {"vectors": vectors})["embedding"]
  close(found, model.calibration.transform(vectors))


def test_what_cannot_be_exported(folder, tmp_path, monkeypatch):
  model = fitted(folder, None)
  with monkeypatch.context() as patched:
    patched.setattr(settings.importlib.util, "find_spec", lambda name: None)
    with rejected(ConfigError, "format", match=r"tf2onnx and onnx and onnxruntime.*bert-flow-tf\[onnx\]"):
      export_model(model, tmp_path, format="onnx")
  monkeypatch.setattr(settings.importlib.util, "find_spec", lambda name: name)
  with rejected(ConfigError, "format", match="in float32"):
    export_model(fitted(folder, None, precision="int8"), tmp_path, format="onnx")
  monkeypatch.setattr(SentenceEncoder, "count_params", lambda encoder: 2**29)
  with rejected(ConfigError, "format", match="2 GB.*format=openvino"):
    export_model(model, tmp_path, format="onnx")
  assert not list(tmp_path.iterdir())
