"""Presets of KerasHub: folders of KerasHub's own numbers, and folders written by hand from a table of its names."""

import importlib.util
import json
import re

import h5py
import numpy as np
import pytest
import tensorflow as tf

from bert_flow_tf.encoder.saving import save_encoder
from bert_flow_tf.encoder.sentence_encoder import SentenceEncoder
from bert_flow_tf.encoder.transformer.config import EncoderConfig
from bert_flow_tf.encoder.transformer.transformer import path_of_variable
from bert_flow_tf.encoder.transformer.weights import random_transformer
from bert_flow_tf.errors import EncoderError
from bert_flow_tf.tf1.read import write_folders
from tests.encoder.tiny import CONFIG, IDS, MASK, VOCABULARY, embed, embed_padded, save_tiny
from tests.testing import hub_folder, rejected, shared

V, H, HEADS, INNER, BLOCKS, LENGTH = 24, 12, 3, 20, 2, 16
SIZES = {"num_layers": BLOCKS, "num_heads": HEADS, "hidden_dim": H, "intermediate_dim": INNER, "dropout": 0.1}
SIZES |= {"max_sequence_length": LENGTH}
HUGGING_FACE = {"vocab_size": V, "hidden_size": H, "num_hidden_layers": BLOCKS, "num_attention_heads": HEADS}
HUGGING_FACE |= {"intermediate_size": INNER, "max_position_embeddings": LENGTH}
JOINED = "token_and_position_embedding"
# {KerasHub's class: its config, the same in Hugging Face's config.json, {KerasHub's group: layer here}}
POSITIONS, SEGMENTS = "embeddings/position_embeddings", "embeddings/token_type_embeddings"
APART = {"reversible_embedding": "embeddings/word_embeddings", "position_embedding": POSITIONS, "embedding": SEGMENTS}
TOGETHER = {f"{JOINED}/token_embedding": "embeddings/word_embeddings", f"{JOINED}/position_embedding": POSITIONS}
TANH, EXACT = {"hidden_act": "gelu_new", "layer_norm_eps": 1e-12}, {"hidden_act": "gelu", "layer_norm_eps": 1e-5}
BERT_PARTS = {
  "query": "attention/self/query",
  "key": "attention/self/key",
  "value": "attention/self/value",
  "output": "attention/output/dense",
  "attention_norm": "attention/output/LayerNorm",
  "inner": "intermediate/dense",
  "outer": "output/dense",
  "norm": "output/LayerNorm",
}
CLASSES = {
  "BertBackbone": (
    {"vocabulary_size": V, "num_segments": 2},
    {"model_type": "bert", **TANH},
    {**APART, "dense": "pooler/dense"},
    BERT_PARTS,
  ),
  "ElectraBackbone": (
    {"vocab_size": V, "num_segments": 2, "embedding_dim": 8},
    {"model_type": "electra", "embedding_size": 8, **TANH},
    {**APART, "dense": "embeddings_project"},
    BERT_PARTS,
  ),
  "AlbertBackbone": (
    {"vocabulary_size": V, "num_segments": 2, "embedding_dim": 8, "num_groups": 1, "num_inner_repetitions": 1},
    {"model_type": "albert", "embedding_size": 8, **TANH},
    {**APART, "dense": "encoder/embedding_hidden_mapping_in", "dense_1": "pooler"},
    {
      "query": "attention/query",
      "key": "attention/key",
      "value": "attention/value",
      "output": "attention/dense",
      "attention_norm": "attention/LayerNorm",
      "inner": "ffn",
      "outer": "ffn_output",
      "norm": "full_layer_layer_norm",
    },
  ),
  "RobertaBackbone": (
    {"vocabulary_size": V},
    {"model_type": "roberta", "max_position_embeddings": LENGTH + 2, "type_vocab_size": 1, **EXACT},
    TOGETHER,
    BERT_PARTS,
  ),
  "XLMRobertaBackbone": (
    {"vocabulary_size": V},
    {"model_type": "xlm-roberta", "max_position_embeddings": LENGTH + 2, "type_vocab_size": 1, **EXACT},
    TOGETHER,
    BERT_PARTS,
  ),
  "DistilBertBackbone": (
    {"vocabulary_size": V},
    {"model_type": "distilbert", "dim": H, "n_layers": BLOCKS, "n_heads": HEADS, "hidden_dim": INNER},
    TOGETHER,
    {
      "query": "attention/q_lin",
      "key": "attention/k_lin",
      "value": "attention/v_lin",
      "output": "attention/out_lin",
      "attention_norm": "sa_layer_norm",
      "inner": "ffn/lin1",
      "outer": "ffn/lin2",
      "norm": "output_layer_norm",
    },
  ),
  "DebertaV3Backbone": (
    {"vocabulary_size": V, "bucket_size": 4},
    {
      "model_type": "deberta-v2",
      "hidden_act": "gelu",
      "layer_norm_eps": 1e-7,
      "relative_attention": True,
      "position_biased_input": False,
      "share_att_key": True,
      "norm_rel_ebd": "layer_norm",
      "pos_att_type": ["c2p", "p2c"],
      "position_buckets": 4,
      "max_relative_positions": -1,
    },
    {
      "reversible_embedding": "embeddings/word_embeddings",
      "relative_embedding": "encoder/rel_embeddings",
      "relative_embedding/layer_norm": "encoder/LayerNorm",
    },
    BERT_PARTS | {name: f"attention/self/{name}_proj" for name in ("query", "key", "value")},
  ),
}
PARTS = {
  "query": "_self_attention_layer/query_dense",
  "key": "_self_attention_layer/key_dense",
  "value": "_self_attention_layer/value_dense",
  "output": "_self_attention_layer/output_dense",
  "attention_norm": "_self_attention_layer_norm",
  "inner": "_feedforward_intermediate_dense",
  "outer": "_feedforward_output_dense",
  "norm": "_feedforward_layer_norm",
}
BLOCK = {"albert": "encoder/albert_layer_groups_._0/albert_layers_._0", "distilbert": "transformer/layer_._{}"}


