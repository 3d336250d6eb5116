"""Tests of bert.py and folder.py: values against NumPy, and damaged folders."""

import gzip
import hashlib
import json
import shutil

import numpy as np
import pytest
import tensorflow as tf
from safetensors import safe_open
from safetensors.numpy import save_file

from bert_flow_tf.encoder.settings import EncoderSettings
from bert_flow_tf.encoder.source import find
from bert_flow_tf.errors import EncoderError
from tests.encoder import tiny
from tests.encoder.tiny import load_bert
from tests.testing import shared

IDS = np.array([[2, 8, 10, 12, 3], [2, 11, 3, 0, 0]], np.int32)
MASK = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]], np.int32)
SAVED = "model.safetensors"


@pytest.mark.parametrize("kind", ["pt", "tf", "h5", "shards"])
def test_forward_is_bert_in_numpy(tmp_path, kind):
  weights = tiny.random_weights()
  bert = load_bert(tiny.save_tiny(tmp_path, weights, kind=kind))
  if kind == "shards":
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 3
  assert (tmp_path / "tf_model.h5").exists() == (kind == "h5")
  states, pooled = bert(tf.constant(IDS), tf.constant(MASK))
  expected, expected_pooled = tiny.numpy_bert(weights, IDS, MASK)
  assert len(states) == len(expected) == 4
  for state, reference in zip(states, expected, strict=True):
    np.testing.assert_allclose(state[MASK == 1], reference[MASK == 1], atol=2e-5)
  np.testing.assert_allclose(pooled, expected_pooled, atol=2e-5)


def test_checksum_depends_on_weights_alone(tmp_path):
  first = load_bert(tiny.save_tiny(tmp_path / "a"))
  assert load_bert(tmp_path / "a").weights_checksum == first.weights_checksum
  assert load_bert(tiny.save_tiny(tmp_path / "b", kind="h5")).weights_checksum == first.weights_checksum
  weights = tiny.random_weights()
  weights["bert.encoder.layer.1.output.dense.bias"][3] += 1e-6
  assert load_bert(tiny.save_tiny(tmp_path / "c", weights)).weights_checksum != first.weights_checksum


def test_heads_are_ignored_silently_and_a_missing_pooler_is_known(tmp_path, capfd):
  folder = tiny.save_tiny(tmp_path, tiny.random_weights(pooler=False, head=True))
  bert = load_bert(folder)
  assert not bert.has_pooler
  assert bert(tf.constant(IDS), tf.constant(MASK))[1] is None
  assert load_bert(folder).weights_checksum == bert.weights_checksum  # no random weight takes part
  assert not any("pooler" in weight.name for weight in bert.model.weights)
  printed = "".join(capfd.readouterr())
  assert "cls.predictions" not in printed and "newly initialized" not in printed


def test_checkpoint_of_a_bare_model_without_prefix(tmp_path):
  weights = tiny.random_weights()
  bare = {name.removeprefix("bert."): value for name, value in weights.items()}
  _, pooled = load_bert(tiny.save_tiny(tmp_path, bare))(tf.constant(IDS), tf.constant(MASK))
  np.testing.assert_allclose(pooled, tiny.numpy_bert(weights, IDS, MASK)[1], atol=2e-5)


def test_float16_weights_load_exactly_as_float32(tmp_path):
  halves = {name: value.astype(np.float16) for name, value in tiny.random_weights().items()}
  bert = load_bert(tiny.save_tiny(tmp_path / "half", halves, {**tiny.CONFIG, "torch_dtype": "float16"}))
  singles = {name: value.astype(np.float32) for name, value in halves.items()}
  assert all(weight.dtype == tf.float32 for weight in bert.model.weights)
  assert bert.weights_checksum == load_bert(tiny.save_tiny(tmp_path / "single", singles)).weights_checksum


