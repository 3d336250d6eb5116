"""metadata.json: contents of a version, origin of the calibration, checksums and package versions."""

import datetime
import importlib.metadata
import json
import os
import pathlib
import platform
import re
from typing import Any

from absl import logging

from bert_flow_tf._version import __version__
from bert_flow_tf.io import checksums
from bert_flow_tf.io.experiment import STATIC, encoder_label
from bert_flow_tf.io.files import read_json, write_text
from bert_flow_tf.model import SentenceModel
from bert_flow_tf.serving.calibration_graph import CalibrationGraph
from bert_flow_tf.serving.layout import ExportLayout
from bert_flow_tf.serving.settings import ExportSettings
from bert_flow_tf.serving.signatures import signatures_of

FORMAT_VERSION = 1
_PACKAGES = ("tensorflow", "tensorflow-text", "tf-keras", "tensorflow-probability", "transformers", "numpy")
# Entries of a run's results.json that explain the calibration.
_ORIGIN = ("task", "data", "flow_corpus", "fitted_on", "flags", "versions")
# The folders of an absolute path, as /home/me/ in /home/me/pairs.tsv.
_FOLDERS = re.compile(r"(?<![\w./])~?/(?:[^\s/]+/)*(?=[^\s/])")


def describe(
  layout: ExportLayout,
  model: SentenceModel,
  graph: CalibrationGraph,
  sizes: dict[str, int],
  settings: ExportSettings,
  agreement: dict[str, float],
  unknown_ops: list[str],
  about: dict,
) -> dict:
  """Returns the content of metadata.json.

  Args:
    layout: paths of the version's files, which are written.
    model: the exported model.
    graph: its calibration as a graph.
    sizes: see `ServedModel`.
    settings: settings of the export.
    agreement: result of `golden.check`.
    unknown_ops: result of `audit.check_servable`.
    about: further entries, such as the result of `read_origin`.
  """
  pooling, weights = model.encoder.pooling(model.identity.sentence_embedding_type), model.encoder.token_weights
  calibration = {"name": graph.name, **sizes}
  if graph.is_flow:
    calibration["flow"] = model.calibration.flow.settings()
  count = getattr(model.calibration, "count", None)
  if count is not None:
    calibration["fitted_on"] = count
  values = {
    "format_version": FORMAT_VERSION,
    "model_name": settings.model_name,
    "version": layout.version,
    "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    "encoder": {
      **without_folders(model.identity.to_dict()),
      "name": public_name(model.encoder.name),
      "pooled": pooling.describe(None if weights is None else weights.name),
      "tokens": model.encoder.tokenizer.vocab_size,
    },
    "calibration": calibration,
    "normalize": settings.normalize,
    "weights_dtype": settings.weights_dtype,
    "signatures": {signature.name: signature.describe(sizes) for signature in signatures_of(graph.is_flow)},
    "without": [] if graph.is_flow else ["log_prob and inverse: the calibration is not a flow"],
    "agreement_with_python": agreement,
    "ops_not_known_to_tensorflow_2.12": unknown_ops,
    "versions": {
      "bert_flow_tf": __version__,
      "python": platform.python_version(),
      **{package: importlib.metadata.version(package) for package in _PACKAGES},
    },
    **about,
  }
  files = sorted(path for path in layout.folder.rglob("*") if path.is_file())
  return checksums.sealed(values, layout.folder, [path.relative_to(layout.folder).as_posix() for path in files])


def public_name(name: str) -> str:
  """Returns an encoder's name without the path of a folder or file on this machine, which others have no use for."""
  path = os.path.expanduser(name.removeprefix(STATIC))
  is_local = os.path.isabs(path) or os.path.exists(path) or os.path.isfile(f"{path}.index")
  return encoder_label(name) if is_local else name


def without_folders(value: Any) -> Any:
  """Returns JSON values in whose texts absolute paths have their last part alone."""
  if isinstance(value, dict):
    return {key: without_folders(inner) for key, inner in value.items()}
  if isinstance(value, list):
    return [without_folders(inner) for inner in value]
  return _FOLDERS.sub("", value) if isinstance(value, str) else value


def write(path: pathlib.Path, metadata: dict) -> None:
  """Writes metadata.json."""
  write_text(path, json.dumps(metadata, indent=2, ensure_ascii=False) + "\n")


def read_origin(folder: str | pathlib.Path | None) -> dict:
  """Returns entries of metadata.json about the run that fitted a calibration; {} if there is no results.json.

  They are `origin`, `figures` (the run's scores) and `warnings` (where this calibration makes them worse).

  Args:
    folder: folder of the calibration, EXPERIMENT/flow; the run's results.json is in EXPERIMENT. None for no folder.
  """
  path = pathlib.Path(folder or "").resolve().parent / "results.json"
  if folder is None or not path.is_file():
    return {}
  try:
    results = checksums.opened(read_json(path))
    entries = without_folders({key: results[key] for key in _ORIGIN if key in results})
    warnings = results.get("warnings", {}).get(pathlib.Path(folder).resolve().name, [])
    return {
      "origin": {"folder": "/".join(pathlib.Path(folder).resolve().parts[-2:]), **entries},
      "figures": results.get("results", {}),
      "warnings": [str(sentence) for sentence in warnings],
    }
  except (OSError, ValueError, AttributeError, TypeError) as error:
    logging.warning("%s cannot be read (%s): metadata.json gets no scores of the run", path, error)
    return {}
