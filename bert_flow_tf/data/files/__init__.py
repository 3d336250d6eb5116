"""Files of users and of published tasks: text, TSV, CSV, JSON lines, Parquet and TFRecords.

Files in reading order:

    input_format   kinds of files, and how the records of a run's files are read: `InputFormat`
    source         a file that is opened once: packing, BOM, lines; `Reader`, the base of the readers of records
    text           records of text: lines
    delimited      records of TSV and CSV; whether a TSV is quoted
    json_lines     records of JSON lines, and the keys of all of them
    parquet        records of Parquet
    tfrecord       records of TFRecords
    formats        the format of a file, decided once: kind, quotes, header, roles of the columns
    given_columns  the format of files whose columns the user gave, or of a corpus
    rows           a file that is read whole, and written again byte by byte
"""

__all__ = [
  "delimited",
  "formats",
  "given_columns",
  "input_format",
  "json_lines",
  "parquet",
  "rows",
  "source",
  "text",
  "tfrecord",
]
