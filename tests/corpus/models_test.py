"""The versions of the packages that tokenize belong to a run: another version neither resumes it nor works for it."""

import importlib.metadata
import pickle

import pytest

from bert_flow_tf import SentenceEncoder, SentenceModel
from bert_flow_tf.corpus.job import EmbeddingJob, JobSettings
from bert_flow_tf.corpus.models import embedder_of
from bert_flow_tf.errors import ConfigError, EncoderError
from tests.encoder import tiny


@pytest.mark.parametrize("package", ["tokenizers", "transformers"])
def test_another_version_is_rejected(tmp_path, monkeypatch, package):
  (tmp_path / "corpus.txt").write_text("a dog\na cat\n")
  encoder = SentenceEncoder.from_pretrained(str(tiny.save_tiny(tmp_path / "model")))
  model = SentenceModel(encoder, max_seq_length=9)
  load = pickle.dumps(embedder_of(model).load)

  def run():
    settings = JobSettings(input=(str(tmp_path / "corpus.txt"),), output_dir=str(tmp_path / "out"))
    return EmbeddingJob(settings).run(embedder_of(model))

  assert (run().records, run().records) == (2, 0)
  installed = importlib.metadata.version
  monkeypatch.setattr(importlib.metadata, "version", lambda name: "9.8.7" if name == package else installed(name))
  with pytest.raises(ConfigError, match=f"{package}.*{installed(package)}.*, now .*9.8.7.*install") as raised:
    run()
  assert raised.value.argument == "output_dir"
  with pytest.raises(EncoderError, match=f"9.8.7.*{installed(package)}"):
    pickle.loads(load)()
