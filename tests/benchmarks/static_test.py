"""benchmarks/static.py: where model2vec is absent, and the table of a comparison."""

import sys

import pytest

from benchmarks import static
from bert_flow_tf.encoder.sentence_encoder import SentenceEncoder
from tests.encoder.tiny import save_tiny

SENTENCES = ["a dog", "a cat", "a dog .", "b", "dogs a a b . dog cat", "a cat cats ."]


@pytest.mark.slow
def test_without_model2vec_it_says_how_to_install_it(tmp_path):
  python = tmp_path / "python"
  python.write_text(
    f"#!{sys.executable}\nimport runpy, sys\n"
    "sys.modules['model2vec'] = None\n"  # it cannot be imported
    "sys.argv = sys.argv[1:]\nrunpy.run_path(sys.argv[0], run_name='__main__')\n"
  )
  python.chmod(0o755)
  encoder = SentenceEncoder.from_pretrained(f"static:{save_tiny(tmp_path / 'bert')}")
  result = static.run(encoder, SENTENCES, 16, 2, str(python))
  assert "pip install" in result["skipped"] and "model2vec" in result["skipped"]
  assert result["ours_over_model2vec"] is None and list(result["sentences_per_second"]) == [static.OURS]
  assert result["sentences"] == 6 and result["dim"] == 12 and len(result["seconds"][static.OURS]) == 2
  assert "model2vec is skipped" in static.to_markdown(result)


def test_table_of_a_comparison():
  result = {
    "model": "static:mini",
    "sentences": 1000,
    "dim": 256,
    "threads": 2,
    "versions": {static.OURS: "TensorFlow 2", static.MODEL2VEC: "model2vec 0.10.0"},
    "skipped": None,
    "sentences_per_second": {static.OURS: 45678.9, static.MODEL2VEC: 30000.0},
    "sentences_per_cpu_second": {static.OURS: 34567.8, static.MODEL2VEC: 29999.9},
    "ours_over_model2vec": 1.5,
  }
  text = static.to_markdown(result)
  assert "| ours (TensorFlow 2) | 45,679 |  | >= 20000: met | 34,568 |" in text
  assert "| model2vec (model2vec 0.10.0) | 30,000 | 1.50 | >= 1: met | 30,000 |" in text
