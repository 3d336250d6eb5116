"""What turns sentences into vectors in `run_embed`: a live encoder with its calibration, or a SavedModel.

Recipes are small and picklable; a worker of Apache Beam makes its own model of one.
"""

import contextlib
import dataclasses
import functools
import hashlib
import pathlib

import numpy as np

from bert_flow_tf.errors import BertFlowError, ConfigError, EncoderError

_SIGNATURE = "serving_default"


@dataclasses.dataclass(frozen=True)
class EncoderRecipe:
  """A live encoder, and a calibration that run_flow saved.

  Attributes:
    model: the encoder's name or folder.
    cache_dir: the hub's cache, or None.
    arguments: ((name, value), ...) of `SentenceEncoder.encode`.
    batch_size: sentences a step.
    flow_folder: the calibration's folder, or None.
    precision: number format that the encoder computes in.
  """

  model: str
  cache_dir: str | None
  arguments: tuple
  batch_size: int
  flow_folder: str | None = None
  precision: str = "float32"

  def __call__(self):
    """List of str -> float32 [n, dim]."""
    import bert_flow_tf
    from bert_flow_tf.calibration.flow import load_any

    encoder = bert_flow_tf.SentenceEncoder.from_pretrained(self.model, self.cache_dir, self.precision)
    calibration = None if self.flow_folder is None else load_any(self.flow_folder)
    return self.of(encoder, calibration)

  def of(self, encoder, calibration=None):
    """The same of what is loaded already."""
    arguments = dict(self.arguments)
    dim = encoder.dim(arguments["sentence_embedding_type"], arguments["low_dim"])

    def embed(sentences):
      found = encoder.encode(sentences, batch_size=self.batch_size, show_progress=False, **arguments)
      if calibration is None or not len(found):
        return found.reshape([-1, dim if calibration is None else calibration.output_dim])
      return calibration.transform(found)

    return _without_traceback(embed)


@dataclasses.dataclass(frozen=True)
class SavedModelRecipe:
  """An exported SavedModel, with a signature text -> embedding.

  Attributes:
    folder: with `saved_model.pb`.
    batch_size: sentences a step.
  """

  folder: str
  batch_size: int

  def __call__(self):
    """List of str -> float32 [n, dim].

    Raises:
      EncoderError: it cannot be loaded, or has no such signature.
    """
    return self.load()[0]

  def load(self):
    """What `__call__` returns, and dim."""
    import tensorflow as tf

    with contextlib.suppress(ImportError):  # a model that does without it loads all the same
      import tensorflow_text  # noqa: F401 (registers the ops that the model tokenises with)
    where = f"--saved_model={self.folder}"
    try:
      loaded = tf.saved_model.load(self.folder)
      signature = loaded.signatures[_SIGNATURE]
      ((text, spec),) = signature.structured_input_signature[1].items()
      outputs = signature.structured_outputs
      output = "embedding" if "embedding" in outputs else next(iter(outputs)) if len(outputs) == 1 else None
      dim = outputs[output].shape[1]
      if spec.dtype != tf.string or outputs[output].shape.rank != 2 or dim is None:
        raise ValueError(f"text is {spec.dtype.name}, embedding has the shape {outputs[output].shape}")
    except Exception as error:  # damaged protos, missing ops and other signatures fail in as many ways
      reason = " ".join(str(error).split())[:200]
      raise EncoderError(
        f"{where}: cannot be used ({type(error).__name__}: {reason}); expected a SavedModel whose signature "
        f"{_SIGNATURE} takes texts and gives an embedding, and tensorflow_text if it tokenises with that"
      ) from error
    embed = functools.partial(self._embed, loaded, signature, text, output, dim)
    return _without_traceback(embed), dim

  def checksum(self):
    """Hexadecimal sha256 of the graph, weights and assets; what only describes them is left out.

    Raises:
      ConfigError: the folder has no SavedModel.
    """
    folder = pathlib.Path(self.folder)
    if not (folder / "saved_model.pb").is_file():
      numbers = sorted((int(path.name), path) for path in folder.glob("[0-9]*") if (path / "saved_model.pb").is_file())
      hint = f", such as {numbers[-1][1]}" if numbers else ""
      raise ConfigError(f"--saved_model={self.folder}: found no saved_model.pb in it, expected a SavedModel{hint}")
    total = hashlib.sha256()
    files = [folder / "saved_model.pb", *(folder / "variables").glob("*"), *(folder / "assets").rglob("*")]
    for path in sorted(path for path in files if path.is_file()):
      with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
      total.update(f"{path.relative_to(folder).as_posix()} {digest}\n".encode())
    return total.hexdigest()

  def _embed(self, loaded, signature, text, output, dim, sentences):
    """Those of like length together; `loaded` is held, for the signature does not hold its weights."""
    del loaded
    import tensorflow as tf

    vectors = np.empty([len(sentences), dim], np.float32)
    order = sorted(range(len(sentences)), key=lambda i: -len(sentences[i]))
    for start in range(0, len(order), self.batch_size):
      rows = order[start : start + self.batch_size]
      batch = tf.constant([sentences[i].encode("utf-8", "replace") for i in rows])
      vectors[rows] = signature(**{text: batch})[output].numpy()
    bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if bad.size:
      raise EncoderError(f"sentence {bad[0]} (counted from 0): its embedding by {self.folder} is not finite")
    return vectors


def _without_traceback(embed):
  """What TensorFlow says as one line, such as that memory does not suffice."""

  def guarded(sentences):
    import tensorflow as tf

    try:
      return embed(sentences)
    except tf.errors.OpError as error:
      reason = " ".join(str(error.message).split())[:200]
      advice = "; try a smaller --predict_batch_size" if isinstance(error, tf.errors.ResourceExhaustedError) else ""
      raise BertFlowError(f"TensorFlow cannot embed {len(sentences)} sentences: {reason}{advice}") from error

  return guarded
