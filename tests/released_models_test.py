"""Models that a released version saved: they give the vectors of the release, or are rejected by its name."""

import importlib.util
import json
import shutil

import numpy as np
import pytest

from bert_flow_tf import SentenceModel
from bert_flow_tf.calibration.saving import calibration_sha256, file_sha256
from bert_flow_tf.corpus import EmbeddingJob, JobSettings
from bert_flow_tf.corpus.models import embedder_of
from bert_flow_tf.errors import CalibrationError, ConfigError, EncoderError
from bert_flow_tf.vectors.model_of_vectors import load_model_of
from bert_flow_tf.vectors.sentence_index import SentenceIndex, index_vectors
from bert_flow_tf.vectors.vector_folder import VectorFolder
from tests.encoder import tiny
from tests.testing import REPO, edit_json, openvino_or_skip, rejected

pytestmark = pytest.mark.packages

FOLDERS = sorted(path.parent for path in (REPO / "tests/golden/models").glob("*/*/*.npz"))


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
  return tiny.save_tiny(tmp_path_factory.mktemp("tiny"))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: f"{folder.parent.name}-{folder.name}")
def test_a_saved_model_gives_the_vectors_of_its_release(folder, bert):
  released = np.load(folder.parent / "vectors.npz")
  # All but two were fitted on the random BERT itself.
  encoders = {"static-sn": f"static:{bert}", "word-vectors-mean": f"glove:{folder.parent / 'word_vectors.txt'}"}
  name = encoders.get(folder.name, str(bert))
  if folder.name == "openvino":
    openvino_or_skip()
  # The mix of 0.1.0 concatenated two embeddings.
  if folder.parent.name == "0.1.0" and folder.name.endswith("-of-mix"):
    with rejected(CalibrationError, "folder", match="release 0.1.0"):
      SentenceModel.load(folder, model=name)
    return
  model = SentenceModel.load(folder, model=name)
  if folder.name == "search":  # a document would be around another mean
    assert not np.allclose(model.encode("a dog."), model.for_queries().encode("a dog."), atol=0.01)
    model = model.for_queries()
  sentences, expected = released["sentences"].tolist(), released[folder.name]
  # A whitening magnifies the rounding of float32; bfloat16 has steps of 0.004; int8 has 7 bits on some CPUs.
  tolerance = {"bfloat16": 0.02, "int8": 0.05}.get(model.encoder.precision, 0.003)
  np.testing.assert_allclose(model.encode(sentences), expected, atol=tolerance * np.abs(expected).max(), rtol=0)
  similarities = model.similarity(sentences, sentences[1:] + sentences[:1])
  np.testing.assert_allclose(similarities, released[f"{folder.name}/similarity"], atol=tolerance)


@pytest.mark.parametrize("name", ["flow", "soft-whitening-of-mix", "prompt"])
def test_openvino_gives_the_vectors_of_a_release(name, bert):
  openvino_or_skip()
  folder = REPO / "tests/golden/models/0.2.0"
  released = np.load(folder / "vectors.npz")
  found = SentenceModel.load(folder / name, model=str(bert), engine="openvino").encode(released["sentences"].tolist())
  np.testing.assert_allclose(found, released[name], atol=0.003 * np.abs(released[name]).max(), rtol=0)


def embed_as_release(model, calibration_folder, output):
  """Embeds the texts of a.txt beside the output, with a manifest as releases before 0.3 wrote it; returns the job."""
  settings = JobSettings(input=(str(output.parent / "a.txt"),), output_dir=str(output))
  EmbeddingJob(settings).run(embedder_of(model, str(calibration_folder)))
  path = output / "manifest.json"
  values = json.loads(path.read_text())["settings"]
  embedder = values["embedder"] | {"calibration_sha256": file_sha256(calibration_folder)}
  edit_json(path, settings=values | {"embedder": embedder}, sha256=None)
  return EmbeddingJob(settings)


def test_vectors_of_a_release_join_those_of_today(bert, tmp_path):
  """In a folder of both, in a comparison, in an index, and where the run is resumed, while the calibration is there."""
  folder = tmp_path / "whitening"
  shutil.copytree(REPO / "tests/golden/models/0.1.0/whitening-6", folder)
  model = SentenceModel.load(folder, model=str(bert))
  (tmp_path / "both").mkdir()
  (tmp_path / "both/a.txt").write_text("a man\na dog\n")
  job = embed_as_release(model, folder, tmp_path / "both/old")
  today = JobSettings(input=(str(tmp_path / "both/a.txt"),), output_dir=str(tmp_path / "both/new"))
  EmbeddingJob(today).run(embedder_of(model, str(folder)))
  vectors, *each = (VectorFolder.open(str(tmp_path / path)) for path in ("both", "both/old", "both/new"))
  assert [vectors.id_of(row) for row in range(4)] == ["new/1", "new/2", "old/1", "old/2"]
  each[0].check_against(each[1])
  each[1].check_against(each[0])
  if importlib.util.find_spec("faiss"):
    index_vectors(str(tmp_path / "both/old"), show_progress_bar=False)
    SentenceIndex.load(str(tmp_path / "both/old")).check_model(model)
  with rejected(ConfigError, "output_dir", match="calibration_sha256"):
    job.run(
      embedder_of(SentenceModel.load(REPO / "tests/golden/models/0.2.0/whitening-6", model=str(bert)), str(folder))
    )
  assert job.run(embedder_of(model, str(folder))).records == 0
  if importlib.util.find_spec("faiss"):  # the resumed run wrote today's manifest
    SentenceIndex.load(str(tmp_path / "both/old")).check_model(model)
  embed_as_release(model, folder, tmp_path / "both/old")
  shutil.rmtree(folder)
  with rejected(ConfigError, "vectors", match="different encoders or calibrations .calibration_sha256"):
    VectorFolder.open(str(tmp_path / "both"))


def test_vectors_of_a_release_are_of_the_saved_model(bert, tmp_path):
  """Releases wrote the checksum of the calibration's file, whose form has changed, into the manifest."""
  folder = REPO / "tests/golden/models/0.1.0/whitening-6"
  model = SentenceModel.load(folder, model=str(bert))
  assert file_sha256(folder) != calibration_sha256(folder) == model.steps_checksum
  (tmp_path / "a.txt").write_text("a man\na dog\n")
  embed_as_release(model, folder, tmp_path / "vectors")
  vectors = VectorFolder.open(str(tmp_path / "vectors"))
  found = load_model_of(vectors).encode(["a dog"])
  np.testing.assert_allclose(found / np.linalg.norm(found), vectors.rows.take(np.array([1])), atol=1e-3)
  # A model without a calibration is another one, in the same sentence.
  SentenceModel.load(REPO / "tests/golden/models/0.2.0/none", model=str(bert)).save(tmp_path / "none")
  with rejected(EncoderError, "vectors", match="another encoder or calibration"):
    load_model_of(vectors, calibration_folder=str(tmp_path / "none"))