def reference(name):
  """Returns a transformer under Hugging Face's names with random weights, of the sizes of a class of KerasHub."""
  _, values, *_ = CLASSES[name]
  model = random_transformer(
    EncoderConfig(HUGGING_FACE | values), has_pooler=name in ("BertBackbone", "AlbertBackbone")
  )
  rng = np.random.default_rng(3)
  for weight in model.weights:
    value = weight + rng.normal(0, 0.3, weight.shape).astype(np.float32)
    path = path_of_variable(weight)
    if "oberta" in name and path.startswith(SEGMENTS):
      value = tf.zeros_like(weight)
    if "oberta" in name and path.startswith(POSITIONS):
      value = tf.concat([tf.zeros([2, H]), value[2:]], 0)
    weight.assign(value)
  return model


def arrays_of(name, model):
  """Returns {KerasHub's name: array} of a transformer, with an axis of heads in attention."""
  _, values, embeddings, parts = CLASSES[name]
  kind = values["model_type"]
  layers = {**embeddings, "layer_normalization": "embeddings/LayerNorm"}
  encoder = "disentangled_attention_encoder" if kind == "deberta-v2" else "transformer_encoder"
  for number in range(1 if kind == "albert" else BLOCKS):
    for part, path in parts.items():
      group = PARTS[part]
      if kind == "deberta-v2":
        group = group.replace("layer/", "layer/_")
      block = encoder + (f"_{number}" if number else "")
      layers[f"{block}/{group}"] = f"{BLOCK.get(kind, 'encoder/layer_._{}').format(number)}/{path}"
  weights = {path_of_variable(weight): weight.numpy() for weight in model.weights}
  arrays = {}
  for group, layer in layers.items():
    found = [path for path in weights if re.fullmatch(rf"{re.escape(layer)}[/.]\w+", path)]
    assert found, layer
    for path in found:
      value, number = weights[path], int(path.endswith(("bias", "beta")))
      if layer == POSITIONS and "oberta" in name:
        value = value[2:]
      if group.endswith(("query_dense", "key_dense", "value_dense")):
        value = value.reshape(*value.shape[:-1], HEADS, H // HEADS)
      if group.endswith("/output_dense") and not number and kind != "deberta-v2":
        value = value.reshape(HEADS, H // HEADS, H)
      arrays[f"layers/{group}/vars/{number}"] = value
  if kind == "electra":  # KerasHub's ELECTRA has a pooled output
    arrays |= {"layers/dense_1/vars/0": np.ones([H, H], "f"), "layers/dense_1/vars/1": np.ones([H], "f")}
  return arrays


def write_preset(folder, name, arrays, dtype="float32", shards=1, package="keras_hub", tokenizer=True, **changes):
  """Writes a preset; texts are cut by a WordPiece, which every class may have."""
  folder.mkdir(parents=True, exist_ok=True)
  config = {"name": "x", "trainable": True, "dtype": {}, **SIZES, **CLASSES[name][0], **changes}
  (folder / "config.json").write_text(json.dumps({"registered_name": f"{package}>{name}", "config": config}))
  files = ["model.weights.h5"]
  if shards > 1:
    files = [f"model_{number:05}.weights.h5" for number in range(shards)]
    weight_map = {}
    for number, path in enumerate(arrays):
      key = "/" + path.rpartition("/")[0]
      weight_map.setdefault(key, []).append(files[number % shards])
    weight_map = {key: found[0] if len(found) == 1 else found for key, found in weight_map.items()}
    (folder / "model.weights.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
  for number, file in enumerate(files):
    with h5py.File(folder / file, "w") as content:
      for path, value in list(arrays.items())[number::shards]:
        if dtype == "bfloat16" and value.dtype == np.float32:
          stored = tf.cast(value, tf.bfloat16).numpy()
          content.create_dataset(path, data=stored.view("V2")).attrs["dtype"] = "bfloat16"
        else:
          content[path] = value.astype(dtype) if value.dtype == np.float32 else value
  if tokenizer:
    write_tokenizer(folder, package)
  return folder


def write_tokenizer(folder, package="keras_hub"):
  settings = {"lowercase": True, "strip_accents": False, "oov_token": "[UNK]"}
  registered = {"registered_name": f"{package}>BertTokenizer", "config": settings}
  (folder / "tokenizer.json").write_text(json.dumps(registered))
  (folder / "assets/tokenizer").mkdir(parents=True)
  (folder / "assets/tokenizer/vocabulary.txt").write_text("".join(f"{piece}\n" for piece in VOCABULARY))


def states(model):
  """Returns the states of all blocks of two sentences, the tokens alone."""
  return [state.numpy()[MASK == 1] for state in model(IDS, MASK, None, False, True)[0]]


@pytest.mark.parametrize("name", CLASSES)
def test_all_classes_by_hand(name, tmp_path):
  """The states of each class, in one file or in shards, are those of the weights under Hugging Face's names."""
  expected = reference(name)
  arrays = arrays_of(name, expected)
  for folder, options in {"one": {}, "shards": {"shards": 3, "package": "keras_nlp"}}.items():
    encoder = SentenceEncoder.from_pretrained(write_preset(tmp_path / folder, name, arrays, **options))
    for found, wanted in zip(states(encoder.bert), states(expected), strict=True):
      np.testing.assert_allclose(found, wanted, atol=1e-5)
    assert encoder.declared.max_seq_length == 64


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8"])
def test_types(dtype, tmp_path):
  """Values of 16 bits are read exactly, and int8 is divided by its scale."""
  model = reference("BertBackbone")
  arrays = arrays_of("BertBackbone", model)
  stored = dict(arrays)
  for path, value in arrays.items() if dtype == "int8" else ():
    is_table = path in ("layers/reversible_embedding/vars/0", "layers/embedding/vars/0")
    if is_table or ("dense" in path and path.endswith("0")):
      axes = 1 if is_table else (0, 1) if path.endswith("layer/output_dense/vars/0") else 0
      scale = 127 / np.abs(value).max(axis=axes, keepdims=True)
      stored[path] = np.round(value * scale).astype(np.int8)
      scale = scale.astype(np.float32)
      stored[f"{path[:-1]}{1 if is_table else 2}"] = scale[:, 0] if is_table else scale.reshape(1, *scale.shape)
  kind = "float32" if dtype == "int8" else dtype
  encoder = SentenceEncoder.from_pretrained(write_preset(tmp_path / "preset", "BertBackbone", stored, kind))
  expected = {path_of_variable(weight): weight.numpy() for weight in model.weights}
  for weight in encoder.bert.weights:
    value = expected[path_of_variable(weight)]
    if dtype == "int8":
      np.testing.assert_allclose(weight.numpy(), value, atol=np.abs(value).max() / 127)
    else:
      np.testing.assert_array_equal(weight.numpy(), tf.cast(tf.cast(value, dtype), tf.float32).numpy())


@pytest.mark.parametrize("name", ["bert", "roberta", "albert"])
def test_golden_embeddings(name, engine):
  """Embeddings of texts and ids are KerasHub's."""
  folder = shared(f"golden_tf/keras_hub_{name}")
  reference = np.load(folder / "reference.npz")
  encoder = SentenceEncoder.from_pretrained(folder, engine=engine)
  for pooling, key in {"avg": "avg", "avg-first-last": "avg_first_last"}.items():
    found = embed_padded(encoder, reference["ids"], reference["mask"], pooling)
    np.testing.assert_allclose(found, reference[key], atol=1e-5)
    np.testing.assert_allclose(embed(encoder, reference["texts"].tolist(), pooling, 24), reference[key], atol=1e-5)


@pytest.mark.parametrize("name", ["bert", "roberta", "albert"])
def test_golden_ids(name, tmp_path):
  """Ids of a saved encoder, and of texts in a graph, are KerasHub's."""
  folder = shared(f"golden_tf/keras_hub_{name}")
  reference = np.load(folder / "reference.npz")
  encoder = SentenceEncoder.from_pretrained(folder)
  save_encoder(encoder, tmp_path / "saved")
  saved = SentenceEncoder.from_pretrained(tmp_path / "saved")
  assert saved.tokenizer_checksum == encoder.tokenizer_checksum  # which calibrations compare
  if importlib.util.find_spec("tensorflow_text") is None:
    pytest.skip("tensorflow-text is not installed: it cuts texts inside a graph")
  from bert_flow_tf.encoder.graph.tokenizer import GraphTokenizer

  ids, lengths = GraphTokenizer(encoder.tokenizer, 24)(tf.constant(reference["texts"].tolist()))
  np.testing.assert_array_equal(ids, reference["ids"][:, : ids.shape[1]])
  np.testing.assert_array_equal(lengths, reference["mask"].sum(1))


@pytest.fixture(scope="module")
def library():
  """Returns KerasHub's classes; skips the calling test where it is not installed."""
  reason = "keras-hub is not installed: this test compares with its own numbers"
  return pytest.importorskip("keras_hub", reason=reason).models


def random_backbone(library, name):
  """Returns KerasHub's model with random weights, large enough that no non-linearity is nearly linear."""
  backbone = getattr(library, name)(**SIZES, **CLASSES[name][0])
  rng = np.random.default_rng(4)
  for weight in backbone.weights:
    weight.assign(weight + rng.normal(0, 0.3, weight.shape).astype(np.float32))
  return backbone


def last_states(backbone):
  """Returns the states of the last block of KerasHub's model, the tokens alone."""
  inputs = {"token_ids": IDS, "padding_mask": MASK, "segment_ids": np.zeros_like(IDS)}
  states = backbone({name: inputs[name] for name in backbone.input})
  if isinstance(states, dict):
    states = states["sequence_output"]
  return states.numpy()[MASK == 1]


@pytest.mark.parametrize("name", CLASSES)
def test_states_of_the_library(library, name, tmp_path):
  """The states of each class are those of the library."""
  backbone = random_backbone(library, name)
  backbone.save_to_preset(str(tmp_path))
  write_tokenizer(tmp_path)
  encoder = SentenceEncoder.from_pretrained(tmp_path)
  np.testing.assert_allclose(states(encoder.bert)[-1], last_states(backbone), atol=1e-5)


@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
def test_text_embedder_of_the_library(library, pooling, engine, tmp_path):
  """Embeddings of texts are the library's, as declared, and the library reads them again from a folder saved here."""
  tokenizer = library.BertTokenizer(list(VOCABULARY), lowercase=True)
  preprocessor = library.BertTextEmbedderPreprocessor(tokenizer, sequence_length=7)
  options = {"pooling_mode": pooling, "normalize": False}
  embedder = library.BertTextEmbedder(random_backbone(library, "BertBackbone"), preprocessor, **options)
  embedder.save_to_preset(str(tmp_path / "preset"))
  texts = ["a dog", "Dögs . a b cat dogs b a", "cat"]
  expected = embedder.encode_text(texts)
  encoder = SentenceEncoder.from_pretrained(tmp_path / "preset", engine=engine)
  found = embed(encoder, texts, encoder.declared.sentence_embedding_type, encoder.declared.max_seq_length)
  np.testing.assert_allclose(found, expected, atol=1e-5)
  save_encoder(encoder, tmp_path / "saved")
  again = library.TextEmbedder.from_preset(str(tmp_path / "saved"))
  np.testing.assert_allclose(again.encode_text(texts), expected, atol=1e-5)


def test_library_reads_a_saved_encoder(library, tmp_path):
  """As docs/encoders.md has it: equal numbers with GELU's tanh form; others and accents are taken otherwise."""

  def difference(name, source):
    encoder = SentenceEncoder.from_pretrained(source)
    save_encoder(encoder, tmp_path / "saved")
    saved = getattr(library, name).from_preset(str(tmp_path / "saved"))
    return np.abs(last_states(saved) - states(encoder.bert)[-1]).max()

  xlmr = arrays_of("XLMRobertaBackbone", reference("XLMRobertaBackbone"))
  assert difference("XLMRobertaBackbone", write_preset(tmp_path / "xlmr", "XLMRobertaBackbone", xlmr)) < 1e-5
  assert difference("BertBackbone", save_tiny(tmp_path / "tanh", config=CONFIG | {"hidden_act": "gelu_new"})) < 1e-5
  assert difference("BertBackbone", save_tiny(tmp_path / "erf")) > 1e-5
  texts = ["Dogs", "dög"]
  tokenizer = library.BertTokenizer.from_preset(str(tmp_path / "saved"))
  ours = [ids[1:-1].tolist() for ids in SentenceEncoder.from_pretrained(tmp_path / "saved").tokenizer(texts)]
  theirs = [np.asarray(tokenizer(text)).tolist() for text in texts]
  assert theirs == [ours[0], [VOCABULARY.index("[UNK]")]] != ours


@pytest.fixture(scope="module")
def bert_arrays():
  return arrays_of("BertBackbone", reference("BertBackbone"))


def test_declaration(bert_arrays, tmp_path):
  """A TextEmbedder's pooling and length are declared, and declared again by a folder that is saved."""
  folder = write_preset(tmp_path / "preset", "BertBackbone", bert_arrays)
  task = {"registered_name": "keras_hub>BertTextEmbedder", "config": {"pooling_mode": "cls", "normalize": True}}
  length = {"registered_name": "keras_hub>BertTextEmbedderPreprocessor", "config": {"sequence_length": 7}}
  (folder / "task.json").write_text(json.dumps(task))
  (folder / "preprocessor.json").write_text(json.dumps(length))
  encoder = SentenceEncoder.from_pretrained(folder)
  assert encoder.declared.source == str(folder / "task.json")
  save_encoder(encoder, tmp_path / "saved")
  for each in (encoder, SentenceEncoder.from_pretrained(tmp_path / "saved")):
    assert (each.declared.sentence_embedding_type, each.declared.max_seq_length) == ("cls-token", 7)
    pooling = each.loaded.files.part("1_Pooling").json("config.json")
    assert pooling["word_embedding_dimension"] == H  # without which sentence-transformers does not load it
    assert each.tokenizer_checksum == encoder.tokenizer_checksum
    assert each.weights_checksum == encoder.weights_checksum
  static = SentenceEncoder.from_pretrained(f"static:{folder}")
  words = bert_arrays["layers/reversible_embedding/vars/0"]
  words = words / np.linalg.norm(words, axis=1, keepdims=True)
  rows = static.bert.rows / np.linalg.norm(static.bert.rows, axis=1, keepdims=True)
  np.testing.assert_allclose(rows, words, atol=1e-5)


def test_accents_stay_and_other_tokens_are_counted(bert_arrays, tmp_path, caplog):
  """A warning counts the texts that KerasHub cuts otherwise."""
  folder = write_preset(tmp_path / "preset", "BertBackbone", bert_arrays)
  tokenizer = SentenceEncoder.from_pretrained(folder).tokenizer
  assert tokenizer.settings["strip_accents"] is False
  tokenizer(["a dog", "Dögs 'b'", "b — a"])
  assert "KerasHub" not in caplog.text
  tokenizer(["a dog", "a\u00a0dog", "a\x07b", "\uff21 cat"])
  assert "other tokens to 3 of 4 texts" in caplog.text


def test_backbone_without_tokenizer(bert_arrays, tmp_path, caplog):
  """The error names vocab_file, which then is the vocabulary; its letters decide the case."""
  folder = write_preset(tmp_path / "preset", "BertBackbone", bert_arrays, tokenizer=False)
  with rejected(EncoderError, "vocab_file", "tokenizer.save_to_preset"):
    SentenceEncoder.from_pretrained(folder)
  vocabulary = tmp_path / "pieces.txt"
  vocabulary.write_text("".join(f"{piece}\n" for piece in VOCABULARY))
  encoder = SentenceEncoder.from_pretrained(folder, vocab_file=vocabulary)
  assert encoder.tokenizer(["Dog"])[0].tolist() == [2, VOCABULARY.index("Dog"), 3]
  vocabulary.write_text("".join(f"{piece.replace('Dog', 'dög')}\n" for piece in VOCABULARY))
  encoder = SentenceEncoder.from_pretrained(folder, vocab_file=vocabulary)
  assert encoder.tokenizer(["DÖG"])[0].tolist() == [2, VOCABULARY.index("Dog"), 3]
  assert "KerasHub" not in caplog.text  # its tokenizer lower-cases, too


def test_rejections(bert_arrays, tmp_path):
  """Other classes, quantizations, arrays and damaged files: one sentence, which names the file and what is expected."""
  folder = write_preset(tmp_path / "preset", "BertBackbone", bert_arrays)

  def error(name, content):
    before = (folder / name).read_bytes()
    (folder / name).unlink()  # HDF5 still has the former file open
    (folder / name).write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    with pytest.raises(EncoderError) as raised:
      SentenceEncoder.from_pretrained(folder)
    (folder / name).unlink()
    (folder / name).write_bytes(before)
    assert "\n" not in str(raised.value)
    return str(raised.value)

  values = json.loads((folder / "config.json").read_text())
  config = values["config"]
  assert "GPT2Backbone, expected" in error("config.json", {**values, "registered_name": "keras_hub>GPT2Backbone"})
  assert "num_layers" in error("config.json", {**values, "config": {**config, "num_layers": "2"}})
  assert "3 heads" not in error("config.json", {**values, "config": {**config, "num_heads": 4}})
  assert "unknown, first" in error("config.json", {**values, "config": {**config, "num_layers": 1}})
  assert "missing, first" in error("config.json", {**values, "config": {**config, "num_layers": 3}})
  assert "use_rope" in error("config.json", {**values, "config": {**config, "use_rope": True}})
  for mode in ("int4", "float8"):
    policy = {"config": {"policy_map": {"dense": {"config": {"mode": f"{mode}/128"}}}}}
    assert f"quantized to {mode}" in error("config.json", {**values, "config": {**config, "dtype": policy}})
  assert "git lfs pull" in error("model.weights.h5", b"version https://git-lfs.github.com/spec/v1\n")
  assert "download" in error("model.weights.h5", (folder / "model.weights.h5").read_bytes()[:900])
  assert "JSON" in error("config.json", b"{")
  tokenizer = {"registered_name": "keras_hub>BertTokenizer", "config": {"split": False}}
  assert "split is" in error("tokenizer.json", tokenizer)
  (folder / "model.weights.h5").rename(tmp_path / "weights")
  assert "no weights" in error("config.json", values)
  (folder / "model.weights.json").write_text('{"weight_map": {"/layers/dense/vars": ["gone.h5"]}}')
  assert "gone.h5" in error("config.json", values)
  (folder / "config.json").unlink()
  with pytest.raises(EncoderError, match="without its backbone"):
    SentenceEncoder.from_pretrained(folder)


@pytest.mark.parametrize(
  "name", ["kaggle://keras/bert/keras/bert_base_en", "hf://keras/bert_base_en", "bert_base_en", "my_model"]
)
def test_handles(name):
  """A handle is no folder; the error says how to get one, then which names there are: others have a handle's form."""
  expected = "preset of KerasHub is given by its folder.*save_to_preset.*expected mini.*saved_model:"
  if name.startswith("hf:"):
    expected = f"save_to_preset.* hub id {name.removeprefix('hf://')};"
  with rejected(EncoderError, "model", expected):
    SentenceEncoder.from_pretrained(name)


def test_files_and_objects_in_place_of_a_preset(bert_arrays, tmp_path):
  """The error says what to give: the folder of a file, the folder that an object is saved to, no conversion."""
  folder = write_preset(tmp_path / "preset", "BertBackbone", bert_arrays)
  for prefix in ("", "static:"):
    with rejected(EncoderError, "model", f"a file, expected .*; give its folder, {prefix}{folder}$"):
      SentenceEncoder.from_pretrained(f"{prefix}{folder / 'model.weights.h5'}")
  (tmp_path / "bert.keras").touch()
  with rejected(EncoderError, "model", r"a file, expected .*tokenizer\.save_to_preset\(FOLDER\)$"):
    SentenceEncoder.from_pretrained(tmp_path / "bert.keras")
  for path in (folder, folder / "model.weights.h5"):
    with rejected(EncoderError, "tf1_checkpoint", f"preset of KerasHub, .* no conversion: give --model={folder};"):
      write_folders(str(path), str(tmp_path / "out"))
  backbone = type("BertBackbone", (tf.Module,), {"__module__": "keras_hub.src.models.bert.bert_backbone"})
  mend = r"got Mine of KerasHub: save it by backbone\.save_to_preset\(FOLDER\) .*from_pretrained\(FOLDER\)"
  with rejected(EncoderError, "bert", mend):
    SentenceEncoder(type("Mine", (backbone,), {})(), folder)


def test_snapshot_of_the_hub(bert_arrays, tmp_path):
  """A preset in the hub's cache is loaded by its id."""
  write_preset(hub_folder(tmp_path, "keras/tiny", "main"), "BertBackbone", bert_arrays)
  encoder = SentenceEncoder.from_pretrained("keras/tiny", cache_dir=tmp_path)
  assert encoder.num_hidden_layers == BLOCKS and encoder.revision
