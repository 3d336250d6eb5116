"""Data sets of TensorFlow Datasets: preparation and reading. The package is imported when first needed."""

import urllib.parse
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from bert_flow_tf.errors import DataError

if TYPE_CHECKING:
  import requests
  import tensorflow_datasets as tfds

_TIMEOUT_S = 5


def prepared(
  task: str, name: str, tfds_data_dir: str | None, expected: str, urls: Sequence[str] = ()
) -> "tfds.core.DatasetBuilder":
  """Returns the TFDS builder `name` ("glue/stsb"), whose data is on disk; the first call downloads and prepares it."""
  # TFDS downloads from `urls`, or else from the builder's data_url.
  tried = f"looked for {name} in {tfds_data_dir or 'its default folder'}"
  try:
    import tensorflow_datasets as tfds

    from bert_flow_tf.data import tfds_builders  # the import makes them known to TFDS

    builder = tfds.builder(name, data_dir=tfds_data_dir)
    tried = f"looked for {name} in {builder.data_dir_root}"
    if not builder.is_prepared():
      if isinstance(builder, tfds_builders.PairsBuilder):
        urls = builder.missing_urls()
      elif not urls:
        urls = [builder.builder_config.data_url]
      for url in urls:
        tried = f"looked for {name} in {builder.data_dir_root}, then at {url}"
        # TFDS itself tries a dead address ten times, for minutes, and leaves folders on disk.
        get(url, stream=True).close()
      builder.download_and_prepare()
  except DataError:
    raise
  except Exception as error:  # TFDS documents no set of errors: network, disk, checksum, archive, import.
    message = f"{task} cannot be loaded from TensorFlow Datasets: {tried} ({short_reason(error)})"
    raise DataError(f"{message}; without a network, set data_dir to a folder with {expected}") from error
  return builder


def source_of(builder: "tfds.core.DatasetBuilder") -> str:
  """Returns a description of a builder's data, for messages and results."""
  return f"TensorFlow Datasets {builder.info.full_name} in {builder.data_dir_root}"


def read_split(
  builder: "tfds.core.DatasetBuilder", split: str, text: Sequence[str], number: str
) -> tuple[list[list[str]], np.ndarray]:
  """Returns the columns `text` and `number`, float64 [n], of a split, in the order of `idx` if the data set has it."""
  import tensorflow_datasets as tfds

  try:
    rows = tfds.as_numpy(builder.as_dataset(split=split, batch_size=-1))
    order = np.arange(len(rows[number]))
    if "idx" in rows:  # TFDS shuffles the records that it stores.
      order = np.argsort(rows["idx"], kind="stable")
    columns = []
    for key in text:
      columns.append([rows[key][i].decode("utf-8") for i in order])
    # Scores are stored in float32, in which 3.8 is 3.7999999523: six decimals of numbers up to 5.
    return columns, np.round(rows[number][order].astype(np.float64), 6)
  except Exception as error:  # TFDS documents no errors here either; a damaged record is an error of TensorFlow.
    message = f"the {split} split of {source_of(builder)} cannot be read ({short_reason(error)})"
    raise DataError(f"{message}; remove its folder to prepare it again") from error


def get(url: str, stream: bool = False) -> "requests.Response":
  """Returns the response of `requests`, which TFDS uses too, with a short timeout.

  Raises:
    ConnectionError: the host cannot be reached; requests' own message is nested and long.
  """
  import requests

  try:
    response = requests.get(url, stream=stream, timeout=_TIMEOUT_S)
  except (requests.ConnectionError, requests.Timeout) as error:
    raise ConnectionError(f"no connection to {urllib.parse.urlsplit(url).netloc}") from error
  response.raise_for_status()
  return response


def short_reason(error: Exception) -> str:
  """Returns the beginning of the error's message in one line, after the error's type unless it is ConnectionError."""
  if isinstance(error, ConnectionError):
    return str(error)
  return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
