"""The model card: metadata.json for people."""

from bert_flow_tf.io.files import write_text
from bert_flow_tf.serving import assets

_CARD = """\
# {model_name}, version {version}

Sentence embeddings of {encoder_name} ({pooled}), calibrated by: {calibration}.
{dim} dimensions in, {output_dim} out{unit}. A sentence's first {max_seq_length} tokens count.
Weights on disk: {weights_dtype}. Written {created} by bert_flow_tf {package}.

## Signatures

{signatures}

Every input and output has the batch as its first dimension. Text is UTF-8; bytes that are not are dropped.

## Serving

Not run by us: no server's binary was at hand where this was written.

    {docker}

The server needs TF Text's ops, which stock servers from 2.12 on have. `golden.json` has sentences with the answers they
got here; ask a server the same to see that it agrees. `metadata.json` has checksums, versions and origin.

## Meant for, and not

Meant for the cosine similarity of sentences like those that the calibration was fitted on. The calibration was fitted
without labels; on text of another kind measure it first. Scores are no probabilities.
{figures}"""


def write(path, described):
  """Writes the card from the content of metadata.json."""
  encoder, calibration = described["encoder"], described["calibration"]
  signatures = "\n".join(f"- `{name}`: {about['meaning']}" for name, about in described["signatures"].items())
  figures = described.get("figures")
  card = _CARD.format(
    model_name=described["model_name"],
    version=described["version"],
    encoder_name=encoder["name"],
    pooled=encoder["pooled"],
    calibration=calibration["name"],
    dim=calibration["dim"],
    output_dim=calibration["output_dim"],
    unit=", of length 1" if described["normalize"] else "",
    max_seq_length=encoder["max_seq_length"],
    weights_dtype=described["weights_dtype"],
    created=described["created"],
    package=described["versions"]["bert_flow_tf"],
    signatures=signatures,
    docker=assets.docker_command(described["model_name"]),
    figures=f"\n## Figures of the run that fitted it\n\n{_table(figures)}\n" if figures else "",
  )
  write_text(path, card)


def _table(figures):
  """`results` of a results.json as lines; other content as it is."""
  lines = []
  for method, splits in figures.items() if isinstance(figures, dict) else []:
    for split, values in splits.items() if isinstance(splits, dict) else []:
      if isinstance(values, dict):
        shown = ", ".join(f"{key} {value:.4g}" for key, value in values.items() if isinstance(value, int | float))
        lines.append(f"- {method}, {split}: {shown}")
  return "\n".join(lines) or str(figures)
