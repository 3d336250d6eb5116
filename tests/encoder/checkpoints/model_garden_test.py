"""Tests of encoders of the Model Garden and of TensorFlow Hub: golden folders, and folders written by hand."""

import json

import numpy as np
import pytest
import tensorflow as tf

from bert_flow_tf import SentenceEncoder, SentenceModel
from bert_flow_tf.encoder.saving import save_encoder
from bert_flow_tf.encoder.transformer.config import EncoderConfig
from bert_flow_tf.encoder.transformer.transformer import path_of_variable
from bert_flow_tf.encoder.transformer.weights import from_pytorch, make_transformer, name_of_path, shapes_of
from bert_flow_tf.errors import ConfigError, EncoderError
from bert_flow_tf.tf1.read import write_folders
from bert_flow_tf.tf1.training import restore
from bert_flow_tf.training.siamese.objectives import Classifier
from tests.encoder import tiny
from tests.encoder.checkpoints import garden_files, tf1_files
from tests.encoder.tiny import IDS, MASK
from tests.pages import read_blocks
from tests.testing import rejected, shared

CONFIG = {**tiny.CONFIG, "hidden_act": "gelu_new"}
BERT, ALBERT, NARROW = "bert", "albert", "electra"
TEXTS = ["a dog.", "Cat dogs [mask] b", "dog " * 9]


def random_bert(model_type=BERT, seed=0, **changes):
  """Returns a `Transformer` of random weights, large enough that no non-linearity is nearly linear."""
  values = {**CONFIG, "model_type": model_type, **changes}
  if model_type in (ALBERT, NARROW):
    values.setdefault("embedding_size", 8)
  config, rng = EncoderConfig(values), np.random.default_rng(seed)
  has_pooler = bool(config.architecture.pooler)
  arrays = {
    path: lambda shape=shape: rng.normal(0, 0.5, shape).astype(np.float32)
    for path, shape in shapes_of(config, has_pooler).items()
  }
  return make_transformer(config, arrays, has_pooler, "a test")


def check_equal(folder, bert, **given):
  """Loads a folder, and compares all hidden states and the pooled output with a model's."""
  encoder = SentenceEncoder.from_pretrained(str(folder), **given)
  expected, got = (garden_files.states(model, IDS, MASK) for model in (bert, encoder.bert))
  np.testing.assert_array_equal(got, expected)
  pooled = [model(tf.constant(IDS), tf.constant(MASK))[1] for model in (bert, encoder.bert)]
  assert (pooled[0] is None) == (pooled[1] is None)
  if pooled[0] is not None:
    np.testing.assert_array_equal(*pooled)
  assert encoder.bert.config.architecture is bert.config.architecture
  return encoder


@pytest.fixture(scope="module")
def hub_encoder():
  """Returns the Hub's encoder, as its users call it."""
  return tf.saved_model.load(str(shared("golden_tf/hub/encoder")))


@pytest.fixture(scope="module")
def hub_states(hub_encoder):
  """Returns texts, their number of tokens with padding, and the Hub's states of them, avg-first-last."""
  pytest.importorskip("tensorflow_text")
  preprocessing = tf.saved_model.load(str(shared("golden_tf/hub/preprocessing")))
  texts = ["A man is eating.", "Café, 東京: 10,000 trees!", "", "x" * 100, "x" * 101, "A DOG isn't a cat " * 9]
  inputs = preprocessing(tf.constant(texts))
  outputs = hub_encoder(inputs)
  mask = tf.cast(inputs["input_mask"], tf.float32)[..., None]
  mean = (outputs["encoder_outputs"][0] + outputs["encoder_outputs"][-1]) / 2
  return texts, mask.shape[1], tf.reduce_sum(mean * mask, 1) / tf.reduce_sum(mask, 1)


