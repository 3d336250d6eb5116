"""harness/sentence_model.py and senteval.py: what other programs call, on a random tiny BERT."""

import numpy as np
import pytest

from bert_flow_tf import FlowConfig, Glow, SentenceEncoder, SentenceModel
from bert_flow_tf.calibration.spec import make_calibration
from bert_flow_tf.errors import CalibrationError, ConfigError, DataError, EncoderError
from bert_flow_tf.integrations import mteb_meta
from bert_flow_tf.integrations.senteval import SentEvalAdapter
from tests.encoder import tiny
from tests.testing import shared

SENTENCES = ["a dog.", "cats", "dog b dogs", "", "a b a b .", "dog", "cats b", "b . a", "dogs dogs", "mask", "[ ]", "a"]
ARGUMENTS = {"sentence_embedding_type": "avg-top-2", "max_seq_length": 8, "low_dim": 6}


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
  return SentenceEncoder.from_pretrained(str(tiny.save_tiny(tmp_path_factory.mktemp("tiny"))))


@pytest.fixture(scope="module")
def rows(encoder):
  return encoder.encode(SENTENCES, **ARGUMENTS)


@pytest.fixture(scope="module")
def whitening(encoder, rows):
  """Fitted on the sentences, with its encoder's identity."""
  calibration = make_calibration("whitening-3").fit(rows)
  calibration.encoder = encoder.identity(**ARGUMENTS)
  return calibration


@pytest.fixture(scope="module")
def model(encoder, whitening):
  return SentenceModel(encoder, whitening, **ARGUMENTS)


def test_embeddings_are_those_of_encoder_and_calibration(model, rows):
  """The whitening worked out here."""
  values, vectors = np.linalg.eigh(np.cov(rows.astype(np.float64).T))
  kernel = (vectors / np.sqrt(values))[:, ::-1][:, :3]
  expected = (rows - rows.mean(axis=0)) @ kernel
  found = model.encode(SENTENCES, 5, False, False)
  assert found.dtype == np.float32 and found.shape == (12, 3) == (12, model.get_sentence_embedding_dimension())
  np.testing.assert_allclose(np.abs(found), np.abs(expected), rtol=1e-3, atol=1e-3)  # a direction has no sign
  np.testing.assert_allclose(model.encode(SENTENCES[0]), found[0], atol=5e-4)
  assert model.encode("cats").shape == (3,) and model.encode([]).shape == (0, 3)
  np.testing.assert_allclose(model.encode_query(tuple(SENTENCES)), found, atol=5e-4)


def test_without_calibration(encoder, rows):
  model = SentenceModel(encoder, **ARGUMENTS)
  np.testing.assert_array_equal(model.encode(np.array(SENTENCES), batch_size=64), rows)
  assert model.get_embedding_dimension() == 6 and model.max_seq_length == 8 and model.name == encoder.name


def test_normalized(model):
  found, plain = model.encode(SENTENCES, normalize_embeddings=True), model.encode(SENTENCES)
  np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0, atol=1e-6)
  np.testing.assert_allclose(found * np.linalg.norm(plain, axis=1, keepdims=True), plain, atol=5e-4)


def test_similarities(model):
  a, b = model.encode(SENTENCES[:4]), model.encode(SENTENCES[4:8])
  cosines = [[u @ v / np.linalg.norm(u) / np.linalg.norm(v) for v in b.astype(float)] for u in a.astype(float)]
  np.testing.assert_allclose(model.similarity(a, b), cosines, atol=1e-6)
  np.testing.assert_allclose(model.similarity_pairwise(a, b), np.diag(cosines), atol=1e-6)
  zero = np.zeros_like(a)
  assert not model.similarity(a, zero).any() and not model.similarity_pairwise(zero, b).any()


def test_batches_as_mteb_gives_them(model):
  """With the arguments of mteb 2, and those of mteb 1."""
  expected = model.encode(SENTENCES)
  batches = ({"text": SENTENCES[start : start + 5], "id": [0] * 5} for start in range(0, 12, 5))
  found = model.encode(batches, task_metadata=object(), hf_split="test", hf_subset="default", prompt_type=None)
  np.testing.assert_allclose(found, expected, atol=5e-4)
  found = model.encode([{"title": "", "text": sentence} for sentence in SENTENCES])
  np.testing.assert_allclose(found, expected, atol=5e-4)
  found = model.encode(SENTENCES, task_name="STS", prompt_type="query", batch_size=4, convert_to_tensor=False)
  np.testing.assert_allclose(found, expected, atol=5e-4)


