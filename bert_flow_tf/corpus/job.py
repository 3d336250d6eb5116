"""A run over a corpus, from input files to a complete folder of shards."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

from absl import logging

from bert_flow_tf.corpus import shards
from bert_flow_tf.corpus.beam_running import parse_options, run_beam
from bert_flow_tf.corpus.embedding import Model, Normalized, pending, run_streaming
from bert_flow_tf.corpus.index import Index, changed_input, find_inputs
from bert_flow_tf.corpus.manifest import Manifest
from bert_flow_tf.corpus.settings import JobSettings
from bert_flow_tf.corpus.shards import ShardFolder
from bert_flow_tf.corpus.storage import storage_of
from bert_flow_tf.errors import ConfigError, DataError, naming
from bert_flow_tf.io.experiment import Stopwatch
from bert_flow_tf.progress import counted


@dataclasses.dataclass(frozen=True)
class Result:
  """Outcome of a complete run.

  Attributes:
    folder: the output.
    counters: {counter: number} of all shards.
    seconds: {part of the work: seconds}.
    records: number of records that this run embedded; earlier runs in the folder embedded the others.
  """

  folder: ShardFolder
  counters: dict[str, int]
  seconds: dict[str, float]
  records: int

  def describe(self) -> str:
    """Returns a few lines for the user."""
    lines = [f"{self.folder.folder}: {counted(self.folder.shards, 'shard')} of {self.folder.dim} dimensions"]
    lines += [f"  {name:24} {number:>12,}" for name, number in self.counters.items()]
    if self.counters[shards.BAD]:
      lines.append(f"bad records, with file, line and reason: {self.folder.dead_letters()}")
    rate = f", {self.records / self.seconds['embedding']:,.0f} records per second" if self.records else ""
    return "\n".join([*lines, ", ".join(f"{name} {value:.1f} s" for name, value in self.seconds.items()) + rate])


class EmbeddingJob:
  """Run over a corpus; another one with the same settings and model resumes it.

  Args:
    settings: the settings.

  Attributes:
    watch: seconds by part of the work.

  Raises:
    ConfigError: a setting is missing or wrong, settings contradict each other, or an input file does not exist.
  """

  def __init__(self, settings: JobSettings) -> None:
    for name, expected in (("input", "files of sentences"), ("output_dir", "a folder")):
      if not getattr(settings, name):
        raise ConfigError(f"{name} is missing; expected {expected}", argument=name)
    for name in ("column", "id_column", "runner"):
      if getattr(settings, name) == "":
        raise ConfigError(f"{name} is empty; leave it out", argument=name)
    if settings.beam_options and settings.runner is None:
      raise ConfigError("beam_options without a runner; they are options of Apache Beam", argument="beam_options")
    self._options = None if settings.runner is None else parse_options(settings.runner, settings.beam_options)
    self.watch, self._settings = Stopwatch(), settings
    self._paths = find_inputs(settings.input)
    self._format = settings.format_of(self._paths)

  def run(
    self,
    model: Model,
    load: Callable[[], Model],
    identity: dict[str, Any],
    about: dict[str, Any],
    batch_size: int = 64,
  ) -> Result:
    """Embeds all records that earlier runs in the folder have not embedded.

    Args:
      model: the model.
      load: picklable; loads the model in a worker of Beam.
      identity: json values that decide the model's embeddings.
      about: json values for the manifest that do not decide them.
      batch_size: maximum number of sentences in a batch.

    Raises:
      BertFlowError: the folder belongs to another run, an input file cannot be read or has changed, or the model fails.
    """
    settings = self._settings
    output_dir = str(settings.output_dir)
    output = storage_of(output_dir).absolute(output_dir)
    deciding = {"input": vars(self._format), "embedder": identity, "dim": model.output_dim}
    deciding |= {name: getattr(settings, name) for name in ("output_format", "shard_size", "shard_bytes")}
    if settings.normalize:  # not among the settings otherwise, as in folders of older versions
      deciding["normalize"] = True
      model, load = Normalized(model), functools.partial(_load_normalized, load)
    manifest = Manifest(output, deciding, about)
    manifest.check()
    with manifest.lock():
      with self.watch.timing("indexing"), naming("input"):
        index = manifest.begin(self._paths, self._format, settings.shard_size, settings.shard_bytes)
      folder = ShardFolder(output, len(index.shards), settings.output_format, model.output_dim)
      with self.watch.timing("checking"):
        for name in folder.discard_damaged():
          logging.warning("%s is damaged: its shard is embedded again", name)
      tasks, done = pending(index, folder)
      sizes = counted(index.records, "record"), counted(len(index.shards), "shard")
      logging.info("%s in %s, %d of them finished", *sizes, len(done))
      with self.watch.timing("embedding"):
        if self._options is None:
          run_streaming(index, folder, self._format, model, batch_size)
        else:
          run_beam(index, folder, self._format, load, batch_size, self._options)
      counters = _finish(index, folder, manifest)
    return Result(folder, counters, self.watch.seconds, sum(task.records for task in tasks))


def _load_normalized(load: Callable[[], Model]) -> Normalized:
  """Returns the model that `load` loads, in a worker of Beam."""
  return Normalized(load())


def _finish(index: Index, folder: ShardFolder, manifest: Manifest) -> dict[str, int]:
  """Checks that all records are written from unchanged files; writes and returns the counters."""
  tasks, done = pending(index, folder)
  counters = shards.add_counters(done.values())
  if tasks or counters[shards.READ] != index.records:
    raise DataError(f"{folder.folder}: {len(tasks)} shards are missing; the same command resumes with them")
  changed = changed_input(index.inputs)
  if changed is not None:
    raise DataError(f"{changed} was changed during this run; embed it again into another folder")
  manifest.write(index, counters)
  return counters
