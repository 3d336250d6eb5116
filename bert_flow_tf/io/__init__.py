"""Files and settings: written files are complete after an error or a kill, and checked when they are read.

Files in reading order:

    files       atomic files and folders, JSON, locks of folders; the place to begin
    archive     settings and arrays of a model in one file
    checksums   SHA-256 of the files of a folder
    storage     input and output on this machine, standard input, or object stores
    settings    dataclasses whose fields give flags, names and the values that a resumed run must share
    experiment  names and folders of experiments, seconds of their parts
    checks      checks of arguments
    cpus        the CPUs that the process may use
    openmp      how OpenMP's threads wait
    forks       check that the process was not forked after it had used TensorFlow
    text_table  tables as text
"""

__all__ = [
  "archive",
  "checks",
  "checksums",
  "cpus",
  "experiment",
  "files",
  "forks",
  "openmp",
  "settings",
  "storage",
  "text_table",
]
