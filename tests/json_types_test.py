"""A value of any JSON type, in any key that is read, is rejected in a sentence or loads: no other error."""

import json

import numpy as np
import pytest

from bert_flow_tf import SentenceEncoder, SentenceModel
from bert_flow_tf.calibration.names import make_calibration
from bert_flow_tf.corpus import EmbeddingJob, JobSettings
from bert_flow_tf.corpus.shard_plan import find_inputs
from bert_flow_tf.encoder.checkpoints.declared import read_declared
from bert_flow_tf.encoder.checkpoints.files import EncoderFiles
from bert_flow_tf.encoder.text.folder import load_tokenizer
from bert_flow_tf.encoder.transformer.config import EncoderConfig
from bert_flow_tf.errors import BertFlowError, ConfigError, EncoderError
from bert_flow_tf.flow.config import FlowConfig
from bert_flow_tf.report.result_files import check_replaceable
from bert_flow_tf.runs.siamese_run import read_facts
from bert_flow_tf.vectors.sentence_index import SentenceIndex
from bert_flow_tf.vectors.vector_folder import VectorFolder, find_vector_files
from tests.corpus import toy
from tests.damage import REFUSED, Case, run_types
from tests.damage_cases import CASES, TEXTS, sentence_transformers
from tests.encoder.other import static_model_test
from tests.encoder.transformer.newer_architectures_test import DEBERTA, MODERNBERT
from tests.testing import rejected
from tests.vectors.toy_folder import embed, needs_faiss

_SPECIALS = ["unk_token", "cls_token", "sep_token", "pad_token", "mask_token"]
# Keys that are read and that the files of the tests do not have.
_KEYS = {
  "config.json": [
    *("position_embedding_type", "is_decoder", "add_cross_attention", "tokenizer_class", "transformers_version"),
    *("hidden_dropout_prob", "attention_probs_dropout_prob", "initializer_range", "pad_token_id", "sha256"),
    *("layer_types", "rope_parameters", "embedding_dropout", "max_length", "normalize"),
  ],
  "tokenizer_config.json": [
    *("strip_accents", "tokenize_chinese_chars", "max_input_chars_per_word", "add_prefix_space", "model_max_length"),
    *_SPECIALS,
  ],
  "special_tokens_map.json": _SPECIALS,
  "sentence_bert_config.json": ["transformer_task", "module_output_name", "processing_kwargs", "tokenizer_args"],
}


def _declaring(folder):
  sentence_transformers(folder)
  (folder / "1_Pooling/config.json").write_text('{"pooling_mode": "mean", "pooling_mode_cls_token": false}')
  prompts = {"prompts": {"query": "q: "}, "default_prompt_name": "query", "truncate_dim": 4}
  (folder / "config_sentence_transformers.json").write_text(json.dumps(prompts))
  transformer = folder / "0_Transformer"
  (transformer / "sentence_bert_config.json").write_text('{"max_seq_length": 12, "do_lower_case": false}')
  (transformer / "added_tokens.json").write_text('{"zebra": 15}')
  added = {"16": {"content": "gnu", "lstrip": True, "special": False}}
  config = json.loads((transformer / "tokenizer_config.json").read_text())
  (transformer / "tokenizer_config.json").write_text(json.dumps(config | {"added_tokens_decoder": added}))


def _declared(folder):
  """Reads all but the weights."""
  declared, files = read_declared(EncoderFiles(folder))
  tokenizer = load_tokenizer(files, "tiny", {"prompt": declared.choose_prompt(None, "tiny")})
  EncoderConfig(files.config)
  return [declared.max_seq_length, declared.unsupported, *tokenizer(TEXTS, 8)]


def _other_tokenizer(folder):
  """A folder whose tokenizer is a tokenizer.json, and whose configuration has most keys."""
  static_model_test.save(folder)
  (folder / "config.json").write_text(json.dumps(MODERNBERT | {"model_type": "electra", "embedding_size": 12}))
  specials = dict.fromkeys(_SPECIALS, "[UNK]")
  (folder / "tokenizer_config.json").write_text(json.dumps(specials | {"cls_token": {"content": "a"}}))
  (folder / "special_tokens_map.json").write_text('{"sep_token": "b"}')


