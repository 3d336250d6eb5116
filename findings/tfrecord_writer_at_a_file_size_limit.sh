#!/usr/bin/env bash
# Guess: TFRecordWriter reports a file that may not grow any more as ResourceExhaustedError or OSError.
# Truth: it raises OutOfRangeError ("File too large"), the error that means "end of input" everywhere else in TensorFlow. The
#        records written so far are left with a cut one at the end.
# Why it matters: `except tf.errors.OutOfRangeError` is how loops over iterators end. Around a loop that reads and writes, it
#        takes a failed write for the end of the input: a short file, and exit status 0.
# Versions: TensorFlow 2.21.0. Seen on 2026-11-27.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check tensorflow==2.21.0

venv/bin/python 2> log.txt > seen.txt << 'END' || { cat log.txt >&2; exit 1; }
import resource
import signal

import tensorflow as tf

print("TensorFlow", tf.__version__)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # the limit is then an error of the write, not the end of the process
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
try:
  with tf.io.TFRecordWriter("records") as writer:
    for _ in range(100):
      writer.write(1000 * b"x")
except Exception as error:
  print("TFRecordWriter:", type(error).__name__, error)
try:
  with open("bytes", "wb") as file:
    file.write(100_000 * b"x")
except Exception as error:
  print("Python:", type(error).__name__, error.strerror)
END
cat seen.txt

diff - seen.txt << 'END' || { echo "tfrecord_writer_at_a_file_size_limit.sh: the behavior has changed: < seen on 2026-11-27, > seen now" >&2; exit 1; }
TensorFlow 2.21.0
TFRecordWriter: OutOfRangeError records; File too large
Python: OSError File too large
END
