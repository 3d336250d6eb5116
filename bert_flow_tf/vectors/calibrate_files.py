"""Fits a calibration on files of vectors, and applies it to others; in bounded memory, whatever made the vectors."""

import contextlib
import json
import os
import pathlib
import shutil
from collections.abc import Sequence
from typing import Any

import numpy as np
from absl import logging

from bert_flow_tf.calibration.names import FLOW, parse_calibration
from bert_flow_tf.calibration.saving import calibration_sha256, load_calibration
from bert_flow_tf.calibration.step import Calibration
from bert_flow_tf.encoder.checkpoints.declared import QUERY
from bert_flow_tf.encoder.identity import VectorsIdentity, read_identity
from bert_flow_tf.errors import ConfigError, DataError, EncoderError, naming
from bert_flow_tf.io.files import check_path, owned, read_json, temporary_name, write_text, writing
from bert_flow_tf.progress import counted
from bert_flow_tf.training.calibrate import fit_calibration
from bert_flow_tf.training.fitter import settings_of_fit
from bert_flow_tf.vectors.manifest import MANIFEST, check_place, is_of_embed
from bert_flow_tf.vectors.shards import IDS, NPY, TEXTS, UNREAD, write_sealed
from bert_flow_tf.vectors.vector_file import write_npy
from bert_flow_tf.vectors.vector_folder import VectorFolder, find_vector_files, holds_vectors

_CALIBRATED = "calibrated.json"
# Folders inside OUTPUT.fit during a fit.
_OF_FIT = ("checkpoints", "tensorboard")


def fit_files(
  vectors: Sequence[str],
  calibration: str,
  output: str,
  vectors_of: str | None = None,
  queries: Sequence[str] = (),
  show_progress: bool = True,
  **settings: Any,
) -> Calibration:
  """Fits a calibration on .npy files, globs or folders and saves it in a folder; arguments as in `fit_calibration`."""
  spec = parse_calibration(calibration)
  # Wrong settings are an error before hours of reading.
  settings_of_fit(spec, settings, None)
  work = pathlib.Path(f"{output}.fit")
  # If this folder exists, an earlier fit was killed, perhaps after it had saved its result: the output may exist.
  if not work.is_dir():
    _check_absent(output)
  files = find_vector_files(vectors)
  with naming("queries", "vectors"):
    query_files = find_vector_files(queries) if queries else []
  of_queries = f" and {counted(sum(map(len, query_files)), 'query', ',')}" if queries else ""
  of_files = f"{counted(sum(map(len, files)), 'vector', ',')} of {counted(len(files), 'file')}"
  logging.info("fitting %s on %s%s, of %d dimensions", spec.name, of_files, of_queries, files[0].dim)
  # A flow's checkpoints are in OUTPUT.fit until the calibration is saved.
  with owned(work, "output"):
    for path in work.iterdir():
      if path.name not in _OF_FIT:
        raise ConfigError(f"output={output}: {work} holds {path.name}, which is not of a fit; move it", "output")
    folder = work if spec.method == FLOW else None
    settings |= {"folder": folder, "show_progress": show_progress}
    rows_of_queries = _arrays(query_files) if query_files else None
    fitted = fit_calibration(_arrays(files), spec.name, vectors_of, queries=rows_of_queries, **settings)
    fitted.save(output)
    # Delete the index of the checkpoints first: a run killed here fits again and does not look for deleted files.
    (work / "checkpoints" / "checkpoint").unlink(missing_ok=True)
    shutil.rmtree(work, ignore_errors=True)
  return fitted


def apply_to_files(
  vectors: Sequence[str], calibration_folder: str, output: str, vectors_of: str | None = None, role: str | None = None
) -> dict[str, int]:
  """Calibrates files of vectors to .npy files of the same names; returns {file written now: number of vectors}.

  The folder of `bert-flow embed` becomes such a folder: it can be searched, deduplicated and indexed. `role`: "query"
  for vectors of queries, which become plain files; a calibration without `query_shift` calibrates them as all others.
  """
  folder = os.path.expanduser(calibration_folder)
  with naming("calibration_folder"):
    calibration = load_calibration(folder)
  transform = calibration.transform_queries if role == QUERY else calibration.transform
  if role == QUERY and calibration.query_shift is None:
    reason = f"{calibration_folder} was fitted without queries, and knows no place of theirs"
    raise ConfigError(f"role={role}: {reason}; fit it with queries=FILES, or leave role out", argument="role")
  target = check_path(output, "output")
  # A finished folder may be inside the vectors that it was made of, from before that was an error.
  begun = output if is_of_embed(output) else None
  files = find_vector_files(vectors, leave_out=begun)
  source = None if role == QUERY else _folder_of_embed(vectors, begun)
  _check_fits(calibration, folder, files, vectors_of)
  if target.suffix == ".npy":
    if len(files) > 1:
      raise ConfigError(f"output={output}: {len(files)} files are given, expected a folder", argument="output")
    _check_absent(output)
    target.parent.mkdir(parents=True, exist_ok=True)
    return {output: _write(target, files[0], calibration.output_dim, transform)}
  manifest = None
  if source is not None:
    manifest = _calibrated_manifest(source, calibration, folder)
    if begun is None:
      _check_outside(output, source.folder)
      check_place(output, manifest, "output")
  # One output per input, under its name. Finished outputs of an interrupted run stay.
  _open_output(target, files, folder)
  counts = {}
  with owned(target, "output"):
    for file in files:
      name = _name_of_output(file)
      if not (target / name).exists():
        counts[name] = _write(target / name, file, calibration.output_dim, transform)
        logging.info("%s: %s", target / name, counted(counts[name], "vector"))
    if source is not None:
      _write_manifest(target, source, manifest)
  return counts


