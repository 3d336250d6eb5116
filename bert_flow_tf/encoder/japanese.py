"""Japanese BERT: words by MeCab, Sudachi or Juman++, as in transformers, which have no form as a TensorFlow graph."""

import pathlib
from typing import Any

import transformers

from bert_flow_tf.encoder.folder_tokenizer import Pieces
from bert_flow_tf.encoder.tokenizer import SPECIALS, SentenceTokenizer
from bert_flow_tf.errors import EncoderError

# Of tokenizer_config.json, which the ids depend on.
_SETTINGS = ("do_lower_case", "word_tokenizer_type", "subword_tokenizer_type", "mecab_kwargs", "sudachi_kwargs")


class JapaneseTokenizer(SentenceTokenizer):
  """Tokenizer of a folder whose tokenizer_class is BertJapaneseTokenizer."""

  def __init__(self, folder: pathlib.Path, chosen: dict[str, Any]) -> None:
    """Loads it; of `chosen`, do_lower_case replaces the files' setting."""
    options = {}
    if chosen.get("do_lower_case") is not None:
      options["do_lower_case"] = chosen["do_lower_case"]
    try:
      words = transformers.BertJapaneseTokenizer.from_pretrained(str(folder), **options)
    except Exception as error:  # of the packages that find words
      reason = str(error).strip().splitlines() or [type(error).__name__]
      mend = "its words need packages: pip install fugashi unidic-lite ipadic, or sudachipy"
      raise EncoderError(f"{folder}: no Japanese tokenizer ({reason[0][:200]}); {mend}") from error
    if words.subword_tokenizer_type == "sentencepiece":
      raise EncoderError(f"{folder}: subword_tokenizer_type is 'sentencepiece', expected 'wordpiece' or 'character'")
    specials: dict[str, Any] = {name: str(getattr(words, name)) for name in SPECIALS}
    super().__init__(folder / "vocab.txt", words.do_lower_case, **specials)
    self.words_by = words.word_tokenizer_type
    self.settings = {name: getattr(words, name, None) for name in _SETTINGS}
    self.settings["tokenizer_class"] = type(words).__name__  # for a folder that it is written into
    self._pieces = _Pieces(words, *self.special_ids[:2])


class _Pieces(Pieces):
  def _ids(self, texts):
    tokens = [self._tokenizer.tokenize(text, split_special_tokens=True) for text in texts]
    return map(self._tokenizer.convert_tokens_to_ids, tokens)