def test_packaged_mini_has_float16_weights_and_a_card_that_names_its_corpus():
  folder, corpus = find(EncoderSettings()).folder, shared("text/corpus.txt.gz")
  with safe_open(folder / SAVED, "numpy") as weights:
    assert weights.metadata() == {"format": "pt"}
    assert {weights.get_tensor(name).dtype for name in weights.keys()} == {np.dtype(np.float16)}  # noqa: SIM118
  assert sum(path.stat().st_size for path in folder.iterdir()) < 12e6
  card = (folder / "README.md").read_text()
  with gzip.open(corpus) as text:
    assert hashlib.sha256(text.read().rstrip(b"\n") + b"\n").hexdigest() in card
  assert "Apache-2.0" in card


def test_frozen(tmp_path):
  bert = load_bert(tiny.save_tiny(tmp_path))
  assert bert.model.trainable_variables == []
  ids, mask = tf.constant(IDS), tf.constant(MASK)
  off = [bert(ids, mask)[0][-1].numpy() for _ in range(2)]
  on = [bert(ids, mask, dropout_seed=tf.constant([7, seed]))[0][-1].numpy() for seed in (1, 2, 1)]
  np.testing.assert_array_equal(off[0], off[1])
  np.testing.assert_array_equal(on[0], on[2])
  assert not np.allclose(on[0], on[1]) and not np.allclose(on[0], off[0])


@pytest.mark.parametrize("length", [3, 16, np.int64(5)])
def test_max_seq_length_in_range(tmp_path, length):
  load_bert(tiny.save_tiny(tmp_path)).check_max_seq_length(length)


def test_max_seq_length_out_of_range(tmp_path):
  bert = load_bert(tiny.save_tiny(tmp_path))
  for length in (17, 2, 0, -1, 64.0, "64", True):
    with pytest.raises(EncoderError) as error:
      bert.check_max_seq_length(length)
    assert error.value.argument == "max_seq_length"


def remove(name):
  return lambda folder: (folder / name).unlink()


def write(name, content):
  return lambda folder: (folder / name).write_bytes(content)


def cut(name, keep=0.6):
  def damage(folder):
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[: int(len(content) * keep)])

  return damage


def config(**changes):
  """Overwrites values of config.json; a value of None drops the key."""

  def damage(folder):
    values = {**tiny.CONFIG, **changes}
    (folder / "config.json").write_text(json.dumps({k: v for k, v in values.items() if v is not None}))

  return damage


def weights(change):
  def damage(folder):
    tensors = tiny.random_weights()
    change(tensors)
    save_file(tensors, folder / SAVED, metadata={"format": "pt"})

  return damage


def only_pytorch(folder):
  (folder / SAVED).rename(folder / "pytorch_model.bin")


def drop_shard(folder):
  sorted(folder.glob("model-*.safetensors"))[1].unlink()


