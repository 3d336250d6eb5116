"""Tests of the encoders that are no BERT: numbers of PyTorch, ids of transformers, saving, rejections."""

import json
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf
import transformers
from safetensors.numpy import load_file

from bert_flow_tf import SentenceEncoder
from bert_flow_tf.encoder.saving import save_encoder
from bert_flow_tf.encoder.text.folder import load_tokenizer
from bert_flow_tf.encoder.text.word_piece import pad_batch
from bert_flow_tf.encoder.transformer.architectures import ARCHITECTURES, BERT
from bert_flow_tf.encoder.transformer.products import keeps_kernels
from bert_flow_tf.errors import BertFlowError
from bert_flow_tf.training.optimizer import EXCLUDED_FROM_WEIGHT_DECAY
from tests.encoder import tiny
from tests.testing import edit_json, golden_encoder, rejected, tf_bert

pytestmark = pytest.mark.packages

NAMES = [name for name in ARCHITECTURES if name not in (BERT, "camembert")]
# Every kind of character, words that are long, spaces, marks and numbers.
ODD = [
  "naïve café \u2013 東京 2024 ",
  "\u0000\t x\u200by\u0301 ﬁ\n",
  "\uff41\uff42\uff43",
  "e-mail: a.b@c.de, $5.00",
  "x" * 300,
  "",
  " ",
  "İI ß Σς",
]


@pytest.fixture(scope="module", params=NAMES)
def golden(request):
  """Returns (encoder, reference numbers, sentences)."""
  folder = golden_encoder(request.param)
  reference = np.load(folder / "reference.npz")
  return SentenceEncoder.from_pretrained(folder), reference, [str(text) for text in reference["sentences"]]


@pytest.fixture(scope="module")
def golden_by_engine(golden, engine):
  """Returns the same with an encoder of each engine."""
  encoder, *expected = golden
  if engine != encoder.engine:
    encoder = SentenceEncoder.from_pretrained(encoder.name, engine=engine)
  return encoder, *expected


def test_camembert_has_the_layout_of_xlm_roberta(tmp_path):
  folder = shutil.copytree(golden_encoder("xlm-roberta"), tmp_path / "camembert", copy_function=shutil.copyfile)
  edit_json(folder / "config.json", model_type="camembert")
  encoder = SentenceEncoder.from_pretrained(folder)
  expected = tiny.embed(SentenceEncoder.from_pretrained(golden_encoder("xlm-roberta")), ODD)
  np.testing.assert_array_equal(tiny.embed(encoder, ODD), expected)
  save_encoder(encoder, tmp_path / "saved")
  np.testing.assert_array_equal(tiny.embed(SentenceEncoder.from_pretrained(tmp_path / "saved"), ODD), expected)
  assert json.loads((tmp_path / "saved/config.json").read_text())["architectures"] == ["CamembertModel"]


def test_numbers_equal_pytorchs(golden):
  encoder, reference, sentences = golden
  ids, mask = pad_batch(encoder.tokenizer(sentences, 64), encoder.tokenizer.pad_id)
  np.testing.assert_array_equal(ids, reference["ids"])
  np.testing.assert_array_equal(mask, reference["mask"])
  states, _ = encoder.bert(tf.constant(ids), tf.constant(mask))
  for name, block in {"embedding_layer": 0, "first": 1, "last": -1}.items():
    is_token = mask[..., np.newaxis]
    np.testing.assert_allclose(states[block] * is_token, reference[name] * is_token, atol=1e-5, err_msg=name)


def test_embeddings_equal_pytorchs(golden_by_engine):
  encoder, reference, sentences = golden_by_engine
  np.testing.assert_allclose(encoder.encode(sentences, "avg"), reference["avg"], atol=1e-5)
  found = tiny.embed(encoder, sentences, "avg-first-last")
  np.testing.assert_allclose(found, reference["avg_first_last"], atol=1e-5)


