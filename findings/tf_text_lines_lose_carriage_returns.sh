#!/usr/bin/env bash
# Guess: TextLineDataset splits at line feeds and removes a carriage return in front of one.
# Truth: it removes every carriage return, inside a line too, without a space in its place: "one\\rtwo" is read as "onetwo". So
#        does tf.io.gfile.GFile, in text and in binary mode when it reads lines. A file with the line ends of old Macs is
#        one line in which words are glued together.
# Why it matters: Python's open(newline="\\n") and Beam's ReadFromText keep it, so the same file gives other sentences, and
#        other embeddings, in the graph than in Python.
# Versions: TensorFlow 2.21.0. Seen on 2026-11-27.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check tensorflow==2.21.0

venv/bin/python 2> log.txt > seen.txt << 'END' || { cat log.txt >&2; exit 1; }
import pathlib

import tensorflow as tf

print("TensorFlow", tf.__version__)
pathlib.Path("texts.txt").write_bytes(b"one\rtwo\r\nthree\n")
print("TextLineDataset", [line.numpy() for line in tf.data.TextLineDataset("texts.txt")])
print("GFile, text", list(tf.io.gfile.GFile("texts.txt")), "binary", tf.io.gfile.GFile("texts.txt", "rb").readline())
with open("texts.txt", newline="\n") as file:
  print("Python", list(file))
END
cat seen.txt

diff - seen.txt << 'END' || { echo "tf_text_lines_lose_carriage_returns.sh: the behavior has changed: < seen on 2026-11-27, > seen now" >&2; exit 1; }
TensorFlow 2.21.0
TextLineDataset [b'onetwo', b'three']
GFile, text ['onetwo\n', 'three\n'] binary b'onetwo\n'
Python ['one\rtwo\r\n', 'three\n']
END
