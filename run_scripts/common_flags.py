"""Flags that runners share, made from settings."""

import dataclasses
import importlib.metadata
import importlib.util
import os
import platform
import shlex
import sys
import types
import typing
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from absl import flags

import bert_flow_tf
from bert_flow_tf.calibration.recipes import RECIPES, help_text
from bert_flow_tf.data.tasks import DataSettings, task_names
from bert_flow_tf.encoder.checkpoints.source import check_name
from bert_flow_tf.encoder.settings import LOADING, OPENVINO, POOLING, EncoderSettings, keyword_of
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.io.files import check_new_folder
from bert_flow_tf.serving.settings import MODEL2VEC, ExportSettings, check_installed, check_precision
from run_scripts import help_page, quiet
from run_scripts.bert_flow import program_name

if TYPE_CHECKING:
  import tensorflow as tf

  from bert_flow_tf.calibration.step import Calibration
  from bert_flow_tf.data.pairs import SentencePairs, Texts
  from bert_flow_tf.model import SentenceModel

FLAGS = flags.FLAGS
SettingsClass = TypeVar("SettingsClass")


def define_settings(cls: type, only: Sequence[str] = (), **other_defaults: object) -> None:
  """Defines a flag for each field of a settings dataclass, or for some; `other_defaults` are the runner's own."""
  # A setting's heading in --help is the part of the package that its dataclass belongs to, if it does.
  package, part = cls.__module__.split(".")[:2]
  kinds = typing.get_type_hints(cls)
  for field in dataclasses.fields(cls):
    flag = field.metadata.get("flag", field.name)
    if flag and (not only or field.name in only):
      _define(flag, field, kinds[field.name], other_defaults.get(field.name, field.default))
      if package == bert_flow_tf.__name__:
        help_page.put_under(flag, part)


def _define(flag, field, kind, default):
  """Defines one flag; the field's type, without None, chooses the kind of flag. A field's other name is an alias."""
  # `int | None` makes a flag of int.
  metadata = field.metadata
  if typing.get_origin(kind) is types.UnionType:
    kind = typing.get_args(kind)[0]
  lowest, highest = metadata.get("minimum"), metadata.get("maximum")
  if metadata.get("choices"):
    flags.DEFINE_enum(flag, default, metadata["choices"], metadata["help"])
  elif kind is bool:
    flags.DEFINE_boolean(flag, default, metadata["help"])
  elif kind is int:
    flags.DEFINE_integer(flag, default, metadata["help"], lowest, highest)
  elif kind is float:
    flags.DEFINE_float(flag, default, metadata["help"], lowest, highest)
  elif kind is str:
    flags.DEFINE_string(flag, default, metadata["help"])
  else:
    flags.DEFINE_list(flag, default and list(default), metadata["help"])
  if "alias" in metadata:
    flags.DEFINE_alias(metadata["alias"], flag)
  if flag != field.name:
    flags.DEFINE_alias(field.name, flag)


def settings(cls: type[SettingsClass], **others: object) -> SettingsClass:
  """Returns the dataclass with the values of the flags and other ones; fields without a flag have their default."""
  # Flags of lists are lists, settings have tuples.
  values = others
  for field in dataclasses.fields(cls):
    if field.name in FLAGS and field.name not in others:
      value = FLAGS[field.name].value
      values[field.name] = tuple(value) if isinstance(value, list) else value
  return cls(**values)


def define_data_flags(own_file: bool = False) -> None:
  """Defines the flags of a task's files; `own_file`: with the columns of a file of `custom`."""
  names = ["data_dir", "tfds_data_dir", "stsb_gold", "max_record_bytes"]
  if own_file:
    names += ["columns", "header"]
  define_settings(DataSettings, names)


def take_task_file(arguments: list[str]) -> None:
  """Makes a file that stands without a flag the data of the task `custom`; `-` is standard input."""
  path = arguments[0]
  if len(arguments) > 1:
    raise ConfigError(f"data_dir={','.join(arguments)[:200]}: expected one file, got {len(arguments)}", "data_dir")
  if path.lower() in [name.lower() for name in task_names()] and not os.path.exists(path):
    raise ConfigError(f"argument {path!r}: expected a file; a task is --task={path}")
  for name in ("beir", "senteval"):
    if name in FLAGS and FLAGS[name].value is not None:
      way = "leave one out"
      if name == "beir" and "flow_corpus" in FLAGS:
        way = f"leave one out, or fit on the sentences of the file by --flow_corpus={path}"
      message = f"{name}={FLAGS[name].value}: has no use with the file {path}, as each is what is evaluated; {way}"
      raise ConfigError(message, argument=name)
  for name in ("task", "data_dir"):
    if FLAGS[name].present and FLAGS[name].value not in ("custom", ["custom"]):
      raise ConfigError(f"{name}: has no use with the file {path}, which is the data; leave one out", argument=name)
  is_list = isinstance(FLAGS.task, list)
  FLAGS.task = ["custom"] if is_list else "custom"
  FLAGS.data_dir = path
  for name in ("task", "data_dir"):
    FLAGS[name].present += 1