def test_ids_equal_transformers(golden):
  encoder, _, sentences = golden
  # AutoTokenizer is not used: in transformers 5 it replaces the file's normalizer by the class's.
  theirs = transformers.PreTrainedTokenizerFast(tokenizer_file=str(encoder.folder / "tokenizer.json"))
  for max_seq_length in (5, 64):
    ours = [row.tolist() for row in encoder.tokenizer(sentences + ODD, max_seq_length)]
    assert ours == theirs(sentences + ODD, truncation=True, max_length=max_seq_length)["input_ids"]


def test_poolings(golden_by_engine):
  encoder, reference, sentences = golden_by_engine
  mask, last = reference["mask"], reference["last"]
  rows = encoder.bert.word_rows(reference["ids"]).numpy()
  words = (rows * mask[..., np.newaxis]).sum(axis=1) / mask.sum(axis=1, keepdims=True)
  expected = {
    "cls-token": last[:, 0],
    "max": np.where(mask[..., np.newaxis] > 0, last, -np.inf).max(axis=1),
    "word-rows": words,
  }
  # The mix reads word embeddings as wide as the blocks: ALBERT's and ELECTRA's projection, without its bias.
  weights = load_file(encoder.folder / "model.safetensors")
  wide = rows
  for name, kernel in weights.items():
    if name.endswith(("embedding_hidden_mapping_in.weight", "embeddings_project.weight")):
      wide = rows @ kernel.T
      wide /= np.linalg.norm(wide, axis=-1, keepdims=True)
  means = [(wide * mask[..., np.newaxis]).sum(axis=1), reference["avg"]]
  of_words, of_blocks = (mean / np.linalg.norm(mean, axis=1, keepdims=True) for mean in means)
  expected["mix"] = 0.6 * of_words + 0.4 * of_blocks
  for name, values in expected.items():
    np.testing.assert_allclose(tiny.embed(encoder, sentences, name), values, atol=1e-5, err_msg=name)
    assert encoder.dim(name) == values.shape[1]
  static = SentenceEncoder.from_pretrained(f"static:{encoder.name}", token_weights="uniform")
  np.testing.assert_allclose(static.encode(sentences), words, atol=1e-5)
  if encoder.bert.config.architecture.pooler:
    weights = {
      name.split(".", 1)[1].replace("dense.", ""): value for name, value in weights.items() if "pooler" in name
    }
    pooled = np.tanh(last[:, 0] @ weights["weight"].T + weights["bias"])
    np.testing.assert_allclose(tiny.embed(encoder, sentences, "cls"), pooled, atol=1e-5)
  else:
    with rejected(BertFlowError, "sentence_embedding_type"):
      encoder.encode(sentences, "cls")


@pytest.mark.parametrize("name", ["avg", "cls-token", "max", "mix"])
def test_a_sentence_alone(golden, name):
  """Its graph has joint products, kernels in another order and no padding; against the products of each layer."""
  encoder, reference, sentences = golden
  expected = encoder.embed_batch(tf.constant(reference["ids"]), tf.constant(reference["mask"]), name).numpy()
  alone = np.concatenate([encoder.encode([sentence], name) for sentence in sentences])
  np.testing.assert_allclose(alone, expected, atol=1e-6 * np.abs(expected).max())
  function = encoder._function(encoder.pooling(name), of_one_sentence=True)
  types = {op.type for op in function.graph.get_operations()}
  assert ("_MklNativeFusedMatMul" in types) == (
    keeps_kernels(tf.float32) and not encoder.bert.config.architecture.shares_weights
  )
  assert "GatherNd" not in types


def test_precision_and_longest_text(golden):
  encoder, reference, sentences = golden
  for precision in ("bfloat16", "int8"):
    rounded = SentenceEncoder.from_pretrained(encoder.name, precision=precision)
    assert 0 < np.abs(tiny.embed(rounded, sentences) - reference["avg"]).max() < 0.2
  limit = 130 - 2 * encoder.bert.config.architecture.counts_from_pad
  assert np.isfinite(encoder.encode(["a " * 500], "avg", max_seq_length=limit)).all()
  with rejected(BertFlowError, "max_seq_length", match=str(limit)):
    encoder.encode(["a"], max_seq_length=limit + 1)


