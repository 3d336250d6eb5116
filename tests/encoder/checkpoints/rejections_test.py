"""Folders of encoders that are damaged or of another model: each is an error of one line."""

import functools
import json
import shutil

import numpy as np
import pytest
from safetensors.numpy import save_file

from bert_flow_tf import SentenceEncoder
from bert_flow_tf.errors import EncoderError
from tests.encoder import tiny
from tests.encoder.checkpoints import tf1_files
from tests.testing import edit_json, shared

pytestmark = pytest.mark.packages

SAVED = "model.safetensors"
KEY = "bert/encoder/layer_1/attention/self/key/bias"
ROWS = "bert.embeddings.word_embeddings.weight"
PT_KEY = "bert.encoder.layer.1.attention.self.key.bias"
NAN = np.full(12, np.nan, np.float32)
DATA, INDEX = "bert_model.ckpt.data-00000-of-00001", "bert_model.ckpt.index"


def remove(name):
  return lambda folder: (folder / name).unlink()


def write(name, content):
  return lambda folder: (folder / name).write_bytes(content)


def cut(name, keep):
  """Keeps a number of bytes, or a share of them."""

  def damage(folder):
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[: int(len(content) * keep) if isinstance(keep, float) else keep])

  return damage


def flip(name):
  def damage(folder):
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 64
    (folder / name).write_bytes(content)

  return damage


def config(file="config.json", **changes):
  """Overwrites values of a configuration; a value of None drops the key."""

  return lambda folder: edit_json(folder / file, **changes)


def tf1_config(**changes):
  return config("bert_config.json", **changes)


def tokenizer_config(**changes):
  return config("tokenizer_config.json", **changes)


def with_value(name, value=None):
  """Replaces a weight of the checkpoint, or of the safetensors if it has PyTorch's name; without a value drops it."""

  def damage(folder):
    is_google = name.startswith("bert/")
    values = tf1_files.google_variables() if is_google else tiny.random_weights()
    values |= {name: value}
    values = {name: array for name, array in values.items() if array is not None}
    if is_google:
      tf1_files.write_quickly(folder / "bert_model.ckpt", values)
    else:
      save_file(values, folder / SAVED, metadata={"format": "pt"})

  return damage


def only_pytorch(folder):
  (folder / SAVED).rename(folder / "pytorch_model.bin")


def drop_shard(folder):
  sorted(folder.glob("model-*.safetensors"))[1].unlink()


def weight_map(file):
  return write("model.safetensors.index.json", json.dumps({"weight_map": {"x": file}}).encode())


def other_vocabulary(folder):
  (folder / "tokenizer.json").rename(folder / "vocab.txt")


def token_without_embedding(folder):
  content = json.loads((folder / "tokenizer.json").read_text())
  content["model"]["vocab"]["zzz"] = 2000
  (folder / "tokenizer.json").write_text(json.dumps(content))


def saved(name):
  return lambda folder: (folder / "config.json").rename(folder / name)


