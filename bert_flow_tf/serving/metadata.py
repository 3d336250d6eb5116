"""metadata.json, the model card, the lines that a runner prints about a version; origin of its calibration."""

import json
import os
import pathlib
import re
from collections.abc import Mapping
from typing import Any

from absl import logging

from bert_flow_tf.calibration.saving import load_steps, steps_sha256
from bert_flow_tf.calibration.step import Calibration, names_of
from bert_flow_tf.encoder.identity import read_identity
from bert_flow_tf.encoder.kinds import public_name
from bert_flow_tf.encoder.transformer.number_formats import INT8
from bert_flow_tf.errors import BertFlowError, DataError
from bert_flow_tf.evaluation.result import BASELINES
from bert_flow_tf.io import checksums
from bert_flow_tf.io.files import Json, read_json, write_text
from bert_flow_tf.io.settings import differences
from bert_flow_tf.model import SentenceModel
from bert_flow_tf.progress import counted
from bert_flow_tf.report.result_files import MODELS, RESULTS_FILE
from bert_flow_tf.report.sentences import method_name
from bert_flow_tf.serving.settings import CARD, METADATA, ONNX, OPENVINO, SAVED_MODEL
from bert_flow_tf.vectors.model_of_vectors import embedder_values

# Entries of a run's results.json that explain the calibration.
_ORIGIN = ("task", "data", "flow_corpus", "fitted_on", "flags", "versions")
# Differences that a message names.
_SHOWN = 2
# The folders of an absolute path, as /home/me/ in /home/me/pairs.tsv.
_FOLDERS = re.compile(r"(?<![\w./])~?/(?:[^\s/]+/)*(?=[^\s/])")
_CARD_TEXT = """\
# {model_name}, version {version}

{embeddings}, calibrated by: {calibration[name]}.
{calibration[dim]} dimensions in, {calibration[output_dim]} out{unit}.{reads} Written {created} by bert_flow_tf \
{versions[bert_flow_tf]}.

## Signatures

{listed}

The first dimension of every input and output is the batch. {serving}`golden.json` has sentences with
the answers of this model; compare a server's answers with them. `metadata.json` has checksums, versions and origin.
{precision}
## Intended use

Cosine similarity of sentences like the sentences of the fit. The calibration was fitted without labels{fitted_on};
on other text, measure it first. Scores are not probabilities.
{cautions}{scores}"""
# What the card of a SavedModel says of servers, and that of a file of OpenVINO.
_SAVED_MODEL_TEXT = """\
Text is UTF-8; invalid bytes are dropped.

## Serving

Not tested with the server's binary:

    {docker}

The server needs the operations of TF Text, which the official servers have since 2.12. """
_OPENVINO_TEXT = """\
{tokens}

## Serving

    model = openvino.compile_model("model.xml", "CPU", {settings})
    embeddings = model({{{inputs}}})["embedding"]

Without the setting, a CPU with instructions for bfloat16 computes in it. OpenVINO Model Server takes the folder above
this one, and `config.json` is a configuration; not tested with its binary:

    {docker}

"""
_ONNX_TEXT = """\
{tokens}

## Use

    session = onnxruntime.InferenceSession("model.onnx")
    (embeddings,) = session.run(["embedding"], {{{inputs}}})

"""
_TOKENS_TEXT = """\
Padding stands behind the tokens of a row,
and its ids change nothing.{prompt} `tokenizer.json` is for the package tokenizers, which adds the special tokens, cuts
off and pads by it; with `encode_special_tokens = True`, "[MASK]" in a text is text."""
_SERVING_TEXTS = {SAVED_MODEL: _SAVED_MODEL_TEXT, OPENVINO: _OPENVINO_TEXT, ONNX: _ONNX_TEXT}
# Settings with which OpenVINO computes in float32.
PLUGIN_CONFIG = {"INFERENCE_PRECISION_HINT": "f32"}
# Of an encoder in int8.
_INT8_TEXT = """
The encoder computes in int8, for which the server needs an x86 CPU, and no GPU. Export on a machine like the server's:
errors are larger if the server alone has no VNNI instructions (Intel before 2019, AMD before 2022).
"""
_OPENVINO_INT8_TEXT = """
The kernels of the encoder are int8, and OpenVINO quantizes their inputs at each request on CPUs that can.
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
  """Writes metadata.json, with checksums of the version's files, and the model card."""
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
  embeddings, reads, precision, tokens = "Embeddings of another program", "", "", "It may have any size."
  form = contents.get("format", SAVED_MODEL)
  if _takes_text(contents):
    encoder = contents["encoder"]
    embeddings = f"Sentence embeddings of {encoder['name']} ({encoder['pooled']})"
    if "tokens" in encoder:
      reads = f" The first {encoder['max_seq_length']} tokens of a sentence are read."
    if encoder.get("precision") == INT8:
      precision = _OPENVINO_INT8_TEXT if form == OPENVINO else _INT8_TEXT
    if form != SAVED_MODEL:
      tokens = _tokens_text(contents)
  serving, inputs = _SERVING_TEXTS[form], ""
  if form != SAVED_MODEL:  # which has one function
    (signature,) = contents["signatures"].values()
    inputs = ", ".join(f'"{name}": {name}' for name in signature["inputs"])
  return _CARD_TEXT.format(
    **contents,
    embeddings=embeddings,
    reads=reads,
    precision=precision,
    unit=", of unit length" if contents["normalize"] else "",
    listed="\n".join(signatures),
    serving=serving.format(docker=_docker_command(contents), settings=PLUGIN_CONFIG, tokens=tokens, inputs=inputs),
    fitted_on=_fitted_on(contents),
    cautions="".join(cautions),
    scores=_scores(contents),
  )


