"""Feeds the readers with bytes that atheris makes up: python -m tools.soak.fuzz [SECONDS [TARGET ...]].

    pip install --target=/tmp/atheris atheris
    PYTHONPATH=/tmp/atheris python -m tools.soak.fuzz 60

Each target of `hostile_input` runs in a process of its own, as long as the seconds last. Prints a table, and the bytes
that a target neither read nor refused with one sentence.
"""

import io
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np

_TABLE = b"sentence1\tsentence2\tscore\na dog\ta cat\t3.5\n"


def _seeds():
  """Returns well-formed inputs, from which the damaged ones are made."""
  from safetensors.numpy import save

  from bert_flow_tf.corpus.readers import to_tfrecord
  from tests.encoder import tiny

  arrays = io.BytesIO()
  np.savez(arrays, mean=np.zeros(2), scatter=np.eye(2), kernel=np.eye(2))
  calibration = {"format_version": 1, "method": "whitening", "k": None, "dim": 2, "count": 3}
  stsb = b"main-captions\tMSRvid\t2012test\t1\t3.5\ta dog\ta cat\n"
  snli = b"\t".join(b"%d" % n for n in range(11)) + b"\nx\tx\tx\tx\tx\tx\tx\ta\tb\tx\tneutral\n"
  sick = b"pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n1\ta\tb\t3.5\tNEUTRAL\n"
  vocabulary = "".join(f"{piece}\n" for piece in tiny.VOCABULARY).encode()
  texts = [_TABLE, stsb, snli, sick, vocabulary, b"word 0.5 1e-3\n", b"a\tb\xff3.5\n", json.dumps(tiny.CONFIG).encode()]
  weights = save({"embeddings.word_embeddings.weight": np.ones([24, 12], np.float32)})
  return [*texts, json.dumps(calibration).encode(), arrays.getvalue(), weights, to_tfrecord(b"a record") * 2]


def _fuzz(name, seconds, corpus):
  """Runs one target until the time ends, in this process."""
  import atheris

  with atheris.instrument_imports(include=["bert_flow_tf"]):
    from tests import hostile_input
  from absl import logging

  logging.set_verbosity(logging.FATAL)
  arguments = [sys.argv[0], corpus, f"-max_total_time={seconds}", "-max_len=4096", f"-artifact_prefix={corpus}/"]
  atheris.Setup(arguments, lambda data: hostile_input.call(name, data) and None)
  atheris.Fuzz()


def main() -> int:
  """Returns the exit status: 1 if a target broke."""
  if sys.argv[1:2] == ["--one"]:
    _fuzz(*sys.argv[2:5])
  seconds = int(sys.argv[1]) if sys.argv[1:] else 60
  from tests import hostile_input

  print("| target | inputs | outcome |\n| --- | ---: | --- |")
  failed = False
  for name in sys.argv[2:] or hostile_input.TARGETS:
    with tempfile.TemporaryDirectory() as corpus:
      for number, seed in enumerate(_seeds()):
        pathlib.Path(corpus, str(number)).write_bytes(seed)
      command = [sys.executable, "-m", "tools.soak.fuzz", "--one", name, str(seconds), corpus]
      ran = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=seconds + 300)
    inputs = re.findall(r"^#(\d+)\s", ran.stderr, re.MULTILINE) or ["0"]
    print(f"| {name} | {inputs[-1]} | {'BUG' if ran.returncode else 'read or refused'} |", flush=True)
    if ran.returncode:
      failed = True
      print(ran.stderr[-3000:])
  return int(failed)


if __name__ == "__main__":
  sys.exit(main())
