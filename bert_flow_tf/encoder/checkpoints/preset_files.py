"""Names of the files of KerasHub's presets, by which they are known and downloaded."""

import pathlib
from collections.abc import Sequence
from typing import Any

from bert_flow_tf.encoder.checkpoints.files import CONFIG, EncoderFiles
from bert_flow_tf.errors import EncoderError
from bert_flow_tf.io.checks import is_text

PACKAGES = ("keras_hub", "keras_nlp")
TOKENIZER, TASK, PREPROCESSOR, ASSETS = "tokenizer.json", "task.json", "preprocessor.json", "assets/tokenizer"
WEIGHTS, SHARDS = "model.weights.h5", "model.weights.json"
# Patterns of a preset's small files, and of its weights.
SMALL_FILES = (TASK, PREPROCESSOR, f"{ASSETS}/*")
WEIGHTS_FILES = (WEIGHTS, SHARDS, "model_*.weights.h5")
# What writes a preset.
SAVE = "backbone.save_to_preset(FOLDER) and tokenizer.save_to_preset(FOLDER)"


def is_preset(files: EncoderFiles) -> bool:
  """Returns whether the files are a preset's, of any class: Keras saved an object there."""
  names: Sequence[str] = (TOKENIZER, PREPROCESSOR, TASK)
  if files.has(CONFIG):
    names = (CONFIG,)
    if "model_type" in files.json(CONFIG):
      return False
  return any("registered_name" in files.json(name) for name in names)


def find_preset_weights(files: EncoderFiles) -> list[pathlib.Path]:
  """Returns the paths of a preset's weights: of the only file, or of the list of shards and the shards."""
  path = files.folder / WEIGHTS
  if path.is_file():
    return [path]
  path = files.folder / SHARDS
  if not path.is_file():
    raise EncoderError(
      f"{files.folder}: no weights; expected {WEIGHTS} or {SHARDS}, which backbone.save_to_preset(FOLDER) writes"
    )
  listed: set[Any] = set()
  weight_map = files.json(SHARDS).get("weight_map")
  for names in weight_map.values() if isinstance(weight_map, dict) else ():
    listed.update(names if isinstance(names, list) else [names])
  if not listed or not all(map(is_text, listed)):
    raise EncoderError(f"{path}: expected a weight_map with names of files; download or save it again")
  if any(pathlib.PurePath(name).name != name for name in listed):
    raise EncoderError(f"{path}: its weight_map names a file of another folder; download it again")
  missing = sorted(name for name in listed if not (files.folder / name).is_file())
  if missing:
    raise EncoderError(f"{files.folder}: {len(missing)} files that {SHARDS} lists are missing, first {missing[0]}")
  return [path, *(files.folder / name for name in sorted(listed))]