@pytest.mark.parametrize("name", ["model_garden", "hub/encoder"])
def test_golden_folders(name, engine, request):
  """Numbers of tf-models-official; the Hub's encoder computes its own."""
  folder = shared(f"golden_tf/{name}")
  reference = np.load(shared("golden_tf/model_garden/reference.npz"))
  ids, mask = reference["ids"], reference["mask"]
  if name == "model_garden":
    first, last, pooled = reference["first"], reference["last"], reference["pooled"]
  else:
    inputs = {"input_word_ids": ids, "input_mask": mask, "input_type_ids": np.zeros_like(ids)}
    outputs = request.getfixturevalue("hub_encoder")({key: tf.constant(value) for key, value in inputs.items()})
    first, last = (outputs["encoder_outputs"][block].numpy() for block in (0, -1))
    pooled = outputs["pooled_output"].numpy()
  encoder = SentenceEncoder.from_pretrained(str(folder), engine=engine)
  share = mask[..., None] / mask.sum(1)[:, None, None]
  expected = {
    "avg": (last * share).sum(1),
    "avg-first-last": ((first + last) / 2 * share).sum(1),
    "cls": pooled,
    "cls-token": last[:, 0],
  }
  for pooling, vectors in expected.items():
    np.testing.assert_allclose(tiny.embed_padded(encoder, ids, mask, pooling), vectors, atol=1e-5)
  if engine == "tensorflow":  # which computes the graphs of both
    graph = tf.function(lambda ids, mask: {name: encoder.embed_batch(ids, mask, name) for name in expected})
    for pooling, vectors in graph(tf.constant(ids), tf.constant(mask)).items():
      np.testing.assert_allclose(vectors, expected[pooling], atol=1e-5)


def test_golden_pair_from_texts(hub_states, engine):
  """The Hub's preprocessing and encoder, against our tokenizer and transformer."""
  texts, length, expected = hub_states
  encoder = SentenceEncoder.from_pretrained(str(shared("golden_tf/hub/encoder")), engine=engine)
  np.testing.assert_allclose(encoder.encode(texts, max_seq_length=length), expected, atol=1e-5)
  if engine == "tensorflow":
    of_text = SentenceModel(encoder, max_seq_length=length).as_function()
    np.testing.assert_allclose(of_text(tf.constant(texts)), expected, atol=1e-5)


def test_the_pages_pair(tmp_path, monkeypatch):
  """docs/encoders.md: a preprocessing and an encoder, as one SavedModel, equal the encoder that is read as a BERT."""
  pytest.importorskip("tensorflow_text")
  (code,) = [block.text for block in read_blocks("docs/encoders.md") if "class Pair" in block.text]
  (tmp_path / "hub").mkdir()
  for part in ("preprocessing", "encoder"):
    (tmp_path / "hub" / part).symlink_to(shared(f"golden_tf/hub/{part}"))
  monkeypatch.chdir(tmp_path)
  exec(code, {})
  pair = SentenceModel.from_pretrained("saved_model:hub/pair")
  model = SentenceModel.from_pretrained("hub/encoder")
  np.testing.assert_allclose(pair.encode(TEXTS), model.encode(TEXTS), atol=1e-5)