# An architecture per kind of tokenizer.
@pytest.mark.parametrize("name", ["mpnet", "roberta", "modernbert", "albert", "deberta-v2"])
def test_weights_of_tokens(name):
  weighted = SentenceEncoder.from_pretrained(golden_encoder(name), token_weights="idf")
  tokenizer, table = weighted.tokenizer, weighted.token_weights.table
  assert not table[list(tokenizer.special_ids)].any()
  rows = tokenizer([". , !", "the of", "guitar"], 64)
  assert not table[rows[0]].any()
  assert table[rows[1][1:-1]].max() < table[rows[2][1:-1]].max()
  assert 0 < table[tokenizer(["x the"])[0][-2]] < 2.5  # after a space, too
  ids = tokenizer(["in 1984 and 4711"], 64)[0]
  of_digits = [row for row in ids if any(map(str.isdigit, tokenizer.words[row]))]
  assert of_digits and (table[of_digits] > 0).all()


def test_converters_to_onnx_can_take_the_graph_of_a_width(golden):
  """Of a width at which ModernBERT computes windows."""
  encoder = golden[0]
  specs = [tf.TensorSpec([None, 60], tf.int32)] * 2
  states = tf.function(lambda ids, mask: encoder.bert(ids, mask)[0][-1], specs, autograph=False)
  assert tiny.convertible(states.get_concrete_function().graph) > 10


def test_saved_encoder_cache_and_identity(golden, tmp_path):
  encoder, reference, sentences = golden
  save_encoder(encoder, tmp_path / "saved")
  loaded = SentenceEncoder.from_pretrained(tmp_path / "saved")
  assert loaded.identity().differences(encoder.identity()) == []
  np.testing.assert_allclose(tiny.embed(loaded, sentences), reference["avg"], atol=1e-5)
  first = encoder.encode(sentences, "avg", cache=tmp_path / "cache")
  np.testing.assert_array_equal(first, encoder.encode(sentences, "avg"))
  np.testing.assert_array_equal(first, loaded.encode(sentences, "avg", cache=tmp_path / "cache"))
  theirs = load_file(pathlib.Path(encoder.name) / "model.safetensors")
  saved = load_file(tmp_path / "saved/model.safetensors")
  assert set(saved) == set(theirs)
  for name, value in theirs.items():
    np.testing.assert_array_equal(saved[name], value, err_msg=name)


def test_trained_weights(golden):
  encoder, reference, _ = golden
  pooling = encoder.pooling("avg-last-last-2")  # not of the last block
  weights = encoder.trained_weights(pooling)
  with tf.GradientTape() as tape:
    tape.watch(weights)
    loss = tf.reduce_sum(encoder.pooled_batch(reference["ids"], reference["mask"], pooling) ** 3)
  gradients = tape.gradient(loss, encoder.bert.weights)
  reached = {weight.name for weight, value in zip(encoder.bert.weights, gradients, strict=True) if value is not None}
  assert reached == {weight.name for weight in weights}
  # Normalization and biases are recognized by their names.
  decayed = [weight for weight in weights if not any(part in weight.name for part in EXCLUDED_FROM_WEIGHT_DECAY)]
  assert all(len(weight.shape) == 2 for weight in decayed) and len(decayed) > 5


def test_user_model(golden):
  encoder, reference, sentences = golden
  name = f"TF{encoder.bert.config.architecture.name}Model"
  if not hasattr(tf_bert(), name):
    pytest.skip(f"transformers never had a {name}")
  user_model = getattr(tf_bert(), name).from_pretrained(encoder.name)
  tokenizer = transformers.AutoTokenizer.from_pretrained(encoder.name)
  embeddings = tiny.embed(SentenceEncoder(user_model, tokenizer), sentences)
  np.testing.assert_allclose(embeddings, reference["avg"], atol=1e-5)


@pytest.mark.parametrize(("pad_id", "by"), [(0, 2), (3, -2)])
def test_another_padding_token_moves_positions(folder, pad_id, by):
  """PyTorch counts from the configuration's pad_token_id, TensorFlow's classes of transformers from 1."""
  # The first token has the id 0: as padding it has the position 0, and does not count.
  edit_json(folder / "config.json", pad_token_id=pad_id)
  moved, encoder = SentenceEncoder.from_pretrained(folder), SentenceEncoder.from_pretrained(golden_encoder("roberta"))
  assert moved.max_tokens == encoder.max_tokens + 1 - pad_id
  (table,) = (weight for weight in encoder.bert.weights if "position_embeddings" in weight.name)
  table.assign(tf.roll(table, by, axis=0))
  np.testing.assert_allclose(tiny.embed(moved, ["a dog"]), tiny.embed(encoder, ["a dog"]), atol=1e-5)