def _tokens_text(contents: Mapping[str, Any]) -> str:
  """Returns what a client of ids must know."""
  prompt = contents["encoder"].get("prompt") or ""
  return _TOKENS_TEXT.format(prompt=f" A client puts {prompt!r} before each text." if prompt else "")


def _fitted_on(contents: Mapping[str, Any]) -> str:
  """Returns the size of the fit, as `read_origin` has it: " on 58 sentences and 24 queries"; "" if it is not known."""
  sizes = contents.get("origin", {}).get("fitted_on")
  if not sizes:
    return ""
  queries = counted(sizes.get("queries", 0), "query", ",")
  return f" on {counted(sizes['sentences'], 'sentence', ',')} and {queries}"


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
  parts = {"pooled": "the encoder", "calibrated": "the calibration", "whole": "both together"}
  # Versions before 0.3 have no number of the whole way.
  differences = [f"{agreement[key]:.1g} of {part}" for key, part in parts.items() if key in agreement]
  size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
  dims = f"{calibration['dim']} dimensions"
  if calibration["output_dim"] != calibration["dim"]:
    dims += f", {calibration['output_dim']} calibrated"
  lines = [
    f"{folder}: {name}, calibration {calibration['name']}, {dims}, {size / 1e6:.1f} MB",
    f"signatures: {', '.join(contents['signatures'])}",
    f"largest difference from Python, relative to the largest value: {', '.join(differences)}",
  ]
  for sentence in contents.get("warnings", []):
    lines.append(f"warning: {sentence}")
  if contents.get("format") != ONNX:
    command = _docker_command(contents, folder.parent.resolve())
    lines.append(f"to serve it (not run by us): {command}")
  return lines


def read_origin(
  folder: str | os.PathLike | None, model: SentenceModel | Calibration | None = None
) -> dict[str, object]:
  """Returns entries of metadata.json about the run that fitted the calibration EXPERIMENT/flow; {} without a run.

  They are `origin`, `figures` (the scores of this model in the run, and of its encoder without a calibration),
  `controls` (the scores of string matches) and `warnings` (where this calibration makes a score worse). {}, and a
  warning in the log, if results.json does not say that it has scores of this very model: encoder, settings, steps.

  Args:
    folder: the folder of the calibration.
    model: the model that is described, which was loaded from the folder; None for the model as the folder has it.
  """
  if folder is None:
    return {}
  calibration = pathlib.Path(folder).expanduser().resolve()
  path = calibration.parent / RESULTS_FILE
  if not path.is_file():
    return {}
  try:
    results = checksums.verified(read_json(path))
    name, values = _described(model, calibration)
    method = _find_method(results, name, values)
    entries = without_folders({key: results[key] for key in _ORIGIN if key in results})
    entries["encoder"] = public_name(results["encoder"]["name"])
    return {
      "origin": {"folder": f"{calibration.parent.name}/{calibration.name}", **entries},
      "figures": _scores_of(results["results"], {method, *BASELINES}),
      "controls": results["controls"],
      "warnings": results.get("warnings", {}).get(name, []),
    }
  except (BertFlowError, OSError, ValueError, LookupError, AttributeError, TypeError) as error:
    logging.warning("%s: metadata.json gets no scores of this run (%s)", path, error)
    return {}


