"""Readers of files: text, TSV, CSV, JSON lines, Parquet and TFRecords.

Files in reading order:

    lines    lines of a text file; each error names the line
    text     InputFormat, and records of text, TSV, CSV and JSON lines, from any record on
    binary   records of Parquet and TFRecords; `open_reader`, which all formats share
    columns  which columns of a user's file are sentences, pairs and scores
    records  a user's file that is read whole, and written again
"""

__all__ = ["binary", "columns", "lines", "records", "text"]
