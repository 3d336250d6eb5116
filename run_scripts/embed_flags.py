"""The flags of `run_embed` as what they mean: how records are read, and what embeds them."""

import dataclasses
import hashlib
import json
import os
from collections.abc import Callable
from typing import Any

import numpy as np
from absl import flags, logging

from bert_flow_tf.calibration import storage
from bert_flow_tf.corpus import formats
from bert_flow_tf.corpus.embedders import EncoderRecipe, SavedModelRecipe
from bert_flow_tf.encoder.hub import HUB_NAMES, MODEL_NAMES
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.flow.storage import FLOW_FOLDER
from run_scripts.saved import DECIDING_FLAGS, check_saved, load_encoder, load_saved, saved_identity

FLAGS = flags.FLAGS

_OF_ENCODER = ("model", "init_checkpoint", "model_cache_dir", *DECIDING_FLAGS)


def check_flags():
  """Refuses what needs no file to be seen wrong.

  Raises:
    ConfigError: a flag is missing, or two contradict each other.
  """
  for name in ("input", "output_dir"):
    if not FLAGS[name].value:
      raise ConfigError(f"--{name} is missing; expected {'files of sentences' if name == 'input' else 'a folder'}")
  for name in ("column", "id_column", "flow_folder", "saved_model", "runner"):
    if FLAGS[name].value == "":
      raise ConfigError(f"--{name} is empty; leave the flag out")
  if FLAGS.cached_dir is not None:
    raise ConfigError("--cached_dir is of no use here: finished shards are not embedded again")
  if FLAGS.beam_options and FLAGS.runner is None:
    raise ConfigError("--beam_options needs --runner, which is Apache Beam's")
  if FLAGS.saved_model is not None:
    useless = [name for name in ("flow_folder", *_OF_ENCODER) if not FLAGS[name].using_default_value]
    if useless:
      raise ConfigError(f"--{useless[0]} is of no use with --saved_model, which has it inside; leave one out")
  if FLAGS.allow_other_encoder and FLAGS.flow_folder is None:
    raise ConfigError("--allow_other_encoder needs --flow_folder: there is no calibration to apply")


def input_format(paths):
  """The `InputFormat` of the flags for these files.

  Raises:
    ConfigError: the flags contradict each other, or the files' names.
  """
  kind = FLAGS.input_format
  if kind is None:
    kinds = {formats.kind_of(path): path for path in paths}
    if len(kinds) > 1:
      (one, path), (other, path_2), *_ = sorted(kinds.items())
      raise ConfigError(f"--input: {path} is {one} by its name, {path_2} {other}; say which with --input_format")
    (kind,) = kinds
    if kind == formats.TEXT and FLAGS.column is not None:
      kind = formats.TSV
  columns = {name: FLAGS[name].value for name in ("column", "id_column")}
  if kind == formats.TEXT:
    given = [name for name, value in columns.items() if value is not None] + ["header"] * (FLAGS.header is not None)
    if given:
      raise ConfigError(f"--{given[0]} is of no use with --input_format=text, where a line is a sentence")
  elif FLAGS.column is None:
    raise ConfigError(f"--column is missing: it says where in a {kind} record the sentence is")
  if kind == formats.TFRECORD and FLAGS.header is not None:
    raise ConfigError("--header is of no use with TFRecord files, whose features have names")
  header = False
  if kind == formats.TSV:
    named = [name for name, value in columns.items() if value is not None and not _is_number(value)]
    header = bool(named) if FLAGS.header is None else FLAGS.header
    if named and not header:
      raise ConfigError(f"--{named[0]}={columns[named[0]]} is a name, and --noheader says that columns have none")
    for name, value in columns.items():
      if value is not None and _is_number(value) and int(value) < 1:
        raise ConfigError(f"--{name}={value}: columns are numbered from 1")
  return formats.InputFormat(kind, **columns, header=header, empty=FLAGS.empty_lines, max_bytes=FLAGS.max_record_bytes)


def _is_number(value):
  return value.isascii() and value.isdigit()


def folder_checksum(folder):
  """Hexadecimal sha256 of a calibration's numbers and settings, but for where its encoder came from."""
  settings, arrays = (FLOW_FOLDER if FLOW_FOLDER.is_in(folder) else storage.FORMAT).read(folder)
  total = hashlib.sha256(json.dumps({**settings, "encoder": None}, sort_keys=True).encode())
  for name in sorted(arrays):
    array = np.ascontiguousarray(arrays[name])
    total.update(f"{name} {array.dtype.str} {array.shape}".encode())
    total.update(array.tobytes())
  return total.hexdigest()


@dataclasses.dataclass(frozen=True)
class Embedder:
  """What this process and its workers embed with.

  Attributes:
    recipe: picklable; called, it loads what `embed` is, anew.
    embed: list of str -> float32 [n, dim].
    dim: dimensions of a vector.
    identity: dict of json values that decide the vectors.
    about: dict of json values that do not.
  """

  recipe: Any
  embed: Callable
  dim: int
  identity: dict
  about: dict


def make_embedder():
  """The `Embedder` of the flags.

  Raises:
    BertFlowError: the encoder, calibration or SavedModel cannot be loaded, or do not belong together.
  """
  return _saved_model() if FLAGS.saved_model is not None else _encoder()


def _saved_model():
  recipe = SavedModelRecipe(os.path.abspath(os.path.expanduser(FLAGS.saved_model)), FLAGS.predict_batch_size)
  checksum = recipe.checksum()
  embed, dim = recipe.load()
  about = {"saved_model": recipe.folder}
  return Embedder(recipe, embed, dim, {"saved_model_sha256": checksum}, about)


def _encoder():
  saved = {} if FLAGS.flow_folder is None else load_saved([FLAGS.flow_folder])
  folder, identity = saved_identity(saved)
  encoder, arguments = load_encoder(folder, identity)
  encoder.bert.check_max_seq_length(arguments["max_seq_length"])
  pooling = encoder.pooling(arguments["sentence_embedding_type"])
  dim, identity = encoder.dim(pooling, arguments["low_dim"]), encoder.identity(**arguments)
  logging.info("%s: %d dimensions, %s", encoder.name, dim, pooling.describe())
  check_saved(saved, identity, dim, FLAGS.allow_other_encoder)
  about, calibration, path, checksum = {"encoder": identity}, None, None, None
  for found, calibration in saved.values():
    path, checksum, dim = os.path.abspath(found), folder_checksum(found), calibration.output_dim
    about["calibration"] = {"name": calibration.name, "folder": path}
    logging.info("%s in %s: %d dimensions", calibration.name, found, dim)
  where = _found_anywhere(encoder.name), FLAGS.model_cache_dir
  recipe = EncoderRecipe(*where, tuple(arguments.items()), FLAGS.predict_batch_size, path, encoder.precision)
  decisive = {key: value for key, value in identity.items() if key not in ("name", "sentence_embedding_type")}
  return Embedder(recipe, recipe.of(encoder, calibration), dim, {**decisive, "calibration_sha256": checksum}, about)


def _found_anywhere(model):
  """An encoder's name or folder as a worker, which may start in another folder, finds it."""
  folder = os.path.expanduser(model)
  named = model in MODEL_NAMES or model in HUB_NAMES.values()  # a name wins over a folder
  is_there = os.path.isdir(folder) or os.path.isfile(f"{folder}.index")  # a TF1 checkpoint is named by its prefix
  return os.path.abspath(folder) if is_there and not named else model