NO_ACTIVATION = json.dumps({**tiny.CONFIG, "hidden_act": None}).encode()
# {case: (kind of the folder, damage, part of the message that names the file, setting or variable)}
DAMAGED = {
  "no config": ("pt", remove("config.json"), "no config.json"),
  "a saved calibration": (
    "pt",
    saved("calibration.npz"),
    "^model=.*: a model of .* --flow_folder=.* SentenceModel.load$",
  ),
  "a saved model": ("pt", saved("model.npz"), "^model=.*: a model of .* --flow_folder=.* SentenceModel.load$"),
  "config truncated": ("pt", cut("config.json", 0.6), "config.json: "),
  "config a list": ("pt", write("config.json", b"[]"), "config.json: expected JSON with a dict"),
  "another model": ("pt", config(model_type="gpt2"), "model_type .*'gpt2'"),
  "another architecture": ("pt", config(model_type="roberta"), "not the .* weights that config.json requires"),
  "no heads": ("pt", config(num_attention_heads=None), "num_attention_heads"),
  "a million blocks": ("pt", config(num_hidden_layers=10**6), "from 1 to 1024 as num_hidden_layers"),
  "huge number of types": ("pt", config(type_vocab_size=10**12), "type_vocab_size"),
  "activation null": ("pt", write("config.json", NO_ACTIVATION), "hidden_act is 'None', expected one of gelu"),
  "odd heads": ("pt", config(num_attention_heads=5), "attention heads"),
  "unknown activation": ("pt", config(hidden_act="gulu"), "gulu"),
  "relative positions": ("pt", config(position_embedding_type="relative_key"), "position_embedding_type"),
  "buckets of MPNet": (
    "pt",
    config(model_type="mpnet", relative_attention_num_buckets=64),
    "relative_attention_num_buckets is 64",
  ),
  "decoder": ("pt", config(is_decoder=True), "is_decoder"),
  "no vocabulary": ("pt", remove("vocab.txt"), "no vocab.txt"),
  "vocabulary too large": ("pt", write("vocab.txt", b"x\n" * 25), "vocab.txt: 25 .* 24"),
  "no weights": ("pt", remove(SAVED), "no weights"),
  "PyTorch weights": ("pt", only_pytorch, "pytorch_model.bin, .*save_pretrained"),
  "weights truncated": ("pt", cut(SAVED, 0.6), "model.safetensors .*SafetensorError"),
  "LFS pointer": ("pt", write(SAVED, b"version https://git-lfs.github.com/spec/v1\n"), "run git lfs pull"),
  "more blocks": ("pt", config(num_hidden_layers=4), "not the 16 weights .* bert.encoder.layer.3"),
  "fewer blocks": ("pt", config(num_hidden_layers=2), "holds 16 weights .* bert.encoder.layer.2"),
  "larger table": ("pt", config(vocab_size=30), r"word_embeddings.*\(30, 12\), got \(24, 12\)"),
  "a weight missing": ("pt", with_value(PT_KEY), f"not the 1 weights .* {PT_KEY}"),
  "NaN": ("pt", with_value("bert.embeddings.LayerNorm.bias", NAN), "NaN or infinity in bert/embeddings/LayerNorm"),
  "static: fewer rows": ("static", with_value(ROWS, np.zeros([23, 12])), r"shape \[24, 12\], got \[23, 12\]"),
  "static: no rows": ("static", with_value(ROWS), "got none"),
  "static: weights truncated": ("static", cut(SAVED, 0.6), "cannot be loaded"),
  "h5 truncated": ("h5", cut("tf_model.h5", 0.6), "tf_model.h5 .*truncated file"),
  "h5 fewer blocks": ("h5", config(num_hidden_layers=2), "holds 16 weights"),
  "shard missing": ("shards", drop_shard, "model.safetensors.index.json .* model-00002"),
  "shard of another folder": ("shards", weight_map("../model.safetensors"), "another folder"),
  "shard a number": ("shards", weight_map(5), "weight_map"),
  "google: no config": ("google", remove("bert_config.json"), "no bert_config.json"),
  "google: odd heads": ("google", tf1_config(num_attention_heads=5), "attention heads"),
  "google: another model's config": ("google", tf1_config(model_type="albert"), "model_type .*'albert'"),
  "google: unknown activation": ("google", tf1_config(hidden_act="linear"), "linear"),
  "google: range a word": ("google", tf1_config(initializer_range="x"), "bert_config.json: "),
  "google: no vocabulary": ("google", remove("vocab.txt"), "no vocab.txt"),
  "google: no index": ("google", remove(INDEX), "no checkpoint"),
  "google: no data": ("google", remove(DATA), "bert_model.ckpt.* cannot be read"),
  "google: data truncated": ("google", cut(DATA, -100), "bert_model.ckpt.* cannot be read"),
  "google: data flipped": ("google", flip(DATA), "Checksum does not match"),
  "google: index truncated": ("google", cut(INDEX, 60), "bert_model.ckpt.index: cannot be read"),
  "google: index flipped": ("google", flip(INDEX), "cannot be read"),
  "google: more blocks": ("google", tf1_config(num_hidden_layers=4), "16 missing: bert/encoder/layer_3/attention/out"),
  "google: fewer blocks": ("google", tf1_config(num_hidden_layers=2), "16 unknown: bert/encoder/layer_2/"),
  "google: another width": ("google", tf1_config(hidden_size=24), r"shape \[24, 24\], got \[24, 12\]"),
  "google: a variable less": ("google", with_value(KEY), f"1 missing: {KEY}$"),
  "google: a variable more": ("google", with_value("bert/x", np.zeros(1)), "1 unknown: bert/x$"),
  "google: half a pooler": ("google", with_value("bert/pooler/dense/bias"), "1 missing: bert/pooler/dense/bias"),
  "google: another dtype": ("google", with_value(KEY, np.zeros(12)), f"{KEY} .*float64"),
  "google: NaN": ("google", with_value(KEY, NAN), f"{KEY} holds NaN or infinity"),
  "roberta: decoder": ("roberta", config(is_decoder=True), "is_decoder is True, and only False is"),
  "roberta: no tokenizer": ("roberta", remove("tokenizer.json"), "no tokenizer; expected tokenizer.json"),
  "roberta: tokenizer empty": ("roberta", write("tokenizer.json", b"{}"), "tokenizer.json: cannot be read as a token"),
  "roberta: tokenizer of a BERT": ("roberta", other_vocabulary, "vocab.txt is no vocabulary of a Roberta; expected"),
  "roberta: no embedding": ("roberta", token_without_embedding, "'zzz' has the id 2000, and the model has 2000"),
  "roberta: other width": ("roberta", config(intermediate_size=48), "weights of another shape"),
  "roberta: fewer blocks": ("roberta", config(num_hidden_layers=2), "weights of blocks that config.json does not"),
  "roberta: padding negative": ("roberta", config(pad_token_id=-1), "an id as pad_token_id"),
  "roberta: padding late": ("roberta", config(pad_token_id=200), "json: .*tokens count from pad_token_id=200 on"),
  "roberta: other token": ("roberta", tokenizer_config(cls_token="<x>"), "no token is <x>"),
  "roberta: token a number": ("roberta", tokenizer_config(cls_token=5), "json: cls_token is 5, expected a word piece"),
  "roberta: prefix a word": (
    "roberta",
    tokenizer_config(add_prefix_space="yes"),
    "prefix_space is 'yes', expected true",
  ),
  "electra: case a word": ("electra", tokenizer_config(do_lower_case="yes"), "lower_case is 'yes', expected true"),
}
# sentence-transformers writes modules.json next to the files above.
for number, content in enumerate((b"{}", b"[]", b"[1]", b'[{"type": 3, "path": ""}]', b'[{"type": "a.Transformer"}]')):
  DAMAGED[f"modules {number}"] = ("pt", write("modules.json", content), "modules.json: ")


