"""Folders of sentence-transformers are read with the pooling and length that they declare."""

import json

import numpy as np
import pytest

from bert_flow_tf import SentenceEncoder
from bert_flow_tf.encoder.checkpoints.files import Declared, read_declared
from bert_flow_tf.errors import EncoderError
from bert_flow_tf.model import SentenceModel
from tests.encoder import tiny
from tests.testing import rejected

TRANSFORMER, POOLING = "sentence_transformers.models.Transformer", "sentence_transformers.models.Pooling"
TEXTS = ["a b c", "b", "c a a b c b a"]


def declare(folder, pooling, modules=(("", TRANSFORMER), ("1_Pooling", POOLING)), length=7):
  """Writes the files of sentence-transformers next to a BERT's."""
  (folder / "1_Pooling").mkdir(exist_ok=True)
  modules = [{"idx": i, "name": str(i), "path": path, "type": kind} for i, (path, kind) in enumerate(modules)]
  (folder / "modules.json").write_text(json.dumps(modules))
  (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
  if length is not None:
    (folder / modules[0]["path"] / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": length}))


def modes(*on):
  """Returns the content of 1_Pooling/config.json with some modes on."""
  names = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken")
  return {"word_embedding_dimension": 8} | {f"pooling_mode_{name}": name in on for name in names}


@pytest.mark.parametrize(
  "pooling, ours",
  [
    (modes("mean_tokens"), "avg"),
    (modes("cls_token"), "cls-token"),
    (modes("max_tokens"), "max"),
    ({"pooling_mode": "mean"}, "avg"),
    ({"pooling_mode": ["cls"]}, "cls-token"),
  ],
)
def test_the_declared_pooling_equals_numpys(tmp_path, pooling, ours):
  weights = tiny.random_weights()
  declare(tiny.save_tiny(tmp_path, weights), pooling)
  encoder = SentenceEncoder.from_pretrained(str(tmp_path))
  expected = []
  for ids in encoder.tokenizer(TEXTS, 7):
    last = tiny.numpy_bert(weights, ids[np.newaxis], np.ones([1, len(ids)]))[0][-1][0]
    expected.append({"avg": last.mean(axis=0), "cls-token": last[0], "max": last.max(axis=0)}[ours])
  np.testing.assert_allclose(encoder.encode(TEXTS), expected, atol=2e-5)
  assert encoder.identity() == encoder.identity(ours, 7)
  assert encoder.fingerprint(TEXTS) == encoder.fingerprint(TEXTS, ours, 7)


def test_an_explicit_pooling_and_length_win_and_the_log_names_the_declared(tmp_path, caplog):
  plain = SentenceEncoder.from_pretrained(str(tiny.save_tiny(tmp_path / "plain"))).encode(TEXTS, "avg-first-last", 5)
  declare(tiny.save_tiny(tmp_path / "declared"), modes("lasttoken"))
  with caplog.at_level("INFO", logger="absl"):
    arguments = {"sentence_embedding_type": "avg-first-last", "max_seq_length": 5}
    model = SentenceModel.from_pretrained(str(tmp_path / "declared"), **arguments)
  assert "lasttoken" in caplog.text and "7 is declared" in caplog.text
  np.testing.assert_array_equal(model.encode(TEXTS, calibrated=False), plain)


def test_the_bert_may_lie_in_a_subfolder(tmp_path):
  tiny.save_tiny(tmp_path / "0_Transformer")
  declare(tmp_path, modes("mean_tokens"), (("0_Transformer", TRANSFORMER), ("1_Pooling", POOLING)))
  encoder = SentenceEncoder.from_pretrained(str(tmp_path))
  plain = SentenceEncoder.from_pretrained(str(tmp_path / "0_Transformer"))
  assert encoder.name == str(tmp_path)
  np.testing.assert_array_equal(encoder.encode(TEXTS), plain.encode(TEXTS, "avg", 7))


@pytest.mark.parametrize(
  ("pooling", "more", "declared"),
  [
    (modes("lasttoken"), (), "lasttoken"),
    (modes("weightedmean_tokens"), (), "weightedmean_tokens"),
    (modes("cls_token", "mean_tokens"), (), "cls_token and mean_tokens"),
    (modes(), (), "none"),
    (modes("mean_tokens"), (("2_Dense", "sentence_transformers.models.Dense"),), "Dense"),
  ],
)
def test_what_is_not_supported_is_rejected_unless_a_pooling_is_given(tmp_path, pooling, more, declared):
  declare(tiny.save_tiny(tmp_path), pooling, (("", TRANSFORMER), ("1_Pooling", POOLING), *more))
  encoder = SentenceEncoder.from_pretrained(str(tmp_path))
  with rejected(EncoderError, "sentence_embedding_type", match=f"modules.json .*{declared}"):
    encoder.encode(TEXTS)
  assert encoder.encode(TEXTS, "avg").shape == (3, encoder.hidden_size)


def test_normalize_is_harmless_and_no_pooling_is_rejected(tmp_path):
  normalize = ("2_Normalize", "sentence_transformers.models.Normalize")
  declare(tmp_path, modes("mean_tokens"), (("", TRANSFORMER), ("1_Pooling", POOLING), normalize), length=None)
  assert read_declared(tmp_path) == (Declared("avg", 64, str(tmp_path / "modules.json")), tmp_path)
  declare(tmp_path, modes("mean_tokens"), (("", TRANSFORMER), normalize))
  assert read_declared(tmp_path)[0].unsupported == "no pooling"


@pytest.mark.parametrize("length", ["7", 2, True, 1.5])
def test_damaged_length(tmp_path, length):
  declare(tmp_path, modes("mean_tokens"), length=length)
  with pytest.raises(EncoderError, match=r"sentence_bert_config\.json: max_seq_length"):
    read_declared(tmp_path)


def test_declared_lower_case_must_be_the_tokenizers(tmp_path):
  declare(tiny.save_tiny(tmp_path), modes("mean_tokens"))
  (tmp_path / "sentence_bert_config.json").write_text('{"do_lower_case": true}')
  SentenceEncoder.from_pretrained(str(tmp_path))
  (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false}')
  for name in (str(tmp_path), f"static:{tmp_path}"):
    with pytest.raises(EncoderError, match=r"sentence_bert_config\.json: do_lower_case"):
      SentenceEncoder.from_pretrained(name)


def test_a_length_beyond_the_positions_becomes_their_number(tmp_path):
  declare(tiny.save_tiny(tmp_path), modes("mean_tokens"), length=10_000)
  model = SentenceModel.from_pretrained(str(tmp_path))
  assert model.max_seq_length == model.encoder.bert.config.max_position_embeddings