def _described(model, folder) -> tuple[str | None, Json]:
  """Returns the names of a model's steps, and the values that decide its embeddings, as a results.json has them."""
  if isinstance(model, SentenceModel):
    return model.calibration_name, embedder_values(model)
  if model is None:
    steps, encoder, _ = load_steps(folder)
  else:
    steps, encoder = [model], model.encoder
    if encoder is not None:
      encoder = {**encoder, "low_dim": None}  # a step of the run, which a calibration alone does not have
  identity = read_identity(encoder, f"folder={folder}")
  values = {} if identity is None else identity.deciding()
  return names_of(steps), {**values, "calibration_sha256": steps_sha256(steps)}


def _find_method(results: Json, name: str | None, values: Json) -> str:
  """Returns the method of a results.json whose model has these values, and any name; a DataError if there is none."""
  if "task" not in results:
    raise DataError("it is no file of a run that fits")
  if MODELS not in results:
    raise DataError("it was written by a version before 0.3, which did not say of which models its scores are")
  unlike = {method: differences(of_method, values) for method, of_method in results[MODELS].items()}
  # Of two that are as near, the one of the same name.
  method = min(unlike, key=lambda method: (len(unlike[method]), method_name(method) != name))
  low_dim = results[MODELS][method].get("low_dim")
  if unlike[method] and unlike[method] == differences({"low_dim": low_dim}, {}):
    reason = f"its scores are of low_dim={low_dim}, which a calibration alone does not have"
    raise DataError(f"{reason}; export the model with it")
  if unlike[method]:
    shown = "; ".join(unlike[method][:_SHOWN])
    raise DataError(f"its scores are of other models, of which {method_name(method)} is the nearest: {shown}")
  return method


def _scores_of(by_split, methods):
  """Returns {split: {method: scores}} of some methods; without splits that have none of them."""
  scores = {}
  for split, by_method in by_split.items():
    of_methods = {method: values for method, values in by_method.items() if method in methods}
    if of_methods:
      scores[split] = of_methods
  return scores


def _docker_command(contents: Mapping[str, Any], base: str | os.PathLike = "BASE") -> str:
  """Returns a command that serves the model's folder; not run by us."""
  name = contents["model_name"]
  if contents.get("format") == OPENVINO:
    return (
      f"docker run --rm -p 9000:9000 -p 8000:8000 -v {base}:/models/{name} openvino/model_server --model_name {name} "
      f"--model_path /models/{name} --port 9000 --rest_port 8000 --plugin_config '{json.dumps(PLUGIN_CONFIG)}'"
    )
  return (
    f"docker run --rm -p 8500:8500 -p 8501:8501 -v {base}:/models/{name} -e MODEL_NAME={name} "
    "tensorflow/serving:2.19.1 --enable_batching=true --enable_per_model_batching_parameters=true"
  )


def _scores(contents: Mapping[str, Any]) -> str:
  """Returns a section with a line per method and split of the scores of `read_origin`; "" without any."""
  lines = []
  for split, by_method in contents.get("figures", {}).items():
    named = {method_name(method): scores for method, scores in by_method.items()}
    for match, scores in contents.get("controls", {}).get(split, {}).items():
      named[f"string match without an encoder ({match})"] = scores
    for name, scores in named.items():
      shown = [f"{key} {value:.4g}" for key, value in scores.items() if isinstance(value, int | float)]
      lines.append(f"- {split}, {name}: {', '.join(shown)}\n")
  if not lines:
    return ""
  origin = contents["origin"]
  measured = f"Measured in Python on {origin['task']}, with embeddings of {origin['encoder']}.\n\n"
  return f"\n## Scores of the run that fitted it\n\n{measured}{''.join(lines)}"