# {case: (kind of the folder, damage, part of the message that names the file or setting)}
DAMAGED = {
  "no config": ("pt", remove("config.json"), "no config.json"),
  "config truncated": ("pt", cut("config.json"), "config.json: "),
  "config not text": ("pt", write("config.json", b"\xff\xfe\x00"), "config.json: "),
  "config a list": ("pt", write("config.json", b"[]"), "model_type"),
  "another model": ("pt", config(model_type="roberta"), "model_type .*'roberta'"),
  "no model type": ("pt", config(model_type=None), "model_type"),
  "no heads": ("pt", config(num_attention_heads=None), "num_attention_heads"),
  "odd heads": ("pt", config(num_attention_heads=5), "attention heads"),
  "unknown activation": ("pt", config(hidden_act="gulu"), "gulu"),
  "relative positions": ("pt", config(position_embedding_type="relative_key"), "position_embedding_type"),
  "decoder": ("pt", config(is_decoder=True), "is_decoder"),
  "no vocabulary": ("pt", remove("vocab.txt"), "no vocab.txt"),
  "vocabulary too large": ("pt", write("vocab.txt", b"x\n" * 25), "vocab.txt: .* 24 .* 25"),
  "no weights": ("pt", remove(SAVED), "no weights"),
  "PyTorch weights": ("pt", only_pytorch, "pytorch_model.bin, .*save_pretrained"),
  "weights truncated": ("pt", cut(SAVED), "model.safetensors .*SafetensorError"),
  "weights empty": ("pt", write(SAVED, b""), "model.safetensors .*SafetensorError"),
  "LFS pointer": ("pt", write(SAVED, b"version https://git-lfs.github.com/spec/v1\n"), "run git lfs pull"),
  "more blocks": ("pt", config(num_hidden_layers=4), "lacks 16 weights .* bert.encoder.layer.3"),
  "fewer blocks": ("pt", config(num_hidden_layers=2), "holds 16 weights .* bert.encoder.layer.2"),
  "larger table": ("pt", config(vocab_size=30), r"word_embeddings.*\(30, 12\), got \(24, 12\)"),
  "other width": ("pt", config(hidden_size=24), "52 weights"),
  "a weight missing": (
    "pt",
    weights(lambda tensors: tensors.pop("bert.encoder.layer.1.attention.self.key.bias")),
    "lacks 1 weights .* bert.encoder.layer.1.attention.self.key.bias",
  ),
  "NaN": (
    "pt",
    weights(lambda tensors: tensors["bert.embeddings.LayerNorm.bias"].__setitem__(2, np.nan)),
    "NaN or infinity in bert/embeddings/LayerNorm",
  ),
  "h5 truncated": ("h5", cut("tf_model.h5"), "tf_model.h5 .*truncated file"),
  "h5 more blocks": ("h5", config(num_hidden_layers=4), "lacks 16 weights"),
  "h5 fewer blocks": ("h5", config(num_hidden_layers=2), "holds 16 weights"),
  "h5 larger table": ("h5", config(vocab_size=30), r"\(30, 12\), got \(24, 12\)"),
  "tf fewer blocks": ("tf", config(num_hidden_layers=2), "holds 16 weights"),
  "tf more blocks": ("tf", config(num_hidden_layers=4), "lacks 16 weights"),
  "shard missing": ("shards", drop_shard, "model.safetensors.index.json .* model-00002"),
  "shard index truncated": ("shards", cut("model.safetensors.index.json"), "model.safetensors.index.json: "),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
  """Returns an intact folder of each kind; the tests damage copies."""
  return {kind: tiny.save_tiny(tmp_path_factory.mktemp(kind), kind=kind) for kind in ("pt", "tf", "h5", "shards")}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_folder_is_an_error_of_one_line(folders, tmp_path, name):
  kind, damage, expected = DAMAGED[name]
  shutil.copytree(folders[kind], tmp_path, dirs_exist_ok=True)
  damage(tmp_path)
  with pytest.raises(EncoderError, match=expected) as error:
    load_bert(tmp_path)
  message = str(error.value)
  assert str(tmp_path) in message and "\n" not in message and len(message) < 600


def test_a_vocabulary_that_was_cut_off_is_named(tmp_path, caplog):
  folder = tiny.save_tiny(tmp_path / "tiny")
  lines = tiny.VOCABULARY + [f"word{i}" for i in range(tiny.CONFIG["vocab_size"] - len(tiny.VOCABULARY))]
  for count, warned in ((24, False), (22, False), (12, True)):
    (folder / "vocab.txt").write_text("\n".join(lines[:count]) + "\n")
    with caplog.at_level("WARNING"):
      load_bert(str(folder))
    assert (f"has {count} word pieces for 24 word embeddings" in caplog.text) == warned
  (folder / "vocab.txt").write_text("\n".join(lines[:3]) + "\n")  # an eighth
  with pytest.raises(EncoderError, match="3 word pieces for 24 word embeddings"):
    load_bert(str(folder))