def _write(path, file, dim, transform):
  """Writes the calibrated vectors of a file and their ids, completely or not at all; returns the number of rows."""
  zeros = 0

  def calibrated(block):
    nonlocal zeros
    zeros += int(np.count_nonzero(~block.any(axis=1)))
    return transform(block)

  with writing(path) as written:
    write_npy(written, len(file), dim, map(calibrated, file.blocks()))
    file.copy_ids(path)  # before the vectors have their name: a named file always has its ids
  if zeros:
    message = (
      "%s: %s of zeros, as of texts without a known word, of %d; calibrated, they look like others: leave them out"
    )
    logging.warning(message, file.path, counted(zeros, "row"), len(file))
  return len(file)


def _name_of_output(file):
  return file.path.with_suffix(f".{NPY}").name


def _folder_of_embed(vectors, leave_out):
  """Returns the `VectorFolder` if the vectors are a folder of `bert-flow embed` without a calibration, else None.

  A ConfigError says that it holds several: their files would be mixed up.
  """
  folder = os.path.expanduser(vectors[0])
  if len(vectors) > 1 or not holds_vectors(folder):
    return None
  source = VectorFolder.open(folder, leave_out)
  if len(source.runs) > 1:
    runs = " and ".join(str(pathlib.Path(folder, run)) for run in source.runs[:2])
    mend = "calibrate each into a folder of its own"
    if not source.runs[0]:
      mend = f"move the second out of the first, and {mend}"
    raise ConfigError(f"vectors={folder}: {runs} are two folders of bert-flow embed; {mend}", argument="vectors")
  if source.embedder.get("calibration_sha256") is None:
    return source
  logging.warning("%s: its vectors are calibrated already; calibrated again, they cannot be searched", folder)
  return None


def _calibrated_manifest(source, calibration, calibration_folder):
  """Returns the manifest of a folder of `bert-flow embed` whose vectors are calibrated."""
  embedder = {**source.manifest["settings"]["embedder"], "calibration_sha256": calibration_sha256(calibration_folder)}
  settings = {"embedder": embedder, "dim": calibration.output_dim, "output_format": NPY}
  about = {"name": calibration.name, "folder": os.path.abspath(calibration_folder)}
  return {**source.manifest, "settings": source.manifest["settings"] | settings, "calibration": about}


def _write_manifest(folder, source, manifest):
  """Writes the receipts and then the manifest, by which a folder is one of `bert-flow embed`."""
  for file in source.files:
    path = folder / _name_of_output(file)
    names = [path.with_suffix(f".{ending}").name for ending in (NPY, IDS, UNREAD, TEXTS)]
    names = [name for name in names if (folder / name).is_file()]
    receipt = read_json(file.path.with_suffix(".json"))
    receipt["bytes"] = {name: (folder / name).stat().st_size for name in names}
    write_sealed(str(folder), path.with_suffix(".json").name, receipt, names)
  write_sealed(str(folder), MANIFEST, manifest)


def _check_outside(output, folder):
  """Raises a ConfigError if the output is inside the folder of vectors that it is made of."""
  if pathlib.Path(os.path.realpath(folder)) in pathlib.Path(os.path.realpath(output)).parents:
    message = (
      f"output={output}: is inside the vectors {folder}, which would then be of two calibrations, as all folders "
    )
    raise ConfigError(f"{message}inside are read with them; choose a folder outside", argument="output")


def _arrays(files):
  """Returns the memory-mapped vectors of files, checked arrays [n, dim]."""
  arrays = []
  for file in files:
    for _ in file.blocks():
      pass  # an error for a number that is not finite
    if len(file):
      arrays.append(file.array())
  if not arrays:
    raise DataError(f"{files[0].path}: no vectors, shape [0, {files[0].dim}]; expected vectors to fit on")
  return arrays


def _check_fits(calibration, folder, files, vectors_of):
  """Raises an error if the vectors differ from the vectors of the fit."""
  where = f"calibration_folder={folder}"
  if vectors_of is not None:
    identity = read_identity(calibration.encoder, where)
    if identity is None:
      raise EncoderError(f"vectors_of={vectors_of}: {folder} does not name its vectors; leave it out", "vectors_of")
    identity.check_same(VectorsIdentity(vectors_of), where, "calibration_folder")
  if calibration.dim != files[0].dim:
    raise ConfigError(
      f"{where}: fitted on {calibration.dim} dimensions, but {files[0].path} has {files[0].dim}",
      argument="calibration_folder",
    )


def _check_absent(output):
  if os.path.lexists(output):
    raise ConfigError(f"output={output}: exists; choose another path, or delete it", argument="output")


def _open_output(folder, files, calibration_folder):
  """Creates the folder of the results, or checks that it belongs to an interrupted run of the same inputs."""
  stats: dict[str, list[int]] = {}
  for file in files:
    name = _name_of_output(file)
    if name in stats:
      raise ConfigError(f"vectors: two files are called {name}; calibrate them into two folders", argument="vectors")
    stat = file.path.stat()
    stats[name] = [stat.st_size, stat.st_mtime_ns]
  manifest = {"calibration_sha256": calibration_sha256(calibration_folder), "vectors": stats}
  path = folder / _CALIBRATED
  if path.is_file():
    with contextlib.suppress(ValueError):  # damaged
      if read_json(path) == manifest:
        return
    raise ConfigError(f"output={folder}: holds the output of other vectors or another calibration", argument="output")
  # A killed run may have left an incomplete file in the folder.
  is_free = folder.is_dir() and {path.name for path in folder.iterdir()} <= {temporary_name(_CALIBRATED)}
  if not is_free:
    _check_absent(folder)
  folder.mkdir(parents=True, exist_ok=True)
  write_text(path, json.dumps(manifest, indent=1) + "\n")
