"""The model card of a version, and the lines that a runner prints; both made from metadata.json."""

import json
import pathlib

from bert_flow_tf.io.files import write_text
from bert_flow_tf.serving.layout import ExportLayout

_CARD = """\
# {model_name}, version {version}

Sentence embeddings of {encoder_name} ({pooled}), calibrated by: {calibration}.
{dim} dimensions in, {output_dim} out{unit}. The first {max_seq_length} tokens of a sentence are read.
Weights on disk: {weights_dtype}. Written {created} by bert_flow_tf {package}.

## Signatures

{signatures}

The first dimension of every input and output is the batch. Text is UTF-8; invalid bytes are dropped.

## Serving

We have not run this command, as we had no server binary:

    {docker}

The server needs the operations of TF Text, which the official servers have since 2.12. `golden.json` has sentences with
the answers of this model; compare a server's answers with them. `metadata.json` has checksums, versions and origin.

## Intended use

Cosine similarity of sentences like those that the calibration was fitted on. The calibration was fitted without labels;
on other text, measure it first. Scores are not probabilities.
{warnings}{figures}"""


def docker_command(model_name: str, base: str | pathlib.Path = "BASE") -> str:
  """Returns a command that serves the model's folder; not run by us."""
  return (
    f"docker run --rm -p 8500:8500 -p 8501:8501 -v {base}:/models/{model_name} -e MODEL_NAME={model_name} "
    "tensorflow/serving:2.19.1 --enable_batching=true --enable_per_model_batching_parameters=true"
  )


def write(path: pathlib.Path, metadata: dict) -> None:
  """Writes the card from the content of metadata.json."""
  encoder, calibration = metadata["encoder"], metadata["calibration"]
  signatures = "\n".join(f"- `{name}`: {about['meaning']}" for name, about in metadata["signatures"].items())
  figures = metadata.get("figures")
  card = _CARD.format(
    model_name=metadata["model_name"],
    version=metadata["version"],
    encoder_name=encoder["name"],
    pooled=encoder["pooled"],
    calibration=calibration["name"],
    dim=calibration["dim"],
    output_dim=calibration["output_dim"],
    unit=", of unit length" if metadata["normalize"] else "",
    max_seq_length=encoder["max_seq_length"],
    weights_dtype=metadata["weights_dtype"],
    created=metadata["created"],
    package=metadata["versions"]["bert_flow_tf"],
    signatures=signatures,
    docker=docker_command(metadata["model_name"]),
    warnings="".join(f"\n**Warning**: {sentence}.\n" for sentence in metadata.get("warnings", [])),
    figures=f"\n## Scores of the run that fitted it\n\n{_scores(figures)}\n" if figures else "",
  )
  write_text(path, card)


def summary(layout: ExportLayout) -> list[str]:
  """Returns lines that say what an export wrote and how to serve it."""
  metadata = json.loads(layout.metadata.read_text(encoding="utf-8"))
  encoder, calibration, agreement = (metadata[key] for key in ("encoder", "calibration", "agreement_with_python"))
  size = sum(path.stat().st_size for path in layout.folder.rglob("*") if path.is_file())
  dims = f"{calibration['dim']} dimensions"
  if calibration["output_dim"] != calibration["dim"]:
    dims += f", {calibration['output_dim']} calibrated"
  return [
    f"{layout.folder}: {encoder['name']}, calibration {calibration['name']}, {dims}, {size / 1e6:.1f} MB",
    f"signatures: {', '.join(metadata['signatures'])}",
    f"largest difference from Python, relative to the largest value: {agreement['pooled']:.1g} before calibration, "
    f"{agreement['calibrated']:.1g} after",
    *(f"warning: {sentence}" for sentence in metadata.get("warnings", [])),
    f"to serve it (not run by us): {docker_command(metadata['model_name'], layout.base.resolve())}",
  ]


def _scores(results: dict) -> str:
  """Returns a line per method and split of the `results` of a results.json."""
  lines = []
  for method, splits in results.items():
    for split, scores in splits.items():
      shown = ", ".join(f"{name} {value:.4g}" for name, value in scores.items() if isinstance(value, int | float))
      lines.append(f"- {method}, {split}: {shown}")
  return "\n".join(lines)
