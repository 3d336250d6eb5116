"""Tests of saving.py: a saved encoder is loaded unchanged; its weights have PyTorch's names."""

import json
import pickle
import shutil

import numpy as np
import pytest
import transformers
from safetensors import safe_open
from safetensors.numpy import load_file

from bert_flow_tf import SentenceEncoder, SentenceModel
from bert_flow_tf.encoder.saving import save_encoder
from bert_flow_tf.errors import EncoderError
from tests.encoder import tiny
from tests.encoder.checkpoints.declared_test import POOLING, TRANSFORMER, declare, modes
from tests.encoder.text.vocabulary_files_test import SENTENCEPIECE, model_of, sentencepiece_file
from tests.testing import golden_encoder

pytestmark = pytest.mark.packages

SENTENCES = ["a dog", "cats . a b", "Dog b"]


@pytest.mark.parametrize("pooler", [True, False])
def test_round_trip(tmp_path, pooler):
  weights = tiny.random_weights(pooler=pooler, head=True)
  encoder = SentenceEncoder.from_pretrained(tiny.save_tiny(tmp_path / "source", weights))
  save_encoder(encoder, tmp_path / "saved")
  assert sorted(p.name for p in tmp_path.iterdir()) == ["saved", "source"]
  loaded = SentenceEncoder.from_pretrained(tmp_path / "saved")
  assert loaded.weights_checksum == encoder.weights_checksum and loaded.has_pooler == pooler
  assert loaded.tokenizer.checksum == encoder.tokenizer.checksum
  np.testing.assert_array_equal(tiny.embed(loaded, SENTENCES), tiny.embed(encoder, SENTENCES))
  # Names and layout as in the source, without the head and the prefix of models that have a head.
  saved = load_file(tmp_path / "saved/model.safetensors")
  expected = {name.removeprefix("bert."): value for name, value in weights.items() if name.startswith("bert.")}
  assert set(saved) == set(expected)
  for name, value in expected.items():
    np.testing.assert_array_equal(saved[name], value, err_msg=name)
  with safe_open(tmp_path / "saved/model.safetensors", "np") as file:
    assert file.metadata() == {"format": "pt"}
  assert json.loads((tmp_path / "saved/config.json").read_text())["architectures"] == ["BertModel"]


def test_a_folder_that_transformers_saved_again(tmp_path):
  """transformers keeps our checksums in config.json, which do not fit the weights that it has trained."""
  save_encoder(SentenceEncoder.from_pretrained(tiny.save_tiny(tmp_path / "source")), tmp_path / "saved")
  trained = tiny.save_tiny(tmp_path / "trained", tiny.random_weights(seed=1))
  shutil.copy(trained / "model.safetensors", tmp_path / "saved")
  with pytest.raises(EncoderError, match=r"model\.safetensors"):
    SentenceEncoder.from_pretrained(tmp_path / "saved")
  transformers.BertConfig.from_pretrained(tmp_path / "saved").save_pretrained(tmp_path / "saved")
  loaded = SentenceEncoder.from_pretrained(tmp_path / "saved")
  assert loaded.weights_checksum == SentenceEncoder.from_pretrained(trained).weights_checksum
  save_encoder(loaded, tmp_path / "again")
  config = json.loads((tmp_path / "again/config.json").read_text())
  assert "model.safetensors" in config["sha256"] and "transformers_version" not in config


def test_case_that_a_name_decided_is_saved(tmp_path):
  """The new folder's name alone would decide otherwise."""
  source = tiny.save_tiny(tmp_path / "bert-cased")
  (source / "tokenizer_config.json").unlink()
  encoder = SentenceEncoder.from_pretrained(source)
  assert not encoder.tokenizer.do_lower_case
  save_encoder(encoder, tmp_path / "encoder")
  assert not SentenceEncoder.from_pretrained(tmp_path / "encoder").tokenizer.do_lower_case


@pytest.mark.parametrize("place", ["", "0_Transformer"])
def test_what_a_folder_declares_is_saved(tmp_path, place):
  tiny.save_tiny(tmp_path / "source" / place)
  modules = ((place, TRANSFORMER), ("pooling", POOLING), ("2_Normalize", "sentence_transformers.models.Normalize"))
  (tmp_path / "source/pooling").mkdir()
  prompts = {"prompts": {"query": "a ", "document": "b "}, "default_prompt_name": "document", "truncate_dim": 5}
  declare(tmp_path / "source", modes("cls_token"), modules, **prompts)
  shutil.copytree(tmp_path / "source/1_Pooling", tmp_path / "source/pooling", dirs_exist_ok=True)
  model = SentenceModel.from_pretrained(str(tmp_path / "source"))
  shutil.rmtree(tmp_path / "source")
  for _ in range(2):  # a folder that was saved here is replaced
    save_encoder(model.encoder, tmp_path / "saved")
    loaded = SentenceModel.from_pretrained(str(tmp_path / "saved"))
    expected = {**model.identity.to_dict(), "name": str(tmp_path / "saved")}
    assert loaded.identity.to_dict() == expected
    assert (expected["sentence_embedding_type"], expected["max_seq_length"], expected["prompt"]) == (
      "cls-token",
      7,
      "b ",
    )
    model = loaded
  (tmp_path / "saved/1_Pooling/config.json").write_text(json.dumps(modes("mean_tokens")))
  with pytest.raises(EncoderError, match=r"1_Pooling/config\.json does not have its checksum"):
    SentenceModel.from_pretrained(str(tmp_path / "saved"))


