"""Files and settings: what is written is complete after an error or a kill, and checked when it is read.

Files in reading order:

    files       atomic files and folders, JSON, locks of folders; the place to begin
    archive     settings and arrays of a saved thing in one file
    checksums   SHA-256 of the files of a folder
    storage     input and output on this machine, standard input, or object stores
    settings    dataclasses whose fields give flags, names and what a resumed run must share
    experiment  names and folders of experiments, seconds of their parts
    checks      checks of arguments
    forks       check that a process is no fork of one that used TensorFlow
    text_table  tables as text
"""

__all__ = ["archive", "checks", "checksums", "experiment", "files", "forks", "settings", "storage", "text_table"]