def test_hidden_states_equal_numpys(tmp_path):
  weights = tiny.random_weights()
  config = EncoderConfig(CONFIG)
  arrays = {}
  for path in shapes_of(config, True):
    arrays[path] = lambda path=path: from_pytorch(path, weights[f"bert.{name_of_path(path)}"])
  bert = make_transformer(config, arrays, True, "a test")
  expected, pooled = tiny.numpy_bert(weights, IDS, MASK, CONFIG)
  for named in (False, True):
    folder = garden_files.write_checkpoint(tmp_path / str(named), bert, named=named)
    encoder = SentenceEncoder.from_pretrained(str(folder))
    states = garden_files.states(encoder.bert, IDS, MASK)
    np.testing.assert_allclose(states, np.stack(expected) * MASK[..., None], atol=2e-5)
    np.testing.assert_allclose(encoder.bert(tf.constant(IDS), tf.constant(MASK))[1], pooled, atol=2e-5)


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("model_type", [BERT, NARROW, ALBERT])
def test_encoders(tmp_path, model_type, named):
  bert = random_bert(model_type)
  config = {"num_hidden_layers": 3} if model_type == ALBERT else None
  folder = garden_files.write_checkpoint(tmp_path / "garden", bert, config, named)
  encoder = check_equal(folder, bert)
  np.testing.assert_array_equal(
    SentenceEncoder.from_pretrained(f"static:{folder}", token_weights="uniform").bert.word_embeddings,
    next(weight for weight in bert.weights if "word_embeddings" in path_of_variable(weight)),
  )
  vectors = encoder.encode(TEXTS)
  save_encoder(encoder, tmp_path / "saved")
  saved = check_equal(tmp_path / "saved", bert)
  assert not saved.identity("avg").differences(encoder.identity("avg"))
  np.testing.assert_array_equal(saved.encode(TEXTS), vectors)


def test_albert_whose_embeddings_are_as_wide_as_its_states(tmp_path):
  bert = random_bert(ALBERT, embedding_size=12)
  for weight in bert.weights:
    if "hidden_mapping" in path_of_variable(weight):
      weight.assign(np.eye(12) if weight.shape.rank == 2 else np.zeros(12))
  folder = garden_files.write_checkpoint(tmp_path, bert, {"num_hidden_layers": 3})
  prefix = str(folder / "bert_model.ckpt")
  model = garden_files.objects(bert)
  kept = [f"layer_with_weights-{number}" for number in (0, 1, 2, 3, 5, 6)]
  renumbered = tf.Module()
  for number, name in enumerate(kept):
    setattr(renumbered, f"layer_with_weights-{number}", getattr(model, name))
  tf.train.Checkpoint(model=renumbered).write(prefix)
  check_equal(folder, bert)


def test_prefixes_and_a_trainers_checkpoint(tmp_path):
  """Heads, slots and counters are left out; the shortest path to the word embeddings may be a head's."""
  bert, other = random_bert(), random_bert(seed=1)
  garden_files.write_vocabulary(tmp_path)
  model = garden_files.objects(bert)
  tf.train.Checkpoint(model=model).write(str(tmp_path / "model"))
  tf.train.Checkpoint(model).write(str(tmp_path / "none"))
  trained = garden_files.objects(bert, named=True)
  pretrainer, head = tf.Module(), tf.Module()
  pretrainer.encoder_network, pretrainer.masked_lm = trained, head
  head.embedding_table, head.bias = trained._embedding_layer.embeddings, tf.Variable(tf.zeros([24]))
  optimizer = tf.Module()
  optimizer._variables = [tf.Variable(variable) for variable in trained.trainable_variables]
  step = tf.Variable(7, dtype=tf.int64)
  checkpoint = tf.train.Checkpoint(model=pretrainer, optimizer=optimizer, global_step=step, masked_lm=head)
  checkpoint.write(str(tmp_path / "trainer"))
  keys = dict(tf.train.list_variables(str(tmp_path / "trainer")))
  assert not any("_embedding_layer/embeddings" in key for key in keys if "position" not in key and "type" not in key)
  for name in ("model", "none", "trainer"):
    check_equal(tmp_path / name, bert)
  garden_files.write_vocabulary(tmp_path / "run")
  checkpoint = tf.train.Checkpoint(model=garden_files.objects(other))
  manager = tf.train.CheckpointManager(checkpoint, str(tmp_path / "run"), max_to_keep=2)
  manager.save(1)
  checkpoint.model = garden_files.objects(bert)
  manager.save(2)
  check_equal(tmp_path / "run", bert)
  check_equal(tmp_path / "run/ckpt-1", other)
  check_equal(tmp_path / "model", bert, vocab_file=str(tmp_path / "run/vocab.txt"))


