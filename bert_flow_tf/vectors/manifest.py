"""`manifest.json` of a folder of vectors, which names their model: its values, and what two of them differ in."""

import contextlib
import os
import pathlib
from collections.abc import Mapping

from bert_flow_tf.calibration.saving import calibration_sha256, file_sha256
from bert_flow_tf.data.files.input_format import JSONL, PARQUET
from bert_flow_tf.encoder.identity import other_engine
from bert_flow_tf.errors import BertFlowError, ConfigError, DataError, one_line
from bert_flow_tf.io import checksums
from bert_flow_tf.io.checks import is_integer
from bert_flow_tf.io.files import Json, read_json
from bert_flow_tf.io.settings import differences
from bert_flow_tf.vectors.shards import NPY
from bert_flow_tf.vectors.vector_file import AGAIN

MANIFEST = "manifest.json"
FORMAT_VERSION = 1
# Formats of vectors that are read again.
_READABLE = (NPY, PARQUET, JSONL)


def read_manifest(path: pathlib.Path) -> Json:
  """Returns the values of a manifest; a DataError says what is damaged."""
  try:
    manifest = checksums.verified(read_json(path))
    if manifest["format_version"] != FORMAT_VERSION:
      raise ValueError(f"of version {str(manifest['format_version'])[:40]}")
    _check_values(manifest, {"settings": dict, "encoder": dict, "shards": int}, {"calibration": dict})
    deciding = manifest["settings"]
    _check_values(deciding, {"embedder": dict, "dim": int, "output_format": str})
    kind = deciding["output_format"]
  except (OSError, ValueError, KeyError) as error:
    mend = f"if bert-flow embed wrote {path.parent}, delete this folder, and {AGAIN}"
    message = f"vectors={path}: damaged, or of another program ({one_line(error)}); {mend}"
    raise DataError(message, argument="vectors") from error
  if kind not in _READABLE:
    message = f"vectors={path.parent}: its shards are {kind}; expected {NPY}, {PARQUET} or {JSONL}"
    raise ConfigError(message, argument="vectors")
  return manifest


def is_of_embed(folder: str) -> bool:
  """Returns whether a folder has a manifest of `bert-flow embed`, not of another program."""
  with contextlib.suppress(OSError, ValueError, TypeError):
    return not is_of_another_program(pathlib.Path(folder, MANIFEST))
  return False


def is_of_another_program(path: pathlib.Path) -> bool:
  """Returns whether a manifest has no version of ours; an OSError or a ValueError if it is no JSON, as a cut one."""
  values = read_json(path)
  return not isinstance(values, dict) or "format_version" not in values


def _check_values(values, required, optional=None):
  """Raises a ValueError for a value of a JSON object that has not its type; an integer is positive."""
  kinds = {**required, **(optional or {})}
  for name, kind in kinds.items():
    value = values.get(name)
    if value is None and name not in required:
      continue
    if not isinstance(value, kind) or (kind is int and not is_integer(value, 1)):
      raise ValueError(f"{name} is {str(value)[:40]}")


def embedder_in(manifest: Json) -> Json:
  """Returns the JSON values that decide the vectors, without versions."""
  return {name: value for name, value in manifest["settings"]["embedder"].items() if name != "versions"}


def with_sha256_of_values(embedder: Json, *manifests: Mapping[str, object]) -> Json:
  """Returns the JSON values that decide vectors, with the checksum of their calibration's values.

  Releases before 0.3 wrote the checksum of the file's form, which is known by the file, if it is still where one of the
  manifests says.
  """
  if embedder.get("calibration_sha256") is None:
    return embedder
  for manifest in manifests:
    calibration = manifest.get("calibration")
    if isinstance(calibration, dict) and calibration.get("folder"):
      folder = str(calibration["folder"])
      with contextlib.suppress(BertFlowError):  # it is gone, or damaged
        if embedder.get("calibration_sha256") == file_sha256(folder):
          return {**embedder, "calibration_sha256": calibration_sha256(folder)}
  return embedder


def check_same_model(folder: str, first_path: pathlib.Path, first: Json, path: pathlib.Path, manifest: Json) -> None:
  """Raises a ConfigError if two runs have other dimensions, encoders or calibrations."""
  different, engine = _differences_of_models(first, manifest)
  if different:
    runs = f"{first_path.parent} and {path.parent}"
    what, mend = "encoders or calibrations", "name one of the two"
    if first_path.parent in path.parents:
      mend = f"move {path.parent} out of the other"
    if engine is not None:
      what, mend = "engines alone", f"embed {path.parent} again with {engine}, or {mend}"
    message = f"vectors={folder}: {runs} are of different {what} ({different}); {mend}"
    raise ConfigError(message, argument="vectors")


def check_place(folder: str, manifest: Json, argument: str) -> None:
  """Raises a ConfigError if a new folder of vectors is inside one that could not be read with it.

  `manifest`: the values of the new folder's manifest. `argument`: the argument that names the folder, for errors.
  """
  for outer in pathlib.Path(os.path.realpath(folder)).parents:
    try:
      of_outer = read_manifest(outer / MANIFEST)
    except BertFlowError:  # no folder of vectors, or one that cannot be read
      continue
    different, engine = _differences_of_models(of_outer, manifest)
    if not different and manifest["settings"]["output_format"] not in _READABLE:
      different = f"{manifest['settings']['output_format']} cannot be read"
    if different:
      message = (
        f"{argument}={folder}: is inside {outer}, which is read with all folders of vectors inside it, and would "
      )
      message += f"be of different encoders, calibrations or formats ({different}); choose a folder outside it"
      if engine is not None:
        message += f", or give {engine}"
      raise ConfigError(message, argument=argument)


def _differences_of_models(first: Json, manifest: Json) -> tuple[str, str | None]:
  """Returns what two runs differ in, of dimensions, encoders and calibrations, and the first's engine, if it is alone.

  "" for nothing, and None unless "engine=NAME" is all that differs.
  """
  embedders = [embedder_in(first), embedder_in(manifest)]
  if embedders[0] != embedders[1]:
    embedders = [with_sha256_of_values(embedder, first, manifest) for embedder in embedders]
  values = []
  for each, embedder in zip((first, manifest), embedders, strict=True):
    values.append({"dimensions": each["settings"]["dim"], **embedder})
  different = differences(values[0], values[1], link=" and ")
  if not different:
    return "", None
  return "; ".join(with_names(different, first, manifest, " and ")), other_engine(values[0], values[1])


def with_names(differing: list[str], before: Json, now: Json, link: str = ", now ") -> list[str]:
  """Returns the first three differences of two runs: ["mini+flow, now static:mini", ...] if these are of the models.

  `before` and `now`: values of the manifests, or what they say about the models. `link` as in `differences`.
  """
  names = []
  for values in (before, now):
    parts = [values.get(key) for key in ("encoder", "calibration")]
    names.append("+".join(str(part["name"]) for part in parts if isinstance(part, dict) and part.get("name")))
  is_of_models = any("_sha256 " in difference for difference in differing)
  if is_of_models and names[0] != names[1]:
    differing = [f"{names[0] or 'unknown'}{link}{names[1] or 'unknown'}", *differing]
  return differing[:3]
