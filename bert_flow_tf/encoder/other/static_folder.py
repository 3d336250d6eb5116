"""Writing of a static model as a folder of model2vec, which sentence-transformers and `static_model` read, too."""

import json
import os
import pathlib
import re
from typing import NamedTuple

import numpy as np
from safetensors.numpy import save_file

from bert_flow_tf.encoder.text.word_piece import SentenceTokenizer
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.io.files import temporary_folder, write_text

DTYPES = ("float32", "float16", "int8")
# Entries of BERT's vocabularies that no text has, as model2vec leaves them out.
_UNUSED = re.compile(r"\[unused[0-9]+\]")
_LARGEST = 127
_MODULES = "sentence_transformers.models."


class StaticTable(NamedTuple):
  """Vectors of tokens, of whose mean an embedding is made.

  Attributes:
    rows: float64 [tokens, dim], multiplied by the weights of the tokens; zeros for the unknown token.
    tokenizer: content of tokenizer.json.
    normalizes: whether a mean is divided by its length.
    max_length: largest number of tokens of a text; None for all.
  """

  rows: np.ndarray
  tokenizer: str
  normalizes: bool = False
  max_length: int | None = None


def text_tokenizer(tokenizer: SentenceTokenizer, spaced: bool = False) -> tuple[str, np.ndarray]:
  """Returns the tokenizer.json of the tokens that a text can have, and their ids in `tokenizer`, int64 [tokens].

  Special tokens and [unusedN] are left out, and a text that has them is text; the unknown token stays. `spaced`:
  whether a text begins with a space for byte-level BPE, so that its first word has the tokens that it has elsewhere.
  """
  definition = json.loads(tokenizer.backend.to_str())
  definition |= {"post_processor": None, "truncation": None, "padding": None}
  if spaced:
    before = definition["pre_tokenizer"] or {}
    for part in (before, *before.get("pretokenizers", ())):
      if part.get("type") == "ByteLevel":
        part["add_prefix_space"] = True
  model, added = definition["model"], definition["added_tokens"]
  unknown = tokenizer.specials["unk_token"]
  special = {*tokenizer.specials.values(), *(token["content"] for token in added if token["special"])}
  parts = set()
  for merge in model.get("merges") or ():
    first, second = merge.split(" ") if isinstance(merge, str) else merge
    parts |= {first, second, first + second}

  def is_kept(token):
    if token == unknown or token in parts:
      return True
    return token not in special and not _UNUSED.fullmatch(token)

  definition["added_tokens"] = [token for token in added if is_kept(token["content"]) and token["content"] != unknown]
  ids = tokenizer.backend.get_vocab(with_added_tokens=True)
  kept = sorted((row, token) for token, row in ids.items() if is_kept(token))
  places = {token: place for place, (_, token) in enumerate(kept)}
  if model["type"] == "Unigram":
    model["vocab"] = [entry for entry in model["vocab"] if entry[0] in places]
    if model.get("unk_id") is not None:
      model["unk_id"] = places[unknown]
  else:
    model["vocab"] = {token: places[token] for token in model["vocab"] if token in places}
  for token in definition["added_tokens"]:
    token["id"] = places[token["content"]]
  return json.dumps(definition, ensure_ascii=False), np.array([row for row, _ in kept])


def check_new_folder(folder: str | os.PathLike, argument: str) -> pathlib.Path:
  """Returns the path of a folder that is new or empty; raises a ConfigError for another."""
  path = pathlib.Path(os.path.expanduser(folder)).resolve()
  if path.exists() and (not path.is_dir() or any(path.iterdir())):
    raise ConfigError(f"{argument}={folder}: exists and is not empty; choose another folder", argument)
  return path


def write_static_model(folder: pathlib.Path, table: StaticTable, dtype: str, card: str, name: str) -> None:
  """Writes a new folder, completely or not at all.

  Args:
    folder: a folder that is new or empty.
    table: the vectors and the tokenizer.
    dtype: of the vectors: "float32", "float16" or "int8", which has a scale per token and which sentence-transformers
      cannot read.
    card: text of README.md.
    name: name of the encoder that the vectors are from.
  """
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
  modules = [{"idx": 0, "name": "0", "path": ".", "type": f"{_MODULES}StaticEmbedding"}]
  if table.normalizes:
    modules.append({"idx": 1, "name": "1", "path": "1_Normalize", "type": f"{_MODULES}Normalize"})
  with temporary_folder(folder) as temporary:
    save_file(_tensors(table.rows, dtype), temporary / "model.safetensors", metadata={"format": "pt"})
    write_text(temporary / "tokenizer.json", table.tokenizer)
    write_text(temporary / "config.json", json.dumps(config, indent=2) + "\n")
    write_text(temporary / "modules.json", json.dumps(modules, indent=2) + "\n")
    write_text(temporary / "README.md", card)
    if folder.exists():
      folder.rmdir()
    temporary.rename(folder)


def _tensors(rows, dtype):
  """Returns {name: array} as model2vec has them."""
  if dtype != "int8":
    return {"embeddings": rows.astype(dtype)}
  largest = np.abs(rows).max(axis=1)
  scales = np.where(largest > 0, largest, 1) / _LARGEST
  codes = np.rint(rows / scales[:, np.newaxis]).astype(np.int8)
  return {"embeddings": codes, "weights": scales.astype(np.float32)}
