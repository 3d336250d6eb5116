"""Reads an exported SavedModel, to embed with it in place of a `SentenceModel`."""

import contextlib
import hashlib
import pathlib

import numpy as np
import tensorflow as tf

from bert_flow_tf.errors import BertFlowError, ConfigError, EncoderError
from bert_flow_tf.io import checksums
from bert_flow_tf.io.files import read_json

_SIGNATURE = "serving_default"


class SavedModelReader:
  """SavedModel whose default signature maps texts to embeddings.

  Args:
    folder: the folder of `saved_model.pb`.

  Raises:
    ConfigError: the folder has no SavedModel.
    EncoderError: it cannot be loaded, or has no such signature.

  Attributes:
    folder: as above.
    output_dim: dimensions of an embedding.
  """

  def __init__(self, folder: str) -> None:
    with contextlib.suppress(ImportError):  # needed only by models that use its ops
      import tensorflow_text  # noqa: F401 (registers the ops)
    self.folder = folder
    _check_folder(pathlib.Path(folder))
    _check_files(pathlib.Path(folder))
    try:
      # Kept, because the signature does not keep the weights.
      self._loaded = tf.saved_model.load(folder)
      self._signature = self._loaded.signatures[_SIGNATURE]
      ((self._input, spec),) = self._signature.structured_input_signature[1].items()
      outputs = self._signature.structured_outputs
      self._output = "embedding" if "embedding" in outputs else next(iter(outputs)) if len(outputs) == 1 else None
      shape = outputs[self._output].shape
      if spec.dtype != tf.string or shape.rank != 2 or shape[1] is None:
        raise ValueError(f"text is {spec.dtype.name}, embedding has the shape {shape}")
    except Exception as error:  # damaged files, missing ops and other signatures raise many kinds of error
      reason = " ".join(str(error).split())[:200]
      raise EncoderError(
        f"saved_model={folder} cannot be used ({type(error).__name__}: {reason}); expected a SavedModel whose "
        f"signature {_SIGNATURE} maps texts to embeddings, and tensorflow_text if the model uses its ops",
        argument="saved_model",
      ) from error
    self.output_dim = shape[1]

  def checksum(self) -> str:
    """Returns the hexadecimal sha256 of graph, weights and assets, without files that only describe them."""
    folder, total = pathlib.Path(self.folder), hashlib.sha256()
    files = [folder / "saved_model.pb", *(folder / "variables").glob("*"), *(folder / "assets").rglob("*")]
    for path in sorted(path for path in files if path.is_file()):
      total.update(f"{path.relative_to(folder).as_posix()} {checksums.of_file(path)}\n".encode())
    return total.hexdigest()

  def encode(self, sentences: list[str], batch_size: int = 32) -> np.ndarray:
    """Returns embeddings, float32 array of shape [n, output_dim].

    Raises:
      EncoderError: an embedding is not finite.
      BertFlowError: TensorFlow cannot compute them.
    """
    vectors = np.empty([len(sentences), self.output_dim], np.float32)
    order = sorted(range(len(sentences)), key=lambda i: -len(sentences[i]))  # batches of similar length
    for start in range(0, len(order), batch_size):
      rows = order[start : start + batch_size]
      batch = tf.constant([sentences[i].encode("utf-8", "replace") for i in rows])
      try:
        vectors[rows] = self._signature(**{self._input: batch})[self._output].numpy()
      except tf.errors.OpError as error:
        reason = " ".join(str(error.message).split())[:200]
        raise BertFlowError(f"{self.folder} cannot embed {len(rows)} sentences: {reason}") from error
    bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if bad.size:
      raise EncoderError(f"sentence {bad[0]} (counted from 0): its embedding by {self.folder} is not finite")
    return vectors


def _check_files(folder):
  """Raises an EncoderError if a file differs from its checksum in our metadata.json; other models have none."""
  path = folder / "assets.extra" / "metadata.json"
  if not path.is_file():
    return
  try:
    checksums.opened(read_json(path), folder)
  except (OSError, ValueError) as error:
    raise EncoderError(
      f"saved_model={folder}: damaged, {path.name}: {error}; {checksums.KEEP_CHANGES}", argument="saved_model"
    ) from error


def _check_folder(folder):
  """Raises a ConfigError if a folder has no SavedModel; names the newest version below it, if there is one."""
  if (folder / "saved_model.pb").is_file():
    return
  versions = sorted(folder.glob("[0-9]*/saved_model.pb"))
  hint = f", such as {versions[-1].parent}" if versions else ""
  raise ConfigError(
    f"saved_model={folder}: no saved_model.pb in it, expected a SavedModel{hint}", argument="saved_model"
  )
