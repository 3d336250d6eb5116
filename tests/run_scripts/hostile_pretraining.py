"""What run_pretraining says to command lines, good and bad, all in one process.

Run as a module with a folder to work in, it prints json as `hostile` does.
"""

import json
import pathlib
import sys

from tests.run_scripts import tiny_data
from tests.run_scripts.command_lines import run_all

SMALL = [
  *("--hidden_size=16", "--num_hidden_layers=2", "--num_attention_heads=2", "--vocab_size=300", "--max_seq_length=32"),
  *("--train_batch_size=8", "--num_train_steps=20", "--num_warmup_steps=5", "--save_checkpoints_steps=10"),
]


def write(folder):
  """Writes a corpus, data for the scores, and files that are neither."""
  sentences = [sentence for pair in tiny_data.sentences() for sentence in pair]
  (folder / "corpus.txt").write_text("".join(f"{sentence}\n\n" for sentence in sentences))
  (folder / "few.txt").write_text("One.\nTwo.\n")
  (folder / "blank.txt").write_text("\n \n")
  (folder / "binary.txt").write_bytes(b"\xff\xfe\x00\n")
  (folder / "taken").write_text("")
  (folder / "vocab.txt").write_text("a\nb\n")
  tiny_data.write(folder / "data")
  (folder / "others/model").mkdir(parents=True)
  (folder / "others/model/config.json").write_text("{}")


def good(folder):
  """Returns command lines that work, in order."""
  first = [f"--corpus={folder}/corpus.txt", *SMALL, f"--output_dir={folder}/made"]
  return {
    "good": [*first, f"--data_dir={folder}/data"],
    "the same again": [*first, "--save_checkpoints_steps=7"],
    "chosen": [
      *first,
      f"--vocab_file={folder}/made/model/vocab.txt",
      *("--vocab_size=200", "--num_hidden_layers=1", "--num_train_steps=6", "--dropout=0.1", "--weights_dtype=float32"),
      f"--output_dir={folder}/chosen",
    ],
  }


def bad(folder):
  """Returns {name: (flags, text of the error)}."""
  corpus = f"--corpus={folder}/corpus.txt"
  some = [corpus, *SMALL, f"--output_dir={folder}/never"]
  made = [corpus, *SMALL, f"--output_dir={folder}/made"]
  return {
    "no corpus": ([], "--corpus="),
    "empty corpus flag": (["--corpus="], "--corpus="),
    "absent corpus": ([f"--corpus={folder}/absent"], "error: --corpus"),
    "blank corpus": ([f"--corpus={folder}/blank.txt"], "--corpus="),
    "binary corpus": ([f"--corpus={folder}/binary.txt"], "binary.txt, line 1"),
    "few sentences": ([*some, f"--corpus={folder}/few.txt", "--vocab_size=30"], "--train_batch_size=8"),
    "heads": ([*some, "--num_attention_heads=3"], "--num_attention_heads=3"),
    "warm-up": ([*some, "--num_warmup_steps=20"], "--num_warmup_steps=20"),
    "rate": ([*some, "--learning_rate=0"], "--learning_rate=0"),
    "somebody's model": (
      [*some, f"--output_dir={folder}/others"],
      "--output_dir=",
    ),
    "small vocabulary": ([*some, "--vocab_size=9"], "--vocab_size=9"),
    "no vocabulary": ([*some, f"--vocab_file={folder}/vocab.txt"], "--vocab_file="),
    "no data": ([*some, f"--data_dir={folder}/absent"], "sts-train.csv does not exist"),
    "output is a file": ([*some, f"--output_dir={folder}/taken"], "--output_dir"),
    "precision": ([*some, "--precision=float64"], "float32|mixed_bfloat16"),
    "another training's folder": (
      [*made, "--learning_rate=0.1"],
      "(learning_rate 0.0003, now 0.1)",
    ),
    "another text's folder": ([*made, f"--corpus={folder}/few.txt"], "corpus_sha256"),
    "another vocabulary's folder": ([*made, "--vocab_size=301"], "vocab_size 300, now 301"),
  }


def main(folder):
  """Runs every case."""
  from run_scripts import run_pretraining

  folder = pathlib.Path(folder)
  write(folder)
  run_pretraining.define_flags()
  refused = {name: arguments for name, (arguments, _) in bad(folder).items()}
  print(json.dumps(run_all(run_pretraining.main, {**good(folder), **refused})))


if __name__ == "__main__":
  main(sys.argv[1])
