"""Ids of Japanese BERTs against those of transformers."""

import importlib.util
import json

import numpy as np
import pytest
import transformers

from bert_flow_tf import SentenceEncoder
from bert_flow_tf.encoder.tokenizer import SentenceTokenizer
from bert_flow_tf.errors import EncoderError
from tests.encoder.odd_text import odd_texts

SENTENCES = [
  "彼はギターを弾いている。",
  "ステージで男性が演奏しています",
  "東京タワーは、日本の首都にある。",
  "ﾊﾝｶｸ ABC 123",
  "",
  " \n ",
]
DICTIONARIES = [name for name in ("unidic_lite", "ipadic") if importlib.util.find_spec(name)]
NEEDS_MECAB = pytest.mark.skipif(
  not (importlib.util.find_spec("fugashi") and DICTIONARIES), reason="MeCab: pip install fugashi unidic-lite"
)


def save(folder, subword, dictionary):
  """Writes a Japanese BERT's vocabulary, with the characters of the sentences, and its settings."""
  pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "ギター", "東京", "##タワー", "タワー", "いる", "##して"]
  characters = sorted({character for text in SENTENCES for character in text})
  pieces += [prefix + character for character in characters for prefix in ("", "##")]
  (folder / "vocab.txt").write_text("\n".join(dict.fromkeys(pieces)) + "\n", encoding="utf-8")
  settings = {"tokenizer_class": "BertJapaneseTokenizer", "word_tokenizer_type": "mecab", "do_lower_case": False}
  settings |= {"subword_tokenizer_type": subword, "mecab_kwargs": {"mecab_dic": dictionary}}
  (folder / "tokenizer_config.json").write_text(json.dumps(settings))
  return folder


@NEEDS_MECAB
@pytest.mark.parametrize("subword", ["wordpiece", "character"])
def test_ids_of_transformers(tmp_path, subword):
  texts = SENTENCES + [text.replace("[MASK]", "") for text in odd_texts(300)]
  for dictionary in DICTIONARIES:
    folder = save(tmp_path, subword, dictionary)
    expected = transformers.BertJapaneseTokenizer.from_pretrained(str(folder))
    ids = SentenceTokenizer.from_pretrained(folder)(texts, max_seq_length=32)
    for text, row in zip(texts, ids, strict=True):
      assert row.tolist() == expected(text, truncation=True, max_length=32)["input_ids"]
    assert np.count_nonzero(np.concatenate(ids[:3]) == 1) == 0


@NEEDS_MECAB
def test_no_graph_form(tmp_path):
  graph_tokenizer = pytest.importorskip("bert_flow_tf.encoder.graph_tokenizer")
  tokenizer = SentenceTokenizer.from_pretrained(save(tmp_path, "wordpiece", DICTIONARIES[0]))
  with pytest.raises(EncoderError, match="no form as a TensorFlow graph: its words are found by mecab; use ids"):
    graph_tokenizer.GraphTokenizer(tokenizer)


def test_an_encoder_of_a_model_and_its_tokenizer(tmp_path):
  # Found without a package: words between spaces.
  config = save(tmp_path, "character", "") / "tokenizer_config.json"
  config.write_text(json.dumps(json.loads(config.read_text()) | {"word_tokenizer_type": "basic"}))
  tokenizer = SentenceTokenizer.from_pretrained(tmp_path)
  sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
  model = transformers.TFBertModel(transformers.BertConfig(vocab_size=tokenizer.vocab_size, **sizes))
  encoder = SentenceEncoder(model, tokenizer)
  for ours, expected in zip(encoder.tokenizer(SENTENCES), tokenizer(SENTENCES), strict=True):
    assert ours.tolist() == expected.tolist()


def test_a_missing_package_is_named(tmp_path):
  with pytest.raises(EncoderError, match="pip install fugashi"):
    SentenceTokenizer.from_pretrained(save(tmp_path, "wordpiece", "no-such-dictionary"))
