"""bert.py and folder.py: values against NumPy, and every way in which a folder can be wrong."""

import gzip
import hashlib
import json

import numpy as np
import pytest
import tensorflow as tf
from safetensors import safe_open
from safetensors.numpy import save_file

import bert_flow_tf
from bert_flow_tf.encoder.bert import load_bert
from bert_flow_tf.encoder.hub import resolve
from bert_flow_tf.errors import EncoderError
from tests.encoder import tiny
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


def test_head_is_left_out_quietly_and_a_missing_pooler_noticed(tmp_path, capfd):
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


def test_packaged_mini_is_in_half_precision_and_of_the_cards_corpus():
  folder, corpus = resolve("mini"), shared("text/corpus.txt.gz")
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
  for length in (17, 2, 0, -1, 64.0, "64", None, True):
    with pytest.raises(EncoderError, match=r"max_seq_length=.*: expected .* to 16"):
      bert.check_max_seq_length(length)


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


HOSTILE = {
  "no config": (remove("config.json"), "found no config.json, expected"),
  "config cut": (cut("config.json"), "config.json: not readable as JSON"),
  "config not text": (write("config.json", b"\xff\xfe\x00"), "config.json: not readable as JSON"),
  "config a list": (write("config.json", b"[]"), "found model_type 'list', expected \"bert\""),
  "another model": (config(model_type="roberta"), "found model_type 'roberta', expected \"bert\""),
  "no model type": (config(model_type=None), 'found model_type None, expected "bert"'),
  "no heads": (
    config(num_attention_heads=None),
    "found num_attention_heads = None, expected a positive number",
  ),
  "layers without end": (
    config(num_hidden_layers=10**9),
    "found num_hidden_layers = 1000000000, expected",
  ),
  "a table without end": (config(vocab_size=10**12), "holds .* bytes, config.json describes a BERT of 48000"),
  "activation is a list": (config(hidden_act=["gelu"]), "found hidden_act = ..gelu.., expected one of gelu, "),
  "a dropout of 1": (config(hidden_dropout_prob=1), "found hidden_dropout_prob = 1, expected a number from 0"),
  "token types a word": (config(type_vocab_size="x"), "found type_vocab_size = 'x', expected a positive number"),
  "config deep": (write("config.json", b"[" * 100000), "config.json: not readable as JSON"),
  "odd heads": (
    config(num_attention_heads=5),
    "found hidden_size = 12 and num_attention_heads = 5, expected a multiple",
  ),
  "unknown activation": (config(hidden_act="gulu"), "found hidden_act = 'gulu', expected one of gelu, "),
  "relative positions": (
    config(position_embedding_type="relative_key"),
    "position_embedding_type = 'relative_key'",
  ),
  "decoder": (config(is_decoder=True), "found is_decoder = True, expected False"),
  "no vocabulary": (remove("vocab.txt"), "found no vocab.txt, expected BERT's word pieces"),
  "vocabulary too large": (write("vocab.txt", b"x\n" * 25), "found 25 word pieces, expected at most .* = 24"),
  "no weights": (remove(SAVED), "found no weights, expected model.safetensors or tf_model.h5"),
  "PyTorch weights": (only_pytorch, "found only pytorch_model.bin, which needs PyTorch, .*save_pretrained"),
  "weights cut": (cut(SAVED), "cannot load model.safetensors, .*SafetensorError"),
  "weights empty": (write(SAVED, b""), "cannot load model.safetensors, .*SafetensorError"),
  "weights garbage": (write(SAVED, b"\x07" * 999), "cannot load model.safetensors, .*SafetensorError"),
  "LFS pointer": (write(SAVED, b"version https://git-lfs.github.com/spec/v1\n"), "run git lfs pull"),
  "more blocks": (config(num_hidden_layers=4), "lacks 16 weight.* first bert.encoder.layer.3"),
  "fewer blocks": (config(num_hidden_layers=2), "holds 16 weight.* first bert.encoder.layer.2"),
  "larger table": (
    config(vocab_size=30),
    r"first bert.embeddings.word_embeddings.*\(24, 12\), expected \(30, 12\)",
  ),
  "other width": (
    config(hidden_size=24),
    r"52 weight\(s\) of model.safetensors differ in shape from config.json",
  ),
  "a weight missing": (
    weights(lambda tensors: tensors.pop("bert.encoder.layer.1.attention.self.key.bias")),
    "lacks 1 weight.* first bert.encoder.layer.1.attention.self.key.bias",
  ),
  "NaN": (
    weights(lambda tensors: tensors["bert.embeddings.LayerNorm.bias"].__setitem__(2, np.nan)),
    "model.safetensors holds NaN or infinity in bert/embeddings/LayerNorm",
  ),
}
HOSTILE_OTHER = {
  "h5 cut": ("h5", cut("tf_model.h5"), "cannot load tf_model.h5, .*truncated file"),
  "h5 garbage": ("h5", write("tf_model.h5", b"no hdf5"), "cannot load tf_model.h5, .*file signature"),
  "h5 more blocks": ("h5", config(num_hidden_layers=4), "lacks 16 weight"),
  "h5 fewer blocks": ("h5", config(num_hidden_layers=2), "holds 16 weight"),
  "h5 larger table": ("h5", config(vocab_size=30), r"found \(24, 12\), expected \(30, 12\)"),
  "tf fewer blocks": ("tf", config(num_hidden_layers=2), "holds 16 weight"),
  "tf more blocks": ("tf", config(num_hidden_layers=4), "lacks 16 weight"),
  "shard missing": (
    "shards",
    drop_shard,
    "model.safetensors.index.json lists 1 file.s. that are not there, first model-00002",
  ),
  "shard index of numbers": (
    "shards",
    write("model.safetensors.index.json", b'{"weight_map": {"a": 1}}'),
    "index.json: found no list of files",
  ),
  "shard index cut": (
    "shards",
    cut("model.safetensors.index.json"),
    r"model.safetensors.index.json: found no list of files",
  ),
}
CASES = {name: ("pt", *case) for name, case in HOSTILE.items()} | HOSTILE_OTHER


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
  """One sound folder of each kind; the tests damage copies."""
  return {kind: tiny.save_tiny(tmp_path_factory.mktemp(kind), kind=kind) for kind in ("pt", "tf", "h5", "shards")}


@pytest.mark.parametrize("name", CASES)
def test_hostile_folder_is_refused_in_one_sentence(sound, tmp_path, name):
  kind, damage, expected = CASES[name]
  for path in sound[kind].iterdir():
    (tmp_path / path.name).write_bytes(path.read_bytes())
  damage(tmp_path)
  with pytest.raises(EncoderError, match=expected) as caught:
    load_bert(tmp_path)
  message = str(caught.value)
  assert str(tmp_path) in message and "\n" not in message and len(message) < 600
  assert isinstance(caught.value, bert_flow_tf.BertFlowError)