def encoder_flags(parts: Sequence[str] = (), leave_out: Sequence[str] = ()) -> list[str]:
  """Returns the names of the encoder's flags of some parts of `EncoderSettings`; of all parts if none is given."""
  names = []
  for field in dataclasses.fields(EncoderSettings):
    is_wanted = not parts or field.metadata["part"] in parts
    if is_wanted and field.metadata.get("flag", True) and field.name not in leave_out:
      names.append(field.name)
  return names


def define_encoder_flags(parts: Sequence[str] = (), leave_out: Sequence[str] = (), **other_defaults: object) -> None:
  """Defines the flags of `encoder_flags`; see `define_settings`."""
  define_settings(EncoderSettings, encoder_flags(parts, leave_out), **other_defaults)


def define_model_flags(**other_defaults: object) -> None:
  """Defines the flags of an encoder and of its calibration; see `define_settings`."""
  define_encoder_flags(**other_defaults)
  define_calibration_flags()


def define_query_prompt_flag() -> None:
  """Defines --query_prompt of a command that searches, or writes what is searched."""
  (field,) = (field for field in dataclasses.fields(EncoderSettings) if field.name == "query_prompt")
  flags.DEFINE_string(field.name, field.default, field.metadata["help"])
  help_page.put_under(field.name, "encoder")


def define_recipe_flag() -> None:
  """Defines --recipe; `use_recipe` applies it."""
  text = f"Pooling, token weights and calibration together; a flag that is given replaces its part. {help_text()}."
  flags.DEFINE_enum("recipe", None, list(RECIPES), text)


def use_recipe() -> None:
  """Sets the flags of the encoder and the calibration as --recipe has them, where they are not on the command line."""
  if FLAGS.recipe is None:
    return
  recipe = RECIPES[FLAGS.recipe]
  encoder = FLAGS["init_checkpoint" if FLAGS.init_checkpoint else "model"]
  encoder.value = recipe.encoder_name(encoder.value)
  values = {
    "sentence_embedding_type": recipe.sentence_embedding_type,
    "token_weights": recipe.token_weights,
    "calibration": recipe.calibration,
  }
  for name, value in values.items():
    flag = FLAGS[name]
    if not given([name]):
      # A flag may be a list of calibrations.
      flag.value = None if value is None else flag.parser.parse(value)


def define_calibration_flags(several: bool = False) -> None:
  """Defines the flags of a saved calibration, or of several."""
  define, folder = (
    flags.DEFINE_string,
    "Folder of a calibration that bert-flow fit saved, such as exp/NAME/flow. It decides",
  )
  if several:
    define, folder = flags.DEFINE_list, "Folders of calibrations, as exp/NAME/flow,exp/NAME/whitening-64. They decide"
  # Flags on the command line replace the values of the calibration.
  *names, last = help_page.DECIDED.values()
  decided = f"{', '.join(names)} and {last}"
  text = f"{folder} {decided}, except for flags on the command line. Default: the encoder alone."
  define("flow_folder", None, text)
  flags.DEFINE_boolean("allow_other_encoder", False, "Apply a calibration to another encoder than it was fitted for.")


def define_output_folder(text: str, alias: str = "output_dir") -> None:
  """Defines --output of a command that writes a folder, with its former name."""
  flags.DEFINE_string("output", None, text)
  flags.DEFINE_alias(alias, "output")


def define_senteval_flags() -> None:
  """Defines the flags of SentEval's folder."""
  flags.DEFINE_string(
    "senteval",
    None,
    "SentEval's data folder, with downstream/ in it, or its checkout: evaluate on SentEval's tasks by the installed "
    "package senteval or by the checkout, whose program code runs with all your rights and needs senteval_trusted.",
  )
  flags.DEFINE_boolean("senteval_trusted", False, "Import the program code of the checkout that senteval names.")


def define_export_flags() -> None:
  """Defines --export_dir and the flags of `ExportSettings`."""
  flags.DEFINE_string("export_dir", None, "Folder of the served model, which gets a folder for the new version.")
  define_settings(ExportSettings)


def check_export_flags() -> None:
  """Raises a ConfigError if the flags of an export do not fit each other, or its packages are not installed."""
  checked = settings(ExportSettings)
  check_precision(FLAGS.precision, FLAGS.engine, checked.format)
  check_installed(checked.format)
  if checked.format == MODEL2VEC:
    check_new_folder(FLAGS.export_dir, "export_dir")


def check_calibration_flags() -> None:
  """Raises a ConfigError if allow_other_encoder is given without a calibration."""
  if FLAGS.allow_other_encoder and FLAGS.flow_folder is None:
    raise ConfigError("allow_other_encoder: needs flow_folder", argument="allow_other_encoder")


def reject(names: Sequence[str], reason: str) -> None:
  """Raises a ConfigError if one of these flags is on the command line."""
  for name in given(names):
    raise ConfigError(f"{name}: {reason}", argument=name)


