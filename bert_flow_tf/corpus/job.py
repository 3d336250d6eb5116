"""A run over a corpus: any number of input files to one folder of shards."""

import dataclasses
from collections.abc import Callable
from typing import Any

from absl import logging

from bert_flow_tf.corpus import shards, storage
from bert_flow_tf.corpus.beam_running import parse_options, run_beam
from bert_flow_tf.corpus.embedding import Model, pending, run_streaming
from bert_flow_tf.corpus.index import Index, changed_input, find_inputs
from bert_flow_tf.corpus.settings import JobSettings
from bert_flow_tf.corpus.shards import Manifest, ShardFolder
from bert_flow_tf.errors import DataError, naming
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
    for name, number in self.counters.items():
      lines.append(f"  {name:24} {number:>12,}")
    if self.counters[shards.BAD]:
      lines.append(f"bad records, with file, line and reason: {self.folder.dead_letters()}")
    times = ", ".join(f"{name} {value:.1f} s" for name, value in self.seconds.items())
    if self.records:
      times += f", {self.records / self.seconds['embedding']:,.0f} records per second"
    return "\n".join([*lines, times])


class EmbeddingJob:
  """Run over a corpus; another one with the same settings and model resumes it.

  Raises a ConfigError if a setting is missing or wrong, settings contradict each other, or an input file does not
  exist. `watch` has the seconds by part of the work.
  """

  def __init__(self, settings: JobSettings) -> None:
    settings.check()
    self._options = None
    if settings.runner is not None:
      self._options = parse_options(settings.runner, settings.beam_options)
    self.watch = Stopwatch()
    self._settings = settings
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
      identity: JSON values that decide the model's embeddings.
      about: JSON values for the manifest that do not decide them.
      batch_size: maximum number of sentences in a batch.

    Raises:
      BertFlowError: the folder belongs to another run, an input file cannot be read or has changed, or the model fails.
    """
    settings = self._settings
    output = storage.absolute(str(settings.output_dir))
    deciding = {"input": vars(self._format), "embedder": identity, "dim": model.output_dim}
    for name in ("output_format", "shard_size", "shard_bytes", "normalize"):
      deciding[name] = getattr(settings, name)
    arguments = {"batch_size": batch_size, "normalize_embeddings": settings.normalize}
    manifest = Manifest(output, deciding, about)
    manifest.check()
    with manifest.lock():
      with self.watch.timing("indexing"), naming("input"):
        index = manifest.begin(self._paths, self._format, settings.shard_size, settings.shard_bytes)
      folder = ShardFolder(output, len(index.shards), settings.output_format, model.output_dim)
      with self.watch.timing("checking"):
        for name in folder.discard_damaged():
          logging.warning("a file of %s is damaged: its shard is embedded again", name)
      tasks, done = pending(index, folder)
      sizes = f"{counted(index.records, 'record')} in {counted(len(index.shards), 'shard')}"
      logging.info("%s, %d of them finished", sizes, len(done))
      with self.watch.timing("embedding"):
        if self._options is None:
          run_streaming(index, folder, self._format, model, arguments)
        else:
          run_beam(index, folder, self._format, load, arguments, self._options)
      counters = _finish(index, folder, manifest)
    return Result(folder, counters, self.watch.seconds, sum(task.records for task in tasks))


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
