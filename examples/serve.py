"""A served model from end to end: fit, export, and ask as a client does.

    pip install -e '.[serving]'
    python examples/serve.py --export_dir=served                                     # fits and exports
    docker run --rm -p 8501:8501 -v "$PWD/served:/models/bert_flow" -e MODEL_NAME=bert_flow tensorflow/serving:2.19.1
    python examples/serve.py --export_dir=served --server=http://localhost:8501      # asks the server

Without a server the export itself is asked, by TensorFlow alone: no code of bert_flow_tf is in the answer, only ops
of TensorFlow and TensorFlow Text.
"""

import argparse
import pathlib
from collections.abc import Callable

import numpy as np

from bert_flow_tf import SentenceModel, export_model, load_task
from bert_flow_tf.serving.client import make_client

PAIRS = [
  ("A man is eating.", "A man has lunch."),
  ("A man is eating.", "The stock market fell."),
  ("Kinder spielen im Hof.", "Café, naïve: 20 % 😀"),
]


def export(model: SentenceModel, export_dir: pathlib.Path) -> pathlib.Path:
  """Writes the next version of a model; returns its folder, for example served/1."""
  folder = export_model(model, export_dir)
  print(f"wrote {folder}: text in, embeddings and similarities out; README.md and metadata.json describe it")
  return folder


def newest_version(export_dir: pathlib.Path) -> pathlib.Path | None:
  """Returns the folder of the newest version, which a server would take; None if there is none."""
  versions = [path for path in export_dir.glob("*") if path.name.isdigit()]
  return max(versions, key=lambda path: int(path.name), default=None)


def ask_the_export(folder: pathlib.Path) -> Callable[[list], list[float]]:
  """Returns a function from pairs to similarities, which runs the SavedModel as a server does."""
  import tensorflow as tf
  import tensorflow_text  # noqa: F401 (its ops)

  similarity = tf.saved_model.load(str(folder)).signatures["similarity"]

  def ask(pairs: list) -> list[float]:
    texts_a, texts_b = zip(*pairs, strict=True)
    (answer,) = similarity(text_a=tf.constant(texts_a), text_b=tf.constant(texts_b)).values()
    return answer.numpy().tolist()

  return ask


def ask_a_server(server: str) -> Callable[[list], list[float]]:
  """Returns a function from pairs to similarities, which asks a server: http://HOST:PORT, or HOST:PORT of gRPC."""

  def ask(pairs: list) -> list[float]:
    with make_client(server, "bert_flow", timeout=30.0) as client:
      return client.similarities(pairs)

  return ask


def main(arguments: list[str] | None = None) -> dict[str, object]:
  """Fits and exports if the folder has no version, then asks; returns the answers."""
  parser = argparse.ArgumentParser(description="Fits, exports and serves a model.")
  parser.add_argument("--export_dir", type=pathlib.Path, default=pathlib.Path("served"))
  parser.add_argument("--model", default="mini", help="an encoder, as in SentenceModel.from_pretrained")
  parser.add_argument("--calibration", default="flow")
  parser.add_argument("--server", help="http://HOST:PORT, or HOST:PORT of gRPC; none: the export itself is asked")
  options = parser.parse_args(arguments)

  calibration = options.export_dir.with_name(f"{options.export_dir.name}_calibration")
  folder = newest_version(options.export_dir)
  if folder is None:
    sentences = load_task("sample").splits["train"]
    model = SentenceModel.from_pretrained(options.model).fit(sentences, options.calibration)
    model.save(calibration)
    folder = export(model, options.export_dir)

  ask = ask_a_server(options.server) if options.server else ask_the_export(folder)
  served = ask(PAIRS)
  for (text_a, text_b), cosine in zip(PAIRS, served, strict=True):
    print(f"{cosine:6.3f}  {text_a}  |  {text_b}")

  # The server and Python agree: the export was compared when it was written, and can be again at any time.
  if not calibration.exists():
    print(f"{folder} was written by another program; there is no {calibration} to compare it with")
    return {"folder": str(folder), "served": served}
  python = SentenceModel.load(calibration).similarity(*zip(*PAIRS, strict=True))
  print(f"largest difference from Python: {np.max(np.abs(python - served)):.1e}")
  return {"folder": str(folder), "served": served, "python": python.tolist()}


if __name__ == "__main__":
  main()