def test_the_position_of_the_first_token_is_part_of_the_identity(folder):
  """Weights and tokenizer are the same, and the embedding is another."""
  first = SentenceEncoder.from_pretrained(folder)
  edit_json(folder / "config.json", pad_token_id=0)
  second = SentenceEncoder.from_pretrained(folder)
  assert np.abs(tiny.embed(first, ["a dog"]) - tiny.embed(second, ["a dog"])).max() > 1e-3
  assert first.identity().differences(second.identity()) == ["architecture.first_position 2, now 1"]
  assert first.fingerprint([]) != second.fingerprint([])


@pytest.mark.parametrize("value", [None, False, True])
def test_space_before_the_first_word_follows_transformers(folder, value):
  pre_tokenizer = json.loads((folder / "tokenizer.json").read_text())["pre_tokenizer"]
  edit_json(folder / "tokenizer.json", pre_tokenizer=pre_tokenizer | {"add_prefix_space": value is not False})
  edit_json(folder / "tokenizer_config.json", add_prefix_space=value)
  theirs = transformers.AutoTokenizer.from_pretrained(folder)(["a dog", "Two"])["input_ids"]
  assert [row.tolist() for row in load_tokenizer(folder)(["a dog", "Two"])] == theirs


def test_bert_with_a_tokenizer_json_alone(folder):
  edit_json(folder / "config.json", model_type="bert")
  assert load_tokenizer(folder).specials["cls_token"] == "<s>"


def test_useless_settings(folder):
  for name, value in {"strip_accents": True, "max_input_chars_per_word": 50}.items():
    with rejected(BertFlowError, name):
      SentenceEncoder.from_pretrained(folder, **{name: value})
  assert load_tokenizer(golden_encoder("mpnet"), overrides={"strip_accents": False}).settings == {
    "do_lower_case": True,
    "strip_accents": False,
    "tokenize_chinese_chars": True,
    "max_input_chars_per_word": 100,
  }


def test_no_checkpoint_of_tensorflow_1(golden):
  with rejected(BertFlowError, "model"):
    golden[0].tf1_variables()


@pytest.mark.parametrize("folder", ["mpnet"], indirect=True)
def test_positions_of_mpnet_ignore_config_json(folder):
  # transformers' code has 1 as its padding token.
  expected = tiny.embed(SentenceEncoder.from_pretrained(folder), ODD)
  edit_json(folder / "config.json", pad_token_id=0)
  np.testing.assert_array_equal(tiny.embed(SentenceEncoder.from_pretrained(folder), ODD), expected)


@pytest.mark.parametrize("folder", ["albert"], indirect=True)
def test_identity_of_albert_has_the_number_of_blocks(folder):
  # They share weights.
  first = SentenceEncoder.from_pretrained(folder)
  edit_json(folder / "config.json", num_hidden_layers=first.num_hidden_layers + 1)
  second = SentenceEncoder.from_pretrained(folder)
  assert first.weights_checksum == second.weights_checksum
  assert first.fingerprint(["no"], "cls") != second.fingerprint(["no"], "cls")


def test_a_tokenizer_without_a_mask_is_read(folder):
  encoder = SentenceEncoder.from_pretrained(folder)
  content = json.loads((folder / "tokenizer.json").read_text().replace("<mask>", "<gone>"))
  content["added_tokens"] = [token for token in content["added_tokens"] if token["content"] != "<gone>"]
  (folder / "tokenizer.json").write_text(json.dumps(content))
  edit_json(folder / "tokenizer_config.json", mask_token=None)
  without = SentenceEncoder.from_pretrained(folder)
  assert without.tokenizer.mask_id is None
  np.testing.assert_array_equal(tiny.embed(without, ODD), tiny.embed(encoder, ODD))
