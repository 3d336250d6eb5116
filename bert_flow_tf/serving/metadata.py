"""metadata.json, the model card, the lines that a runner prints about a version; origin of its calibration."""

import json
import os
import pathlib
import re
from typing import Any

from absl import logging

from bert_flow_tf.encoder.transformer.number_formats import INT8
from bert_flow_tf.io import checksums
from bert_flow_tf.io.files import read_json, write_text
from bert_flow_tf.serving.settings import CARD, METADATA

# Entries of a run's results.json that explain the calibration.
_ORIGIN = ("task", "data", "flow_corpus", "fitted_on", "flags", "versions")
# The folders of an absolute path, as /home/me/ in /home/me/pairs.tsv.
_FOLDERS = re.compile(r"(?<![\w./])~?/(?:[^\s/]+/)*(?=[^\s/])")
_CARD_TEXT = """\
# {model_name}, version {version}

{embeddings}, calibrated by: {calibration[name]}.
{calibration[dim]} dimensions in, {calibration[output_dim]} out{unit}.{reads} Written {created} by bert_flow_tf \
{versions[bert_flow_tf]}.

## Signatures

{listed}

The first dimension of every input and output is the batch. Text is UTF-8; invalid bytes are dropped.

## Serving

Not tested with the server's binary:

    {docker}

The server needs the operations of TF Text, which the official servers have since 2.12. `golden.json` has sentences with
the answers of this model; compare a server's answers with them. `metadata.json` has checksums, versions and origin.
{precision}
## Intended use

Cosine similarity of sentences like the sentences of the fit. The calibration was fitted without labels;
on other text, measure it first. Scores are not probabilities.
{cautions}{scores}"""
# Of an encoder in int8.
_INT8_TEXT = """
The encoder computes in int8, for which the server needs an x86 CPU, and no GPU. Export on a machine like the server's:
errors are larger if the server alone has no VNNI instructions (Intel before 2019, AMD before 2022).
"""


def without_folders(value: Any) -> Any:
  """Returns JSON values in whose texts absolute paths have their last part alone."""
  if isinstance(value, dict):
    return {key: without_folders(inner) for key, inner in value.items()}
  if isinstance(value, list):
    return list(map(without_folders, value))
  if isinstance(value, str):
    return _FOLDERS.sub("", value)
  return value


def write_metadata(folder: pathlib.Path, contents: dict[str, object]) -> None:
  """Writes metadata.json, with checksums of the SavedModel's files, and the model card."""
  files = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
  sealed = checksums.sealed(contents, folder, files)
  write_text(folder / METADATA, json.dumps(sealed, indent=2, ensure_ascii=False) + "\n")
  write_text(folder / CARD, card(contents))


def card(contents: dict[str, Any]) -> str:
  """Returns the model card of the content of metadata.json."""
  signatures, cautions = [], []
  for name, signature in contents["signatures"].items():
    signatures.append(f"- `{name}`: {signature['meaning']}")
  for sentence in contents.get("warnings", []):
    cautions.append(f"\n**Warning**: {sentence}.\n")
  embeddings, reads, precision = "Embeddings of another program", "", ""
  if _takes_text(contents):
    encoder = contents["encoder"]
    embeddings = f"Sentence embeddings of {encoder['name']} ({encoder['pooled']})"
    if "tokens" in encoder:
      reads = f" The first {encoder['max_seq_length']} tokens of a sentence are read."
    if encoder.get("precision") == INT8:
      precision = _INT8_TEXT
  return _CARD_TEXT.format(
    **contents,
    embeddings=embeddings,
    reads=reads,
    precision=precision,
    unit=", of unit length" if contents["normalize"] else "",
    listed="\n".join(signatures),
    docker=_docker_command(contents["model_name"]),
    cautions="".join(cautions),
    scores=_scores(contents.get("figures", {})),
  )


def _takes_text(contents: dict[str, Any]) -> bool:
  """Returns whether a model is served, not a calibration alone."""
  return "pooled" in (contents["encoder"] or {})


def summary(folder: pathlib.Path) -> list[str]:
  """Returns lines about an exported version and how to serve it."""
  contents = read_json(folder / METADATA)
  name, calibration = "vectors", contents["calibration"]
  if _takes_text(contents):
    name = contents["encoder"]["name"]
  agreement = contents["agreement_with_python"]
  size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
  dims = f"{calibration['dim']} dimensions"
  if calibration["output_dim"] != calibration["dim"]:
    dims += f", {calibration['output_dim']} calibrated"
  lines = [
    f"{folder}: {name}, calibration {calibration['name']}, {dims}, {size / 1e6:.1f} MB",
    f"signatures: {', '.join(contents['signatures'])}",
    f"largest difference from Python, relative to the largest value: {agreement['pooled']:.1g} before calibration, "
    f"{agreement['calibrated']:.1g} after",
  ]
  for sentence in contents.get("warnings", []):
    lines.append(f"warning: {sentence}")
  command = _docker_command(contents["model_name"], folder.parent.resolve())
  lines.append(f"to serve it (not run by us): {command}")
  return lines


def read_origin(folder: str | os.PathLike | None) -> dict[str, object]:
  """Returns entries of metadata.json about the run that fitted the calibration EXPERIMENT/flow; {} without a run.

  They are `origin`, `figures` (the run's scores) and `warnings` (where this calibration makes them worse).
  """
  if folder is None:
    return {}
  calibration = pathlib.Path(folder).resolve()
  path = calibration.parent / "results.json"
  if not path.is_file():
    return {}
  try:
    results = checksums.verified(read_json(path))
    entries = without_folders({key: results[key] for key in _ORIGIN if key in results})
    return {
      "origin": {"folder": f"{calibration.parent.name}/{calibration.name}", **entries},
      "figures": results.get("results", {}),
      "warnings": results.get("warnings", {}).get(calibration.name, []),
    }
  except (OSError, ValueError, AttributeError, TypeError) as error:
    logging.warning("%s cannot be read (%s): metadata.json gets no scores of the run", path, error)
    return {}


def _docker_command(model_name: str, base: str | os.PathLike = "BASE") -> str:
  """Returns a command that serves the model's folder; not run by us."""
  return (
    f"docker run --rm -p 8500:8500 -p 8501:8501 -v {base}:/models/{model_name} -e MODEL_NAME={model_name} "
    "tensorflow/serving:2.19.1 --enable_batching=true --enable_per_model_batching_parameters=true"
  )


def _scores(results: dict[str, dict[str, dict[str, object]]]) -> str:
  """Returns a section with a line per method and split of the `results` of a results.json; "" without any."""
  lines = []
  for method, splits in results.items():
    for split, scores in splits.items():
      shown = [f"{name} {value:.4g}" for name, value in scores.items() if isinstance(value, int | float)]
      lines.append(f"- {method}, {split}: {', '.join(shown)}\n")
  if not lines:
    return ""
  return "\n## Scores of the run that fitted it\n\n" + "".join(lines)