@pytest.mark.parametrize("name", ["xlm-roberta", "albert", "deberta-v2"])
def test_a_calibration_fits_the_saved_copy_of_a_file_of_sentencepiece(tmp_path, name):
  """`tokenizers` reads some scores of a tokenizer.json, and of a pickle, with another last digit."""
  source = shutil.copytree(golden_encoder(name), tmp_path / "source", copy_function=shutil.copyfile)
  (source / "tokenizer.json").unlink()
  (source / SENTENCEPIECE[name]).write_bytes(sentencepiece_file(name, model_of(name)["vocab"][:-8]))
  model = SentenceModel.from_pretrained(str(source), sentence_embedding_type="avg")
  model.fit(SENTENCES, calibration="mean")
  model.save(tmp_path / "fitted")
  expected = model.encode(SENTENCES)
  for copy in ("copy", "copy_of_copy"):
    save_encoder(model.encoder, tmp_path / copy)
    loaded = SentenceModel.load(tmp_path / "fitted", model=str(tmp_path / copy))
    model = pickle.loads(pickle.dumps(loaded))
    np.testing.assert_array_equal(model.encode(SENTENCES), expected)
  assert model.identity.tokenizer_sha256 == SentenceModel.load(tmp_path / "fitted").identity.tokenizer_sha256


def test_only_a_saved_encoder_is_replaced(tmp_path):
  encoder = SentenceEncoder.from_pretrained(tiny.save_tiny(tmp_path / "source"))
  folder = tmp_path / "saved"
  save_encoder(encoder, folder)
  (tmp_path / ".saved.writing").mkdir()  # what a killed process left
  embedding = encoder.bert.word_embeddings
  embedding.assign(embedding + 1.0)
  save_encoder(encoder, folder)
  assert SentenceEncoder.from_pretrained(folder).weights_checksum == encoder.weights_checksum
  files_of_encoder = ["config.json", "model.safetensors", "tokenizer_config.json", "vocab.txt"]
  assert sorted(p.name for p in folder.iterdir()) == files_of_encoder
  assert sorted(p.name for p in tmp_path.iterdir()) == ["saved", "source"]
  (folder / "notes.txt").write_text("mine")
  with pytest.raises(EncoderError, match=r"notes\.txt"):
    save_encoder(encoder, folder)
  assert (folder / "notes.txt").read_text() == "mine"


def test_weights_that_are_not_finite_are_not_saved(tmp_path):
  encoder = SentenceEncoder.from_pretrained(tiny.save_tiny(tmp_path / "source"))
  bias = encoder.bert.blocks[1].inner.bias
  bias.assign(bias * np.nan)
  with pytest.raises(EncoderError, match=r"encoder\.layer\.1\.intermediate\.dense\.bias"):
    save_encoder(encoder, tmp_path / "saved")
  assert [p.name for p in tmp_path.iterdir()] == ["source"]


@pytest.mark.parametrize(
  ("given", "unsaved"),
  [
    ({"hidden_act": "relu"}, {}),
    ({"max_input_chars_per_word": 2, "strip_accents": False}, {}),
    ({"prompt": "a "}, {"prompt": "a "}),
    ({"truncate_dim": 5}, {"truncate_dim": 5}),
    ({"token_weights": "idf", "number_weight": 0.5}, {"token_weights": "idf-0.75", "number_weight": 0.5}),
    ({"precision": "int8"}, {"precision": "int8"}),
    ({"query_prompt": "b "}, {"query_prompt": "b "}),
  ],
)
def test_settings_that_were_given_are_saved_or_named(tmp_path, caplog, given, unsaved):
  source = str(tiny.save_tiny(tmp_path / "source"))
  model = SentenceModel.from_pretrained(source, max_seq_length=8, **given)
  plain = SentenceModel.from_pretrained(source, max_seq_length=8)
  texts = ["a dog", "cats . a b", "Dog b", "dóg"]
  assert np.abs(model.encode_query(texts)[:, :5] - plain.encode_query(texts)[:, :5]).max() > 1e-3 or unsaved
  caplog.clear()
  save_encoder(model.encoder, tmp_path / "saved")
  assert ("does not hold" in caplog.text) == bool(unsaved)
  for name, value in unsaved.items():
    assert f"{name}={value!r}" in caplog.text
  again = SentenceModel.from_pretrained(str(tmp_path / "saved"), max_seq_length=8, **unsaved)
  np.testing.assert_allclose(again.encode_query(texts), model.encode_query(texts), atol=1e-6)