@pytest.mark.parametrize("prefix", ["", "bert_encoder_v2/"])
def test_saved_model_of_names(tmp_path, prefix, caplog):
  bert = random_bert()
  folder = garden_files.write_saved_model(tmp_path / "encoder", bert, prefix, lower=False)
  encoder = check_equal(folder, bert)
  assert not encoder.tokenizer.do_lower_case and encoder.tokenizer.settings["max_input_chars_per_word"] == 100
  assert SentenceEncoder.load(encoder.settings, do_lower_case=True).tokenizer.do_lower_case
  save_encoder(encoder, tmp_path / "saved")
  assert (
    not SentenceEncoder.from_pretrained(str(tmp_path / "saved")).identity("avg").differences(encoder.identity("avg"))
  )
  folder = garden_files.write_saved_model(tmp_path / "lower", bert, prefix)
  with caplog.at_level("INFO", logger="absl"):
    assert SentenceEncoder.from_pretrained(str(folder)).tokenizer.do_lower_case
  assert "no do_lower_case" not in caplog.text  # the variable declares it


def test_a_tokenizer_config_beside_it_decides_the_letter_case(tmp_path, caplog):
  """It decides for Google's two kinds of folders and for the Hub's, whose variable says something else."""
  bert = random_bert()
  folders = {
    "google": tf1_files.write_google(tmp_path / "google", tf1_files.google_variables()),
    "garden": garden_files.write_checkpoint(tmp_path / "garden_uncased", bert),
    "hub": garden_files.write_saved_model(tmp_path / "hub", bert, lower=True),
  }
  for folder in folders.values():
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": false, "strip_accents": false}')
  with caplog.at_level("INFO", logger="absl"):
    for name in (*folders.values(), folders["garden"] / "bert_model.ckpt", folders["google"] / "bert_model.ckpt"):
      tokenizer = SentenceEncoder.from_pretrained(str(name)).tokenizer
      assert tokenizer.settings["do_lower_case"] is False and tokenizer.settings["strip_accents"] is False
      assert tokenizer(["Dog"])[0].tolist() == [2, tiny.VOCABULARY.index("Dog"), 3]
  assert "no do_lower_case" not in caplog.text and "in place of the SavedModel's True" in caplog.text
  for name, folder in folders.items():
    assert "do_lower_case is False" in write_folders(str(folder), str(tmp_path / "out" / name))
  (folders["hub"] / "tokenizer_config.json").write_text('{"do_lower_case": null}')
  assert SentenceEncoder.from_pretrained(str(folders["hub"])).tokenizer.do_lower_case
  (folders["hub"] / "tokenizer_config.json").write_text('{"do_lower_case": "no"}')
  with pytest.raises(EncoderError, match=r"hub/tokenizer_config\.json: do_lower_case is 'no', expected true or false"):
    SentenceEncoder.from_pretrained(str(folders["hub"]))


def test_a_configuration_beside_it(tmp_path):
  """The activation of a bert_config.json or params.yaml counts, as Google's GELU; other sizes are an error."""
  bert = random_bert()
  folder = garden_files.write_checkpoint(tmp_path, bert, tf1_files.GOOGLE_CONFIG)
  check_equal(folder, bert)
  relu = random_bert(hidden_act="relu")
  check_equal(folder, relu, hidden_act="relu")
  (folder / "bert_config.json").write_text('{"hidden_act": "relu"}')
  check_equal(folder, relu)
  (folder / "bert_config.json").unlink()
  encoder = {"hidden_activation": "relu", "hidden_size": 12, "num_layers": 3, "norm_first": False}
  params = {"task": {"model": {"encoder": {"type": "bert", "bert": encoder}}, "train_data": {"seq_length": 128}}}
  (folder / "params.yaml").write_text(json.dumps(params))  # JSON is YAML, too
  check_equal(folder, relu)
  encoder["num_attention_heads"] = 4
  (folder / "params.yaml").write_text(json.dumps(params))
  with pytest.raises(EncoderError, match=r"params.yaml: num_attention_heads is 4, .* have 3; "):
    SentenceEncoder.from_pretrained(str(folder))


