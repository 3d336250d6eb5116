"""Settings of a run over a corpus."""

import dataclasses
from collections.abc import Sequence

from bert_flow_tf.corpus import formats, shards
from bert_flow_tf.corpus.formats import TEXT, TFRECORD, TSV, InputFormat, is_number, kind_of
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
    choices=formats.KINDS,
  )
  column: str | None = setting(
    None, "Column of the sentence: in a TSV its name or its number from 1, in a TFRecord the feature's name."
  )
  id_column: str | None = setting(None, "Column of the record's id. Default: records are numbered from 0.")
  header: bool | None = setting(
    None, "Whether the first line of a TSV names its columns. Default: yes if a column is given by name."
  )
  empty_lines: str = setting(
    formats.SKIP,
    "Treatment of empty sentences: skip, bad (count and list them as bad records) or embed.",
    choices=(formats.SKIP, formats.BAD, formats.EMBED),
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

  def format_of(self, paths: Sequence[str]) -> InputFormat:
    """Returns the format of the input files.

    Raises:
      ConfigError: settings contradict each other or the files' names.
    """
    kind = self.input_format or _common_kind(paths)
    if kind == TEXT and self.input_format is None and self.column is not None:
      kind = TSV
    columns = {name: getattr(self, name) for name in ("column", "id_column") if getattr(self, name) is not None}
    headers = ["header"] * (self.header is not None)
    for name in {TEXT: [*columns, *headers], TFRECORD: headers, TSV: []}[kind]:
      raise ConfigError(f"{name} has no meaning for {kind} files; leave it out", argument=name)
    if kind != TEXT and self.column is None:
      raise ConfigError(f"column is missing; expected the sentence's column in the {kind} files", argument="column")
    header = kind == TSV and _has_header(columns, self.header)
    return InputFormat(kind, self.column, self.id_column, header, self.empty_lines, self.max_record_bytes)


def _common_kind(paths):
  """Returns the kind of all files, by their names."""
  kinds = {kind_of(path): path for path in paths}
  if len(kinds) > 1:
    names = ", ".join(f"{path} is {kind}" for kind, path in sorted(kinds.items()))
    message = f"input_format is missing, and the files' names differ ({names})"
    raise ConfigError(f"{message}; expected one of {', '.join(formats.KINDS)}", argument="input_format")
  return next(iter(kinds))


def _has_header(columns, header):
  """Checks the columns of a TSV; returns whether it has a header."""
  for name, value in columns.items():
    if is_number(value) and int(value) < 1:
      raise ConfigError(f"{name}={value}: expected 1 or more, as columns are numbered from 1", argument=name)
    if header is False and not is_number(value):
      raise ConfigError(f"{name}={value}: expected a column's number, as the files have no header", argument=name)
  return header or any(not is_number(value) for value in columns.values())
