"""Readers of files: text, TSV, CSV, JSON lines, Parquet and TFRecords.

Files in reading order:

    lines      lines of a text file; each error names the line
    text       InputFormat, and records of text and JSON lines, from any record on; `Reader`, the base of all
    delimited  records of TSV and CSV
    binary     records of Parquet and TFRecords; `open_reader`, which all formats share
    places     roles of the columns of a pair without names
    columns    which columns of a user's file are sentences, pairs and scores
    records    a user's file that is read whole, and written again
"""

__all__ = ["binary", "columns", "delimited", "lines", "places", "records", "text"]