def given(names: Iterable[str]) -> list[str]:
  """Returns the names of the flags that are on the command line."""
  return [name for name in names if FLAGS[name].present]


def given_model_arguments() -> dict[str, Any]:
  """Returns the arguments of `SentenceModel.load` that are on the command line, and the caches."""
  # The calibration has values for all settings, so only flags on the command line may change them.
  encoder_settings = settings(EncoderSettings)
  arguments: dict[str, Any] = {"cache_dir": encoder_settings.model_cache_dir, "cache": encoder_settings.cached_dir}
  if given(["model", "init_checkpoint"]):
    arguments["model"] = encoder_settings.encoder_name
  values = encoder_settings.arguments(LOADING, POOLING)
  for field in dataclasses.fields(encoder_settings):
    keyword = keyword_of(field)
    if keyword in values and field.name in FLAGS and given([field.name]):
      arguments[keyword] = values[keyword]
  return arguments


def check_encoder_flags() -> None:
  """Raises an EncoderError if --model names no encoder, before TensorFlow is imported, which takes seconds."""
  from bert_flow_tf.encoder.loading import check_folder

  encoder_settings = settings(EncoderSettings)
  check_name(encoder_settings.encoder_name)
  check_folder(encoder_settings)


def load_model(
  folder: str | None = None, allow_other_encoder: bool = False, strategy: "tf.distribute.Strategy | str | None" = None
) -> "SentenceModel":
  """Loads the flags' `SentenceModel`, of a calibration's folder or the encoder alone, on a fit's or all devices."""
  if folder is None:
    check_encoder_flags()
  from bert_flow_tf.model import SentenceModel
  from bert_flow_tf.training.devices import loading_scope

  if folder is not None:
    arguments = given_model_arguments()
    with loading_scope(folder, arguments.get("model"), arguments.get("engine"), strategy):
      return SentenceModel.load(folder, allow_other_encoder=allow_other_encoder, **arguments)
  encoder_settings = settings(EncoderSettings)
  arguments = encoder_settings.arguments(LOADING, POOLING)
  with loading_scope(None, encoder_settings.encoder_name, encoder_settings.engine, strategy):
    return SentenceModel.from_pretrained(encoder_settings.encoder_name, cache=encoder_settings.cached_dir, **arguments)


def export(
  model: "SentenceModel | Calibration",
  calibration_folder: str | os.PathLike | None,
  reference: "Texts | SentencePairs | None" = None,
) -> None:
  """Writes a version of a model into --export_dir and prints a summary; its calibration's folder or None."""
  if FLAGS.format == MODEL2VEC:
    # `export_model` imports TensorFlow, which takes seconds.
    from bert_flow_tf.serving.model2vec import export_model2vec

    print_table(export_model2vec(model, FLAGS.export_dir, settings(ExportSettings)))
    return
  quiet.import_tensorflow()  # a static encoder with a linear calibration is loaded without it
  from bert_flow_tf.serving.metadata import read_origin, summary

  # The served model names the run that its calibration is from.
  about = read_origin(calibration_folder, model)
  export_settings = dataclasses.asdict(settings(ExportSettings))
  folder = bert_flow_tf.export_model(model, FLAGS.export_dir, reference=reference, about=about, **export_settings)
  print("\n".join(summary(folder)))


def print_table(folder: str | os.PathLike) -> None:
  """Prints a line about a folder of model2vec that was written."""
  from bert_flow_tf.encoder.other.static_folder import describe_table

  print(describe_table(folder))


def runner_flags() -> list[flags.Flag]:
  """Returns the runner's flags, without the flags of absl and TensorFlow, and without aliases."""
  # absl keeps flags by the module that defined them.
  found = []
  for module, of_module in sorted(FLAGS.flags_by_module_dict().items()):
    if module.startswith(("absl.", "tensorflow")):
      continue
    for flag in of_module:
      if not (flag.help or "").startswith("Alias for"):
        found.append(flag)
  return found


def values() -> dict[str, object]:
  """Returns {name: value} of the runner's flags."""
  return {flag.name: flag.value for flag in runner_flags()}


def about() -> dict[str, object]:
  """Returns the entries of results.json about the command line: the command, its flags, and versions."""
  command = f"{program_name()} {shlex.join(sys.argv[1:])}".strip()
  return {"command": command, "flags": values(), "versions": versions()}


def versions() -> dict[str, str]:
  """Returns {package: version} of the packages that decide the numbers."""
  installed = {"bert_flow_tf": bert_flow_tf.__version__, "python": platform.python_version()}
  for package in ("tensorflow", "keras", "tf-keras", "tensorflow-probability", "tokenizers", "numpy", "scipy"):
    installed[package] = importlib.metadata.version(package)
  if importlib.util.find_spec(OPENVINO):
    installed[OPENVINO] = importlib.metadata.version(OPENVINO)
  return installed