@pytest.fixture(scope="module")
def intact(tmp_path_factory):
  """Returns a function from a kind to an intact folder of it; the tests damage copies."""

  @functools.cache
  def make(kind):
    if kind in ("roberta", "electra"):
      return shared(f"golden_encoders/{kind}")
    folder = tmp_path_factory.mktemp(kind)
    if kind == "google":
      return tf1_files.write_google(folder)
    return tiny.save_tiny(folder, kind="pt" if kind == "static" else kind)

  return make


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_folder_is_an_error_of_one_line(intact, tmp_path, name):
  kind, damage, expected = DAMAGED[name]
  shutil.copytree(intact(kind), tmp_path, dirs_exist_ok=True, copy_function=shutil.copyfile)
  damage(tmp_path)
  prefix = "static:" if kind == "static" else ""
  with pytest.raises(EncoderError, match=expected) as error:
    SentenceEncoder.from_pretrained(f"{prefix}{tmp_path}")
  message = str(error.value)
  assert str(tmp_path) in message and "\n" not in message
  assert len(message) < 600 or kind == "google"  # which lists all variables


@pytest.mark.parametrize("name", ["saved_model.pb", "1/saved_model.pb"])
def test_a_folder_of_a_saved_model_is_named(tmp_path, name):
  path = tmp_path / name
  path.parent.mkdir(exist_ok=True)
  path.touch()
  expected = (
    "a SavedModel without variables" if path.parent == tmp_path else f"no config.json; .* saved_model:{path.parent}$"
  )
  with pytest.raises(EncoderError, match=expected):
    SentenceEncoder.from_pretrained(str(tmp_path))
