"""Writing of a static model as a folder of model2vec, which sentence-transformers and `static_model` read, too."""

import json
import os
import pathlib
import re
from typing import NamedTuple

import numpy as np
import tokenizers
from safetensors import safe_open
from safetensors.numpy import save_file

from bert_flow_tf.encoder.checkpoints.files import CONFIG
from bert_flow_tf.encoder.other.static_model import CALIBRATION, EMBEDDINGS, TOKEN_WEIGHTS, TOKENIZER_JSON, WEIGHTS
from bert_flow_tf.encoder.text.word_piece import SentenceTokenizer
from bert_flow_tf.encoder.transformer.number_formats import INT8
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.io.files import Json, read_json, temporary_folder, write_text

# Entries of vocabularies that stand for no text, which model2vec leaves out.
_UNUSED = re.compile(r"\[unused[0-9]+\]")
_LARGEST = 127  # of int8
_MODULES = "sentence_transformers.models."


class StaticTable(NamedTuple):
  """Vectors of tokens, of whose mean an embedding is made.

  Attributes:
    rows: float32 [tokens, dim], multiplied by the weights of the tokens; zeros for the unknown token.
    tokenizer: content of tokenizer.json.
    normalizes: whether a mean is divided by its length.
    max_length: largest number of tokens of a text; None for all.
    calibration: name of the calibration in the rows; "" for none.
  """

  rows: np.ndarray
  tokenizer: Json
  normalizes: bool = False
  max_length: int | None = None
  calibration: str = ""


def text_tokenizer(tokenizer: SentenceTokenizer, spaced: bool = False) -> tuple[Json, np.ndarray]:
  """Returns a tokenizer.json of the tokens that text can have, and their ids in `tokenizer`, int64 [tokens].

  Special tokens and [unusedN] are left out, so that these are text in a text; the unknown token stays. The package
  `tokenizers` reads text by it as `tokenizer` does, without [CLS], [SEP] and the prompt.

  Args:
    tokenizer: the tokenizer.
    spaced: whether a text begins with a space for byte-level BPE, so that its first word has the tokens that it has
      elsewhere.
  """
  definition, left_out = tokenizer.reader.definition()
  definition |= {"post_processor": None, "truncation": None, "padding": None}
  model, added, backend = definition["model"], definition["added_tokens"], tokenizer.reader.backend
  ids = tokenizers.Tokenizer.from_str(json.dumps(definition)).get_vocab(with_added_tokens=True)
  special = {*tokenizer.specials.values(), *(token["content"] for token in added if token["special"])} & ids.keys()
  for token in special:
    # Some vocabularies of whole words find them in text.
    if ids[token] not in backend.encode(token, add_special_tokens=False).ids:
      left_out.add(token)
  left_out |= set(filter(_UNUSED.fullmatch, ids))
  kept = {token: row for token, row in ids.items() if token not in left_out or row == tokenizer.unknown_id}
  if model["type"] == "Unigram":
    in_model = {piece for piece, _ in model["vocab"]}
    model["vocab"] = [entry for entry in model["vocab"] if entry[0] in kept]
  else:
    in_model = set(model["vocab"])
  # The numbers of added tokens follow those of the vocabulary.
  order = sorted(kept, key=lambda token: (token not in in_model, kept[token]))
  places = {token: place for place, token in enumerate(order)}
  rows = np.array([kept[token] for token in order])
  if model["type"] != "Unigram":
    model["vocab"] = {token: places[token] for token in order if token in in_model}
  elif model["unk_id"] is not None:
    model["unk_id"] = int(np.flatnonzero(rows == model["unk_id"])[0])
  definition["added_tokens"] = [token for token in added if not token["special"] and token["content"] in places]
  for token in definition["added_tokens"]:
    token["id"] = places[token["content"]]
  if spaced:
    before = definition["pre_tokenizer"] or {}
    for part in (before, *before.get("pretokenizers", ())):
      if part["type"] == "ByteLevel":
        part["add_prefix_space"] = True
  return definition, rows


def write_static_model(folder: pathlib.Path, table: StaticTable, dtype: str, card: str, name: str) -> None:
  """Writes a folder completely or not at all.

  Args:
    folder: a folder that is new or empty.
    table: the vectors and the tokenizer.
    dtype: of the vectors: "float32", "float16" or "int8", which has a scale per token and which sentence-transformers
      cannot read.
    card: text of README.md.
    name: name of the encoder that the vectors are from.

  Raises:
    ConfigError: a number is too large for the type.
    OSError, SafetensorError: the folder cannot be written.
  """
  tensors = _tensors(table.rows, dtype)
  config = {
    "model_type": "model2vec",
    "architectures": ["StaticModel"],
    "tokenizer_name": name,
    "hidden_dim": table.rows.shape[1],
    "seq_length": 1_000_000,
    "normalize": table.normalizes,
    "max_length": table.max_length,
    "embedding_dtype": dtype,
  }
  if table.calibration:
    config[CALIBRATION] = table.calibration
  modules = [{"idx": 0, "name": "0", "path": ".", "type": f"{_MODULES}StaticEmbedding"}]
  if table.normalizes:
    modules.append({"idx": 1, "name": "1", "path": "1_Normalize", "type": f"{_MODULES}Normalize"})
  tokenizer = dict(table.tokenizer)
  if table.max_length is not None:  # which model2vec sets itself
    limit = {"max_length": table.max_length, "stride": 0}
    tokenizer["truncation"] = {"direction": "Right", "strategy": "LongestFirst", **limit}
  with temporary_folder(folder) as temporary:
    save_file(tensors, temporary / WEIGHTS, metadata={"format": "pt"})
    write_text(temporary / TOKENIZER_JSON, json.dumps(tokenizer, ensure_ascii=False))
    write_text(temporary / CONFIG, json.dumps(config, indent=2) + "\n")
    write_text(temporary / "modules.json", json.dumps(modules, indent=2) + "\n")
    write_text(temporary / "README.md", card)
    temporary.rename(folder)


def describe_table(folder: str | os.PathLike) -> str:
  """Returns a line about a folder that `write_static_model` wrote."""
  path = pathlib.Path(os.path.expanduser(folder))
  with safe_open(path / WEIGHTS, "np") as file:
    vectors = file.get_slice(EMBEDDINGS)
  tokens, dim = vectors.get_shape()
  size = sum(each.stat().st_size for each in path.iterdir())
  dtype = read_json(path / CONFIG)["embedding_dtype"]
  return f"{folder}: {tokens:,} tokens, {dim} dimensions, {dtype}, {size / 1e6:.1f} MB"


def _tensors(rows, dtype):
  """Returns {name: array} as model2vec has them."""
  largest = np.abs(rows).max(axis=1)
  if dtype != INT8:
    if largest.max() > np.finfo(dtype).max:
      raise ConfigError(f"dtype={dtype}: the vectors have numbers up to {largest.max():.1g}; give float32", "dtype")
    return {EMBEDDINGS: rows.astype(dtype, order="C")}
  scales = np.where(largest > 0, largest, 1) / _LARGEST
  codes = np.rint(rows / scales[:, np.newaxis]).astype(np.int8, order="C")
  return {EMBEDDINGS: codes, TOKEN_WEIGHTS: scales.astype(np.float32)}