@pytest.mark.parametrize(
  ("sentences", "arguments", "error", "match"),
  [
    (["a", None], {}, DataError, "sentence 1 .*found NoneType"),
    (3, {}, DataError, "found int, expected a sentence or a list"),
    (b"a", {}, DataError, "sentence 0 .*found int"),
    ([{"image": []}], {}, DataError, "batch 0 .*has image, expected text"),
    (["a"], {"normalise_embeddings": True}, ConfigError, "unknown argument normalise_embeddings"),
    (["a"], {"precision": "int8"}, ConfigError, "precision is 'int8', expected None or 'float32'"),
    (["a"], {"output_value": "token_embeddings"}, ConfigError, "output_value is 'token_embeddings'"),
    (["a"], {"prompt": "query: "}, ConfigError, "prompt is 'query: '"),
    (["a"], {"truncate_dim": 2}, ConfigError, "truncate_dim is 2"),
    (["a"], {"convert_to_numpy": False}, ConfigError, "convert_to_numpy is False"),
    (["a"], {"batch_size": 0}, ConfigError, "batch_size=0"),
  ],
)
def test_what_is_refused(model, sentences, arguments, error, match):
  with pytest.raises(error, match=match):
    model.encode(sentences, **arguments)


def test_calibration_of_other_embeddings_is_refused(encoder, whitening):
  other = {**ARGUMENTS, "max_seq_length": 9}
  with pytest.raises(EncoderError, match="max_seq_length 8 there, 9 here"):
    SentenceModel(encoder, whitening, **other)
  assert SentenceModel(encoder, whitening, **other, allow_other_encoder=True).encode("a").shape == (3,)
  with pytest.raises(EncoderError, match="whitening-3 takes embeddings of 6 dimensions, found 12"):
    SentenceModel(encoder, whitening, **{**ARGUMENTS, "low_dim": None}, allow_other_encoder=True)
  with pytest.raises(ConfigError, match="calibration is str, expected a Calibration"):
    SentenceModel(encoder, "flow", **ARGUMENTS)


def test_the_precision_is_the_calibrations(encoder, tmp_path):
  half = SentenceEncoder.from_pretrained(encoder.bert.folder, precision="bfloat16")
  rows = half.encode(SENTENCES, show_progress=False, **ARGUMENTS)
  calibration = make_calibration("whitening-3").fit(rows)
  calibration.encoder = half.identity(**ARGUMENTS)
  calibration.save(tmp_path / "half")
  assert SentenceModel.from_pretrained(calibration=tmp_path / "half").encoder.precision == "bfloat16"
  with pytest.raises(EncoderError, match="bfloat16 there, float32 here"):
    SentenceModel.from_pretrained(calibration=tmp_path / "half", precision="float32")


def test_from_pretrained(encoder, whitening, rows, model, tmp_path):
  """The folder alone says encoder, pooling and length."""
  whitening.save(tmp_path / "whitening")
  found = SentenceModel.from_pretrained(calibration=tmp_path / "whitening")
  assert found.identity == model.identity
  np.testing.assert_array_equal(found.encode(SENTENCES), model.encode(SENTENCES))
  flow = Glow(FlowConfig(n_levels=1, depth=1, coupling_width=8), 6, seed=1)
  flow.initialize(rows)
  flow.save(tmp_path / "flow")  # says nothing of its encoder
  found = SentenceModel.from_pretrained(encoder.name, tmp_path / "flow", **ARGUMENTS)
  np.testing.assert_allclose(found.encode(SENTENCES), flow.transform(rows), atol=5e-4)
  assert found.name == f"{encoder.name}+flow"
  with pytest.raises(CalibrationError, match=r"no calibration\.json in it"):
    SentenceModel.from_pretrained(calibration=tmp_path)


