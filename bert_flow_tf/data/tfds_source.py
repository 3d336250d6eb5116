"""Data sets of TensorFlow Datasets, which is imported when first asked for: preparing and reading them."""

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from bert_flow_tf.errors import DataError

_TIMEOUT_S = 5


def prepared(
  task: str,
  name: str,
  tfds_data_dir: str | None,
  offline: str,
  urls: Callable[[Any], Iterable[str]] = lambda builder: [builder.builder_config.data_url],
  make: Callable[..., Any] | None = None,
):
  """Returns a TFDS builder, prepared on disk: downloaded and built by the first call.

  Args:
    task: what messages call the data: "STS-B".
    name: what TFDS calls it: "glue/stsb".
    tfds_data_dir: TFDS's folder; None for its default.
    offline: end of the message where it cannot be had: what to do without a network.
    urls: builder -> the addresses it will download from, which are tried before.
    make: data_dir -> builder, for a builder that is not one of TFDS's own.

  Raises:
    DataError: it cannot be had; told within seconds, with nothing left behind.
  """
  tried = f"looked for {name} in {tfds_data_dir or 'its default folder'}"
  try:
    import tensorflow_datasets as tfds

    builder = make(data_dir=tfds_data_dir) if make else tfds.builder(name, data_dir=tfds_data_dir)
    tried = f"looked for {name} in {builder.data_dir_root}"
    if not builder.is_prepared():
      for url in urls(builder):
        tried = f"looked for {name} in {builder.data_dir_root}, then at {url}"
        # By itself TFDS tries a dead address ten times, for minutes, and leaves folders behind.
        get(url, stream=True).close()
      builder.download_and_prepare()
  except DataError:
    raise
  except Exception as error:  # TFDS promises no set of errors: network, disk, checksum, archive, import.
    raise DataError(f"{task} cannot be had from TensorFlow Datasets: {tried} ({reason(error)}); {offline}") from error
  return builder


def read_split(builder, split: str, text: Sequence[str], others: Sequence[str] = ()) -> list[Any]:
  """Reads columns of a split from disk, in the order of `idx` where the data set has that, else as stored.

  Args:
    builder: what `prepared` gives.
    split: TFDS's name of it.
    text: features to return as a list of str each.
    others: features to return as an array each.

  Raises:
    DataError: the files are damaged.
  """
  import tensorflow_datasets as tfds

  try:
    rows = tfds.as_numpy(builder.as_dataset(split=split, batch_size=-1))
    # TFDS shuffles what it stores.
    order = np.argsort(rows["idx"], kind="stable") if "idx" in rows else np.arange(len(rows[text[0]]))
    columns = [[rows[key][i].decode("utf-8") for i in order] for key in text]
    return columns + [rows[key][order] for key in others]
  except Exception as error:  # As above; also what TensorFlow says of a damaged record.
    name = "/".join(filter(None, (builder.name, builder.builder_config and builder.builder_config.name)))
    raise DataError(
      f"the {split} split of {name} in {os.fspath(builder.data_dir)} cannot be read "
      f"({reason(error)}): remove that folder to have it prepared again"
    ) from error


def scores_of(column) -> np.ndarray:
  """Returns float64 scores of a float32 column: TFDS stores 3.8 as 3.7999999523.

  Six decimals are what float32 holds up to 5.
  """
  return np.round(column.astype(np.float64), 6)


def get(url: str, stream: bool = False):
  """Opens an address as TFDS does, through `requests`, but gives up soon."""
  import requests

  response = requests.get(url, stream=stream, timeout=_TIMEOUT_S)
  response.raise_for_status()
  return response


def reason(error: Exception) -> str:
  """The error's type and the beginning of its message, on one line."""
  return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