def _other_sizes(folder):
  (folder / "bert_config.json").write_text(json.dumps({**tf1_files.GOOGLE_CONFIG, "num_hidden_layers": 4}))


def _without(folder, *names):
  encoder = garden_files.objects(random_bert(), named=True)
  for name in names:
    delattr(encoder, name)
  tf.train.Checkpoint(encoder=encoder).write(str(folder / "bert_model.ckpt"))


def _two_encoders(folder):
  encoders = [garden_files.objects(random_bert(seed=seed)) for seed in (0, 1)]
  tf.train.Checkpoint(teacher=encoders[0], student=encoders[1]).write(str(folder / "bert_model.ckpt"))


def _block_of_another_size(folder):
  encoder = garden_files.objects(random_bert(), named=True)
  encoder._transformer_layers[1]._intermediate_dense.kernel = tf.Variable(tf.zeros([12, 16]))
  tf.train.Checkpoint(encoder=encoder).write(str(folder / "bert_model.ckpt"))


def _params(folder, text):
  (folder / "params.yaml").write_text(text)


def _cut(path, size):
  path.write_bytes(path.read_bytes()[:size])


DATA = "bert_model.ckpt.data-00000-of-00001"
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"
# {name: (change of a folder of a BertEncoder, expected message)}
REJECTED = {
  "other sizes": (_other_sizes, "num_hidden_layers is 4, and the weights .* have 3; "),
  "no positions": (lambda folder: _without(folder, "_position_embedding_layer"), "no position_embedding/embeddings; "),
  "no normalization": (lambda folder: _without(folder, "_embedding_norm_layer"), "no embeddings/LayerNorm/gamma"),
  "no blocks": (lambda folder: _without(folder, "_transformer_layers"), "without an encoder of the Model Garden"),
  "two encoders": (_two_encoders, "2 encoders, at student, teacher; "),
  "a block of another size": (_block_of_another_size, r"shape \[12, 16\], which is not \[12, 20\]"),
  "another model": (
    lambda folder: tf.train.Checkpoint(t5=tf.Module(), step=tf.Variable(1)).write(str(folder / "bert_model.ckpt")),
    r"its objects are step, t5\)",
  ),
  "another type": (lambda folder: _params(folder, "encoder: {type: mobilebert, mobilebert: {}}"), "type mobilebert"),
  "norm first": (lambda folder: _params(folder, "encoder: {bert: {norm_first: true}}"), "norm_first is true"),
  "not YAML": (lambda folder: _params(folder, "a: [1"), "cannot be read as YAML"),
  "no vocabulary": (lambda folder: (folder / "vocab.txt").unlink(), "no vocabulary; .* vocab_file"),
  "another vocabulary": (
    lambda folder: (folder / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", *"abcdefghij"] * 9)),
    "word pieces",
  ),
  "a damaged index": (lambda folder: _cut(folder / "bert_model.ckpt.index", 99), "cannot be read"),
  "damaged data": (lambda folder: _cut(folder / DATA, 999), "cannot be read"),
  "no data": (lambda folder: (folder / DATA).unlink(), "cannot be read"),
  "a pointer": (lambda folder: (folder / DATA).write_text(POINTER), "git lfs pull"),
  "an index that is a pointer": (
    lambda folder: (folder / "bert_model.ckpt.index").write_text(POINTER),
    "git lfs pull",
  ),
  "two kinds": (lambda folder: (folder / "saved_model.pb").touch(), "a SavedModel and a checkpoint"),
}


@pytest.mark.parametrize("name", REJECTED)
def test_rejected(tmp_path, name):
  change, expected = REJECTED[name]
  folder = garden_files.write_checkpoint(tmp_path, random_bert())
  change(folder)
  with pytest.raises(EncoderError, match=expected) as raised:
    SentenceEncoder.from_pretrained(str(folder))
  message = str(raised.value)
  assert str(folder) in message and "\n" not in message and len(message) < 600


def test_a_saved_model_without_its_program(tmp_path):
  folder = garden_files.write_saved_model(tmp_path / "hub", random_bert())
  (folder / "saved_model.pb").unlink()
  expected = r"hub: variables/ of a SavedModel without its saved_model\.pb; copy"
  for name in (folder, f"static:{folder}"):
    with pytest.raises(EncoderError, match=expected):
      SentenceEncoder.from_pretrained(str(name))
  with rejected(EncoderError, "tf1_checkpoint", expected):
    write_folders(str(folder), str(tmp_path / "out"))


def test_rejected_saved_models(tmp_path):
  folder = garden_files.write_saved_model(tmp_path / "hub", random_bert())
  with rejected(EncoderError, "model", match=f"takes ids; give model={folder}"):
    SentenceModel.from_pretrained(f"saved_model:{folder}")
  (folder / "assets/vocab.txt").unlink()
  with pytest.raises(EncoderError, match="assets: no vocabulary"):
    SentenceEncoder.from_pretrained(str(folder))
  with pytest.raises(EncoderError, match=r"no config.json; .* \(hub\)"):
    SentenceEncoder.from_pretrained(str(tmp_path))
  other = tf.Module()
  other.weights = [tf.Variable(1.0, name="dense/kernel")]
  tf.saved_model.save(other, str(tmp_path / "other"))
  with pytest.raises(EncoderError, match=r"without the variables of a BERT \(1 variables, first dense/kernel"):
    SentenceEncoder.from_pretrained(str(tmp_path / "other"))
  preprocessing = tf.Module()

  @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
  def call(texts):
    return {"input_word_ids": tf.zeros([tf.size(texts), 9], tf.int32)}

  preprocessing.__call__ = call
  tf.saved_model.save(preprocessing, str(tmp_path / "pre"), signatures=call)
  with rejected(EncoderError, "model", match="a preprocessing of TensorFlow Hub"):
    SentenceModel.from_pretrained(f"saved_model:{tmp_path / 'pre'}")


def test_albert_without_a_number_of_blocks(tmp_path):
  folder = garden_files.write_checkpoint(tmp_path, random_bert(ALBERT))
  with pytest.raises(EncoderError, match=r"an ALBERT, .* num_hidden_layers"):
    SentenceEncoder.from_pretrained(str(folder))
  with rejected(ConfigError, "bert_config_file"):
    SentenceEncoder.from_pretrained(str(folder), bert_config_file=str(tmp_path / "absent"))


def test_convert(tmp_path):
  """The folder of a converted checkpoint or SavedModel is the same encoder, and conversion.json lists the rest."""
  bert, step = random_bert(), tf.Variable(1)
  folders = {
    "checkpoint": garden_files.write_checkpoint(tmp_path / "checkpoint", bert, step=step),
    "hub": garden_files.write_saved_model(tmp_path / "hub", bert),
  }
  left_out = {"checkpoint": "step", "hub": "do_lower_case"}
  for name, folder in folders.items():
    lines = write_folders(str(folder), str(tmp_path / "out" / name))
    encoder = check_equal(tmp_path / "out" / name / "encoder", bert)
    assert not encoder.identity("avg").differences(SentenceEncoder.from_pretrained(str(folder)).identity("avg"))
    variables = json.loads((tmp_path / "out" / name / "conversion.json").read_text())["variables"]
    assert len(variables["encoder"]) == len(bert.weights) and "encoder" in lines[1]
    assert any(key.startswith(left_out[name]) for key in variables["left_out"])


def test_a_fine_tuning_starts_from_it(tmp_path):
  """Such a checkpoint has no flow and no classifier of the original, whose variables keep their values."""
  folder = garden_files.write_checkpoint(tmp_path, random_bert())
  classifier = Classifier.initial(8, ["yes", "no"])
  assert restore(str(folder / "bert_model.ckpt"), None, classifier) == {"classifier": (0, 1)}