def _config(values):
  def make(folder):
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(values))

  return make


def _vectors(folder):
  embed(folder, [f"sentence {number}" for number in range(9)])


def _vector_folder(folder):
  vectors = VectorFolder.open(str(folder))
  vectors.check()
  return [vectors.rows.take(np.arange(len(vectors.rows))), vectors.id_of(0)]


def _saved_index(folder):
  SentenceIndex.build(np.random.default_rng(0).normal(size=[60, 4])).save(folder)


def _index(folder):
  return SentenceIndex.load(folder).search(np.ones([1, 4]), 3).rows


_FILES = {
  "declarations": Case(_declaring, _declared),
  "tokenizer.json": Case(_other_tokenizer, _declared),
  "ModernBERT": Case(_config(MODERNBERT), lambda folder: vars(EncoderConfig(EncoderFiles(folder).config)) and 0),
  "DeBERTa": Case(_config(DEBERTA), lambda folder: vars(EncoderConfig(EncoderFiles(folder).config)) and 0),
  "vectors": Case(_vectors, _vector_folder),
  "index": Case(_saved_index, _index),
  "results.json, replaced": Case(CASES["results.json"].make, lambda folder: check_replaceable(folder, ["sts-b"], "x")),
  "training.json": Case(CASES["training.json"].make, lambda folder: read_facts(folder).get("step")),
  "a run, drawn again": CASES["a run, drawn again"],
}


_MARKS = {"index": needs_faiss, "vectors": pytest.mark.slow, "a run, drawn again": pytest.mark.slow}


@pytest.mark.parametrize("name", [pytest.param(name, marks=_MARKS.get(name, ())) for name in _FILES])
def test_any_type_in_any_key(name, tmp_path):
  counts, wrong = run_types(_FILES[name], tmp_path, _KEYS)
  assert not wrong, f"{len(wrong)}: " + "\n".join(wrong[:9])
  assert counts[REFUSED] >= 5


def test_a_huge_id_of_a_token(tmp_path):
  """A list of all ids would take gigabytes."""
  for load in (lambda folder: SentenceEncoder.from_pretrained(f"static:{folder}"), _declared):
    folder = tmp_path / load.__name__
    _other_tokenizer(folder)
    if load is not _declared:
      static_model_test.save(folder)
    values = json.loads((folder / "tokenizer.json").read_text())
    values["model"]["vocab"]["dog"] = 2**31
    (folder / "tokenizer.json").write_text(json.dumps(values))
    with rejected(EncoderError, None, match="tokenizer.json: .*'dog' has the id 2147483648"):
      load(folder)


@pytest.mark.parametrize("prompt", ["q\ud83d", 5, ["q"], b"q"])
def test_a_prompt_is_text(prompt, tmp_path):
  model = SentenceModel.from_pretrained("static:mini")
  with rejected(EncoderError, "prompt"):
    model.encode("a dog", prompt=prompt)
  with rejected(ConfigError, "prompt_name"):
    model.encode("a dog", prompt_name=prompt)


@pytest.mark.parametrize("name", ["a\0b", "x" * 5000, "a" + "/b" * 3000, "q\ud83d"])
def test_a_path_that_no_file_can_have(name, tmp_path):
  """Not a raw OSError or ValueError."""
  mean = make_calibration("mean").fit(np.eye(4))
  calls = {
    "model": lambda: SentenceModel.from_pretrained(name),
    "folder": lambda: SentenceModel.load(name),
    "vectors": lambda: VectorFolder.open(name),
    "flow_model_config": lambda: FlowConfig.from_json_file(name),
    "output_dir": lambda: EmbeddingJob(JobSettings(input=(__file__,), output_dir=name)).run(toy.EMBEDDER),
    "input": lambda: find_inputs([name]),
  }
  for argument, call in calls.items():
    with rejected(BertFlowError, argument):
      call()
  for call in (lambda: SentenceModel.from_pretrained(f"saved_model:{name}"), lambda: find_vector_files([name])):
    with pytest.raises(BertFlowError):
      call()
  with rejected(BertFlowError, "folder"):
    mean.save(name)