def test_damaged_identity_is_refused(whitening, tmp_path):
  whitening.save(tmp_path / "damaged")
  text = (tmp_path / "damaged/calibration.json").read_text().replace('"max_seq_length": 8', '"max_seq_length": "x"')
  (tmp_path / "damaged/calibration.json").write_text(text)
  with pytest.raises(EncoderError, match="its encoder has max_seq_length 'x'"):
    SentenceModel.from_pretrained(calibration=tmp_path / "damaged")


def test_revision_for_mteb_follows_from_what_decides(encoder, whitening, rows, model):
  """Alike for equal models, other for another calibration, pooling or length."""
  again = make_calibration("whitening-3").fit(rows)
  again.encoder = whitening.encoder
  assert mteb_meta.revision(SentenceModel(encoder, again, **ARGUMENTS)) == mteb_meta.revision(model)
  other = make_calibration("whitening-3").fit(rows[1:])
  models = [model, SentenceModel(encoder, other, **ARGUMENTS), SentenceModel(encoder, **ARGUMENTS)]
  models.append(SentenceModel(encoder, **{**ARGUMENTS, "max_seq_length": 9}))
  assert len({mteb_meta.revision(one) for one in models}) == 4


@pytest.mark.slow
def test_mteb_itself():
  """The figure that mteb finds on STS-B is SciPy's from the same embeddings."""
  pytest.importorskip("mteb", reason="mteb is not installed: its protocol alone was tested")
  import datasets
  import mteb
  from mteb.abstasks.sts import AbsTaskSTS
  from mteb.abstasks.task_metadata import TaskMetadata
  from mteb.models import EncoderProtocol
  from scipy import stats

  from bert_flow_tf import load_task

  pairs = load_task("STS-B", shared("data")).splits["test"]
  about = {field: None for field, value in TaskMetadata.model_fields.items() if not value.is_required()}
  about = dict.fromkeys(
    about.keys() & {"date", "domains", "task_subtypes", "license", "annotations_creators", "dialect"}
  )

  class OurTask(AbsTaskSTS):
    metadata = TaskMetadata(
      **about,
      name="OurTask",
      description="STS-B from files",
      dataset={"path": "none/none", "revision": "none"},
      type="STS",
      category="t2t",
      modalities=["text"],
      eval_splits=["test"],
      eval_langs=["eng-Latn"],
      main_score="cosine_spearman",
    )

    def load_data(self, **unused):
      columns = {"sentence1": pairs.sentences_a, "sentence2": pairs.sentences_b, "score": pairs.scores.tolist()}
      self.dataset = datasets.DatasetDict(test=datasets.Dataset.from_dict(columns))
      self.data_loaded = True

  model = SentenceModel.from_pretrained("mini")
  assert isinstance(model, EncoderProtocol)
  found = mteb.evaluate(model, [OurTask()], cache=None, show_progress_bar=False).task_results[0].scores["test"][0]
  cosines = model.similarity_pairwise(model.encode(pairs.sentences_a), model.encode(pairs.sentences_b))
  assert found["cosine_spearman"] == pytest.approx(stats.spearmanr(cosines, pairs.scores)[0], abs=1e-4)
  assert found["spearman"] == pytest.approx(found["cosine_spearman"], abs=1e-4)


def test_batcher_and_prepare(model):
  """Words are joined again, what is empty becomes "."; prepare asks once for each distinct sentence."""
  asked = []

  def encode(sentences):
    asked.append(list(sentences))
    return model.encode(sentences)

  adapter = SentEvalAdapter(encode)
  words = [["a", "dog."], [], ["cats"], [b"a", b"dog."], "cats", ["  "]]
  expected = model.encode(["a dog.", ".", "cats", "a dog.", "cats", "."])
  np.testing.assert_allclose(adapter.batcher({}, words), expected, atol=5e-4)
  assert asked.pop() == ["a dog.", ".", "cats", "a dog.", "cats", "."]
  assert adapter.prepare({}, np.array(words, dtype=object)) is None
  found = adapter.batcher({}, words)
  np.testing.assert_allclose(found, expected, atol=5e-4)
  assert asked == [["a dog.", ".", "cats"]] and found.dtype == np.float32
  adapter.batcher({}, [["b"]])  # never prepared
  assert asked[1:] == [["b"]]
  adapter.prepare({}, [])
  assert adapter.batcher({}, [["b"]]).shape == (1, 3)
