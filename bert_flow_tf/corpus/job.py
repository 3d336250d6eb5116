"""A run over a corpus, any number of input files to one folder of shards; and its settings."""

import dataclasses
from collections.abc import Mapping, Sequence

from absl import logging

from bert_flow_tf.corpus.embedding import Embedder, pending, run_streaming
from bert_flow_tf.corpus.resume import Manifest
from bert_flow_tf.corpus.shard_plan import ShardPlan, changed_input, find_inputs, repeated_ids
from bert_flow_tf.data.files.given_columns import common_kind, corpus_format, warn_of_unused_ids
from bert_flow_tf.data.files.input_format import (
  BAD,
  CSV,
  EMBED,
  KINDS,
  PARQUET,
  SKIP,
  TEXT,
  TFRECORD,
  TSV,
  InputFormat,
  record_limit,
)
from bert_flow_tf.data.files.parquet import import_parquet
from bert_flow_tf.errors import ConfigError, DataError, install_command, naming
from bert_flow_tf.io import storage
from bert_flow_tf.io.experiment import Stopwatch
from bert_flow_tf.io.settings import Settings, setting
from bert_flow_tf.progress import counted
from bert_flow_tf.vectors import shards
from bert_flow_tf.vectors.shards import ShardFolder


@dataclasses.dataclass(frozen=True)
class JobSettings(Settings):
  """Input files, output folder and Beam's runner."""

  input: tuple[str, ...] = setting(
    (), "Files, or globs of files, of sentences; in quotes, as 'corpus/*.txt.gz'. - is standard input."
  )
  output_dir: str | None = setting(
    None, "Folder of the vectors; an interrupted run resumes in its folder.", flag="output"
  )
  input_format: str | None = setting(
    None,
    "text (one sentence per line), tsv, csv, jsonl (an object per line), parquet or tfrecord (of tf.train.Example). "
    "Default: by the files' names.",
    choices=KINDS,
  )
  column: str | None = setting(
    None,
    "Column of the sentence, or several, as title,text, joined by a blank: names, in TSV and CSV also numbers from 1; "
    "in a TFRecord the feature's name. Default: sentence or text, if the columns have names, else the only one.",
  )
  id_column: str | None = setting(None, "Column of the record's id. Default: records are numbered from 1.")
  header: bool | None = setting(
    None, "Whether the first line of a TSV or CSV names its columns. Default: yes if a column is given by name."
  )
  empty_lines: str = setting(
    SKIP,
    "Treatment of empty sentences: skip, bad (count and list them as bad records) or embed.",
    choices=(SKIP, BAD, EMBED),
  )
  max_record_bytes: int = record_limit()
  output_format: str = setting(shards.NPY, "Format of the vectors' files.", choices=shards.OUTPUTS)
  normalize: bool = setting(False, "Divide each vector by its length; one of zeros stays.")
  keep_text: bool = setting(
    False, "Keep the sentences beside their vectors, by which search and index --hybrid=bm25 compare words."
  )
  shard_size: int = setting(
    16384, "Maximum number of records in a shard, which is what an interrupted run loses.", minimum=1
  )
  shard_bytes: int = setting(
    1 << 26, "Maximum size of a shard's records in bytes, which a process holds in memory.", minimum=1
  )
  runner: str | None = setting(
    None, "Runner of Apache Beam, as DirectRunner or FlinkRunner. Default: this process, without Beam."
  )
  beam_options: tuple[str, ...] = setting((), "Options of Apache Beam, as region=europe-west1,temp_location=gs://tmp.")

  def check(self) -> None:
    """Raises a ConfigError if a setting is missing or empty."""
    if not self.output_dir:
      raise ConfigError("output_dir is missing; expected a folder", argument="output_dir")
    if self.beam_options and self.runner is None:
      raise ConfigError("beam_options without a runner; they are options of Apache Beam", argument="beam_options")

  def format_of(self, paths: Sequence[str], prefix: str = "") -> InputFormat:
    """Returns the format of the input files; a ConfigError if settings contradict each other or the files' names.

    `prefix`: beginning of the names of their arguments, query_ for files of queries.
    """
    # A text with a column is a TSV.
    kind = self.input_format or common_kind(paths)
    if kind == TEXT and self.input_format is None and self.column is not None:
      kind = TSV
    # Reject settings without a meaning for this kind of files.
    unused = ["header"]
    if kind == TEXT:
      unused += ["column", "id_column"]
    elif kind in (TSV, CSV):
      unused = []
    for name in unused:
      if getattr(self, name) is not None:
        argument = f"{prefix}{name}"
        raise ConfigError(f"{argument} has no meaning for {kind} files; leave it out", argument=argument)
    if kind == PARQUET:
      import_parquet("input")
    if self.column is None and kind == TFRECORD:
      argument = f"{prefix}column"
      message = f"{argument} is missing; expected the sentence's feature in the tfrecord files"
      raise ConfigError(message, argument=argument)
    hint = f"; --{prefix}column names it"
    if kind in (TEXT, TSV, CSV):
      hint += f", or gives its number, as --{prefix}column=2"
    if not prefix:
      hint += ", or --input_format=text takes lines"
    return corpus_format(
      paths,
      kind=kind,
      column=self.column,
      id_column=self.id_column,
      header=self.header,
      empty=self.empty_lines,
      max_bytes=self.max_record_bytes,
      whole_lines=self.input_format == TEXT,
      hint=hint,
      prefix=prefix,
    )


