"""Commands whose steps need no TensorFlow do not import it: by OpenVINO, by static encoders, by linear calibrations."""

import pytest

from bert_flow_tf import SentenceModel
from bert_flow_tf.corpus.job import EmbeddingJob, JobSettings
from bert_flow_tf.corpus.models import embedder_of
from bert_flow_tf.vectors.inverted_lists import has_faiss
from bert_flow_tf.vectors.sentence_index import index_vectors
from tests.encoder import tiny
from tests.testing import finished_python, openvino_or_skip

TEXTS = ["a dog", "a cat b", "dogs . cats a b", "mask a dog", "b b b cat", "dog dog", "cats", "a b . dog"]
CODE = (
  "import sys\nfrom run_scripts import bert_flow\nsys.argv[0] = 'bert-flow'\ntry:\n  bert_flow.main()\nfinally:\n"
  "  found = {'tensorflow', 'keras', 'tf_keras', 'transformers', 'sklearn'} & {*sys.modules}\n"
  "  assert not found, found\n"
)


def lines_of(*arguments):
  """Returns the lines that a command prints, and those that it logs, without the time."""
  done = finished_python("-c", CODE, *arguments)
  return done.stdout.splitlines(), [line.split(" ", 1)[-1] for line in done.stderr.splitlines()]


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory):
  """Returns the folder of a whitening of a tiny encoder by OpenVINO."""
  openvino_or_skip()
  folder = tmp_path_factory.mktemp("model")
  model = SentenceModel.from_pretrained(str(tiny.save_tiny(folder / "tiny")), engine="openvino")
  model.fit(TEXTS, "whitening-3").save(folder / "whitening")
  return folder / "whitening"


def test_a_search_by_a_saved_index(model_folder, tmp_path):
  model = SentenceModel.load(model_folder)
  (tmp_path / "texts.txt").write_text("\n".join(TEXTS))
  vectors = str(tmp_path / "vectors")
  job = EmbeddingJob(JobSettings(input=(str(tmp_path / "texts.txt"),), output_dir=vectors))
  job.run(embedder_of(model, str(model_folder)), 8, {})
  if has_faiss():
    index_vectors(vectors)
  printed, logged = lines_of("search", f"--vectors={vectors}", "a cat b", "--top_k=1")
  assert printed == ["1.000000\t2"]
  assert not [line for line in logged if "absl" in line]  # OpenVINO's import removes absl's handler


def test_scores_by_a_calibration_that_is_fitted(model_folder, tmp_path):
  path = tmp_path / "pairs.tsv"
  path.write_text("".join(f"{a}\t{b}\n" for a, b in zip(TEXTS, TEXTS[::-1], strict=True)))
  arguments = [f"--model={model_folder.parent / 'tiny'}", "--calibration=soft-whitening+characters"]
  printed, _ = lines_of("score", path, *arguments, "--engine=openvino")
  expected = SentenceModel.from_pretrained(arguments[0].partition("=")[2])
  expected.fit((TEXTS, TEXTS[::-1]), "soft-whitening+characters")
  scores = [float(line.split("\t")[2]) for line in printed]
  assert scores == pytest.approx(expected.similarity(TEXTS, TEXTS[::-1]).tolist(), abs=1e-5)


@pytest.mark.parametrize("command", ["dedupe", "eval"])
def test_static_encoders(command, tmp_path):
  path = tmp_path / "pairs.tsv"
  path.write_text("sentence1\tsentence2\tscore\na dog\tthe dog\t5\na cat\ta boat\t1\nrain\tsnow\t2\nred wine\tsun\t0\n")
  arguments = ["--dry_run", "--column=sentence1"] if command == "dedupe" else ["--model=static:mini"]
  _, logged = lines_of(command, path, *arguments)
  assert any("kept" in line or "static:mini" in line for line in logged)


def test_a_table_of_vectors(tmp_path):
  SentenceModel.from_pretrained("static:mini").fit(TEXTS, "whitening-3").save(tmp_path / "whitening")
  arguments = [f"--flow_folder={tmp_path / 'whitening'}", "--format=model2vec", f"--export_dir={tmp_path / 'table'}"]
  printed, _ = lines_of("export", *arguments)
  assert printed[0].startswith(str(tmp_path / "table"))
