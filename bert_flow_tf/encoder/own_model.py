"""A user's own TFBertModel and tokenizer as the parts of a `SentenceEncoder`."""

import json
import os
import pathlib
import shutil
import tempfile
from typing import Any

import transformers

from bert_flow_tf.encoder import architectures, hugging_face
from bert_flow_tf.encoder.bert import BertEncoder
from bert_flow_tf.encoder.declared import Declared
from bert_flow_tf.encoder.source import Source
from bert_flow_tf.encoder.tokenizer import SentenceTokenizer
from bert_flow_tf.errors import EncoderError


def parts_of(model: Any, tokenizer: Any, precision: str) -> tuple[BertEncoder, SentenceTokenizer]:
  """Returns the two parts for a TFBertModel, which stays what it is, and a tokenizer or the folder of one."""
  hugging_face.check_transformers()
  any_model: Any = transformers.TFPreTrainedModel  # whose type has no attributes to mypy
  if not isinstance(model, any_model):
    raise EncoderError(f"bert: expected a transformers.TFBertModel, got {type(model).__name__}", "bert")
  row = architectures.check_model_type("bert.config", model.config.model_type)
  kind = row.class_of("TF{}Model")
  if not isinstance(model, kind):
    head = model  # TFBertForSequenceClassification and the like
    model = kind(head.config)
    setattr(model, row.main, getattr(head, row.main))
  if not model.built:
    model.build_in_name_scope()
  hugging_face.check_config(pathlib.Path("bert.config"), model.config.to_dict())
  name = model.name_or_path or model.name
  # A folder with the files that a loaded encoder has, without weights; it is deleted with the encoder.
  temporary = tempfile.TemporaryDirectory(prefix="bert_flow_tf_")
  folder = pathlib.Path(temporary.name)
  model.config.save_pretrained(folder)
  _write_tokenizer(tokenizer, folder)
  own = SentenceTokenizer.from_pretrained(folder, name)
  own.check_ids(model.config.vocab_size)
  has_pooler = row.has_pooler and architectures.main_layer(model).pooler is not None
  bert = BertEncoder(model, Source(name, folder), folder, has_pooler, precision, Declared(), frozen=False)
  bert.temporary = temporary
  return bert, own


def _write_tokenizer(tokenizer, folder):
  """Writes the files of a tokenizer, or copies those of a folder."""
  if isinstance(tokenizer, SentenceTokenizer):
    for name, content in tokenizer.files().items():
      (folder / name).write_bytes(content)
    settings = json.dumps({**tokenizer.settings, **tokenizer.specials})
    (folder / "tokenizer_config.json").write_text(settings, encoding="utf-8")
  elif isinstance(tokenizer, transformers.BertTokenizer | transformers.PreTrainedTokenizerFast):
    tokenizer.save_pretrained(folder)
  elif isinstance(tokenizer, str | os.PathLike):
    for name in hugging_face.TOKENIZER_FILES:
      path = pathlib.Path(tokenizer).expanduser() / name
      if path.is_file():
        shutil.copy(path, folder)
  else:
    expected = "a BertTokenizer, a fast tokenizer or its folder"
    raise EncoderError(f"tokenizer: expected {expected}, got {type(tokenizer).__name__}", "tokenizer")
