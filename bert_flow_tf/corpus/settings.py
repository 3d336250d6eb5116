"""Settings of a run over a corpus."""

import dataclasses
from collections.abc import Sequence

from bert_flow_tf.corpus import records, shards
from bert_flow_tf.corpus.records import TEXT, TFRECORD, TSV, InputFormat, is_number, kind_of
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.io.settings import Settings, setting


@dataclasses.dataclass(frozen=True)
class JobSettings(Settings):
  """Input files, output folder and Beam's runner."""

  input: tuple[str, ...] = setting((), "Files, or globs of files, of sentences; in quotes, as 'corpus/*.txt.gz'.")
  output_dir: str = setting("", "Folder of the vectors; an interrupted run resumes in its folder.")
  input_format: str | None = setting(
    None,
    "text (one sentence per line), tsv or tfrecord (of tf.train.Example). Default: by the files' names.",
    choices=records.KINDS,
  )
  column: str | None = setting(
    None, "Column of the sentence: in a TSV its name or its number from 1, in a TFRecord the feature's name."
  )
  id_column: str | None = setting(None, "Column of the record's id. Default: records are numbered from 0.")
  header: bool | None = setting(
    None, "Whether the first line of a TSV names its columns. Default: yes if a column is given by name."
  )
  empty_lines: str = setting(
    records.SKIP,
    "Treatment of empty sentences: skip, bad (count and list them as bad records) or embed.",
    choices=(records.SKIP, records.BAD, records.EMBED),
  )
  max_record_bytes: int = setting(1 << 20, "Longer lines and records are bad records.", minimum=1, maximum=1 << 30)
  output_format: str = setting(shards.NPY, "Format of the vectors' files.", choices=shards.OUTPUTS)
  normalize: bool = setting(False, "Divide each vector by its length; one of zeros stays.")
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
    if not self.input:
      raise ConfigError("input is missing; expected files of sentences", argument="input")
    if not self.output_dir:
      raise ConfigError("output_dir is missing; expected a folder", argument="output_dir")
    for name in ("column", "id_column", "runner"):
      if getattr(self, name) == "":
        raise ConfigError(f"{name} is empty; leave it out", argument=name)
    if self.beam_options and self.runner is None:
      raise ConfigError("beam_options without a runner; they are options of Apache Beam", argument="beam_options")

  def format_of(self, paths: Sequence[str]) -> InputFormat:
    """Returns the format of the input files; a ConfigError if settings contradict each other or the files' names."""
    kind = self.input_format or _common_kind(paths)
    if kind == TEXT and self.input_format is None and self.column is not None:
      kind = TSV
    # Reject what has no meaning for this kind of files.
    unused = {TEXT: ("column", "id_column", "header"), TFRECORD: ("header",), TSV: ()}[kind]
    for name in unused:
      if getattr(self, name) is not None:
        raise ConfigError(f"{name} has no meaning for {kind} files; leave it out", argument=name)
    if kind != TEXT and self.column is None:
      raise ConfigError(f"column is missing; expected the sentence's column in the {kind} files", argument="column")
    header = kind == TSV and self._has_header()
    return InputFormat(kind, self.column, self.id_column, header, self.empty_lines, self.max_record_bytes)

  def _has_header(self):
    """Checks the columns of a TSV; returns whether it has a header."""
    is_named = False
    for name in ("column", "id_column"):
      value = getattr(self, name)
      if value is None:
        continue
      if not is_number(value):
        is_named = True
        if self.header is False:
          raise ConfigError(f"{name}={value}: expected a column's number, as the files have no header", argument=name)
      elif int(value) < 1:
        raise ConfigError(f"{name}={value}: expected 1 or more, as columns are numbered from 1", argument=name)
    return is_named or bool(self.header)


def _common_kind(paths):
  """Returns the kind of all files, by their names."""
  kinds = {kind_of(path): path for path in paths}
  if len(kinds) > 1:
    names = ", ".join(f"{path} is {kind}" for kind, path in sorted(kinds.items()))
    message = f"input_format is missing, and the files' names differ ({names})"
    raise ConfigError(f"{message}; expected one of {', '.join(records.KINDS)}", argument="input_format")
  return next(iter(kinds))