@dataclasses.dataclass(frozen=True)
class Result:
  """Outcome of a complete run: `records` were embedded now, the others by earlier runs in the same folder."""

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
      lines.append(f"bad records, with file, line and reason: {self.folder.folder}/dead-letter-*.tsv")
    times = ", ".join(f"{name} {value:.1f} s" for name, value in self.seconds.items())
    if self.records:
      times += f", {self.records / self.seconds['embedding']:,.0f} records per second"
    return "\n".join([*lines, times])


class EmbeddingJob:
  """Run over a corpus; a later run with the same settings and model resumes it. Checks the settings when it is made."""

  def __init__(self, settings: JobSettings) -> None:
    settings.check()
    if settings.output_format == PARQUET:
      import_parquet("output_format")
    self._options: list[str] = []
    if settings.runner is not None:
      try:
        from bert_flow_tf.corpus.beam import parse_options
      except ImportError as error:
        message = f"runner={settings.runner}: Apache Beam cannot be imported ({error}): {install_command('beam')}"
        raise ConfigError(message, argument="runner") from error
      self._options = parse_options(settings.runner, settings.beam_options)
    self.watch = Stopwatch()
    self._settings = settings
    self._paths = find_inputs(settings.input)
    streams = list(filter(storage.is_stream, self._paths))
    if settings.runner is not None and streams:
      message = f"input={streams[0]}: standard input has no use with runner, whose workers read files"
      raise ConfigError(message, argument="input")
    self._format = settings.format_of(self._paths)
    warn_of_unused_ids(self._paths, self._format, "id_column")

  def run(self, embedder: Embedder, batch_size: int = 64, about: Mapping[str, object] | None = None) -> Result:
    """Embeds all records that earlier runs in the folder have not embedded; `about` is added to the manifest."""
    settings, model = self._settings, embedder.model
    output = storage.absolute(str(settings.output_dir))
    # All that decides the vectors, their order and their files; another run in the folder must have the same.
    deciding = {"input": vars(self._format), "embedder": dict(embedder.identity), "dim": model.output_dim}
    if self._format.id_column is None:
      deciding["first_id"] = 1
    for name in ("output_format", "shard_size", "shard_bytes", "normalize"):
      deciding[name] = getattr(settings, name)
    if settings.keep_text:
      deciding["keep_text"] = True
    arguments = {"batch_size": batch_size, "normalize_embeddings": settings.normalize}
    manifest = Manifest(output, deciding, {**embedder.about, **(about or {})})
    with manifest.lock():
      with self.watch.timing("indexing"), naming("input"):
        plan = manifest.begin(self._paths, self._format, settings.shard_size, settings.shard_bytes)
      folder = ShardFolder(output, len(plan.shards), settings.output_format, model.output_dim, settings.keep_text)
      with self.watch.timing("checking"):
        for name in folder.discard_damaged():
          logging.warning("a file of %s is damaged: its shard is embedded again", name)
      tasks, done = pending(plan, folder)
      sizes = f"{counted(plan.records, 'record')} in {counted(len(plan.shards), 'shard')}"
      logging.info("%s, %d of them finished", sizes, len(done))
      with self.watch.timing("embedding"):
        if self._options:
          from bert_flow_tf.corpus.beam import run_beam

          run_beam(plan, folder, self._format, embedder.load, arguments, self._options)
        else:
          run_streaming(plan, folder, self._format, model, arguments)
      counters = _finish(plan, folder, manifest)
      if self._format.id_column is not None:
        _warn_of_ids(plan, self._format)
    return Result(folder, counters, self.watch.seconds, sum(task.records for task in tasks))


def _warn_of_ids(plan, input_format):
  """Logs a warning if several records have one id."""
  ids, records, first = repeated_ids(plan, input_format)
  if ids:
    found = (
      f"ids that repeat: {ids:,}, in {records:,} of {counted(plan.records, 'record', ',')}, such as {first[:100]!r}"
    )
    mend = "search and dedupe print ids, which do not tell these records apart; expected a column of distinct values"
    logging.warning("id_column=%s: %s; %s", input_format.id_column, found, mend)


def _finish(plan: ShardPlan, folder: ShardFolder, manifest: Manifest) -> dict[str, int]:
  """Checks that all records are written from unchanged files; writes and returns the counters."""
  # Beam's workers may have failed without an error of the pipeline.
  tasks, done = pending(plan, folder)
  counters = shards.add_counters(done.values())
  if tasks or counters[shards.READ] != plan.records:
    raise DataError(f"{folder.folder}: {len(tasks)} shards are missing; the same command resumes with them")
  changed = changed_input(plan.inputs)
  if changed is not None:
    raise DataError(f"{changed} was changed during this run; embed it again into another folder")
  manifest.write(plan, counters)
  return counters
