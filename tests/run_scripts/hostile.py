"""Command lines of run_flow.py, right and wrong ones, all in one process.

Run as a module with a folder to work in, it prints json: {name of the case: {"status", "stdout", "stderr"}}.
"""

import json
import pathlib
import sys

from tests.run_scripts import tiny_data
from tests.run_scripts.command_lines import run_all

# Flags before each case's own: folders below the working folder. Sentences are embedded once.
ALWAYS = {"output_parent_dir": "experiments", "cached_dir": "cache"}


def write(folder):
  """Writes the files that the command lines name."""
  data = tiny_data.write(folder / "data")
  (folder / "file").write_text("")
  (folder / "empty").mkdir()
  configs = {
    "garbage": "{",
    "list": "[]",
    "unknown": '{"levels": 2}',
    "fp16": '{"use_fp16": true}',
    "small": '{"n_levels": 1, "depth": 1, "coupling_width": 8}',
  }
  for name, text in configs.items():
    (folder / f"{name}.json").write_text(text)
  (folder / "binary.json").write_bytes(b"\xff\xfe\x00")
  (folder / "ragged.tsv").write_text("one\ttwo\nthree\n")
  (folder / "short.txt").write_text("One sentence.\nAnother.\n")
  (folder / "corpus.txt").write_text("".join(f"{a}\n{b}\n" for a, b in tiny_data.sentences()))
  (folder / "pairs.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in tiny_data.sentences()))
  (data / "SNLI").mkdir()
  rows = [f"{a}\t{b}\n" for a, b in tiny_data.sentences()] * 8
  (data / "SNLI/dev.tsv").write_text("sentence1\tsentence2\n" + "".join(rows))


def bad(folder):
  """Returns {name: (flags, text of the error)} of command lines that are rejected: the flag, or the file at fault."""
  return {**bad_values(folder), **bad_data(folder)}


def bad_values(folder):
  """Returns cases of wrong settings of the encoder, the flow and the output, as `bad`."""
  config = f"--flow_model_config={folder}"
  return {
    "pooling": (["--sentence_embedding_type=max"], "max"),
    "pooling of more blocks than there are": (["--sentence_embedding_type=avg-top-9"], "avg-top-9"),
    "cls without a pooler": (["--sentence_embedding_type=cls"], "cls"),
    "no config": ([f"{config}/absent.json"], "absent.json"),
    "empty config": (["--flow_model_config="], "--flow_model_config="),
    "config is a folder": ([config], "--flow_model_config="),
    "config with a long name": ([f"--flow_model_config={'c' * 300}"], "ccc"),
    "config is garbage": ([f"{config}/garbage.json"], "garbage.json"),
    "config is binary": ([f"{config}/binary.json"], "binary.json"),
    "config is a list": ([f"{config}/list.json"], "list.json"),
    "config with an unknown key": ([f"{config}/unknown.json"], "levels"),
    "config in half precision": ([f"{config}/fp16.json"], "use_fp16"),
    "low_dim of -2": (["--low_dim=-2"], "--low_dim"),
    "low_dim that does not divide": (["--low_dim=7"], "low_dim"),
    "low_dim that does not divide a whitening": (["--calibration=whitening-6", "--low_dim=4"], "low_dim"),
    "max_seq_length of 1": (["--max_seq_length=1"], "max_seq_length"),
    "max_seq_length of 100000": (["--max_seq_length=100000"], "max_seq_length"),
    "batch of 0": (["--train_batch_size=0"], "--train_batch_size"),
    "batch of 1": (["--train_batch_size=1"], "at least 2 different rows"),
    "batch above all pairs": (["--train_batch_size=100000"], "no step"),
    "no predict batch": (["--predict_batch_size=0"], "--predict_batch_size"),
    "epochs of 0": (["--num_train_epochs=0"], "--num_train_epochs"),
    "epochs of 1e-9": (["--num_train_epochs=1e-9"], "no step"),
    "epochs of text": (["--num_train_epochs=one"], "--num_train_epochs"),
    "rate of 0": (["--flow_learning_rate=0"], "--flow_learning_rate"),
    "rate of 1e30": (["--flow_learning_rate=1e30", "--exp_name=kept", "--save_checkpoints_steps=1"], "at step"),
    # The case above has left its checkpoints in that folder.
    "another seed in the same folder": (["--flow_learning_rate=1e30", "--exp_name=kept", "--seed=2"], "seed 1234"),
    "another rate in the same folder": (["--exp_name=kept"], "learning_rate 1e+30"),
    "seed of 2**31": ([f"--seed={2**31}"], "--seed"),
    "no checkpoints": (["--save_checkpoints_steps=0"], "--save_checkpoints_steps"),
    "actnorm": (["--actnorm_init=zeros"], "--actnorm_init"),
    "permutation": (["--permutation=none"], "--permutation"),
    "strategy": (["--distribution_strategy=tpu"], "--distribution_strategy"),
    "output is a file": ([f"--output_parent_dir={folder}/file"], "--output_parent_dir"),
    "output below a file": ([f"--output_parent_dir={folder}/file/below"], "--output_parent_dir"),
    "output without permission": (["--output_parent_dir=/proc/nobody"], "--output_parent_dir"),
    "output with a long name": ([f"--exp_name={'n' * 300}"], "nnn"),
    "cache is a file": ([f"--cached_dir={folder}/file"], "file"),
  }


def bad_data(folder):
  """Returns cases of wrong tasks, calibrations and corpora, as `bad`."""
  return {
    "unknown flag": (["--tsak=sample"], "tsak"),
    "argument": (["sample"], "'sample'"),
    "argument after flags": (["--task=sample", "--", "--x"], "'--x'"),
    "flag without value": (["--task"], "task"),
    "unknown task": (["--task=STS-C"], "--task=STS-C"),
    "empty task": (["--task="], "--task="),
    "unknown model": (["--model=gpt"], "--model=gpt"),
    "model is a file": ([f"--model={folder}/file"], "file"),
    "model is an empty folder": ([f"--init_checkpoint={folder}/empty"], "empty"),
    "model with a long name": ([f"--model={'m' * 300}"], "--model="),
    "data for the sample": ([f"--data_dir={folder}/empty"], "--data_dir"),
    "no data_dir": (["--task=STS-B", f"--data_dir={folder}/absent"], "absent"),
    "empty data_dir": (["--task=STS-B", "--data_dir="], "--data_dir"),
    "data_dir without files": (["--task=STS-B", f"--data_dir={folder}/empty"], "empty"),
    "data_dir with a long name": (["--task=STS-B", f"--data_dir={'d' * 300}"], "ddd"),
    "no train split": (["--task=hard-sample", "--nouse_full_for_training"], "--use_full_for_training"),
    "unknown calibration": (["--calibration=flow,pca"], "--calibration"),
    "calibration twice": (["--calibration=SN,flow,sn"], "--calibration"),
    "no calibration": (["--calibration="], "--calibration"),
    "auto next to the flow": (["--calibration=flow+auto"], "--calibration"),
    "natsv without a dev split": (["--task=hard-sample", "--calibration=natsv"], "--calibration"),
    "dropout without a flow": (["--calibration=sn", "--encoder_dropout"], "--encoder_dropout"),
    # Rejected before the flow is fitted, though it is named after it.
    "more dimensions than there are": (["--calibration=flow,whitening-999", "--exp_name=k"], "whitening-999|has rank"),
    "two ways to say train": (["--flow_corpus=train", "--use_full_for_training"], "--flow_corpus"),
    "no such corpus": ([f"--flow_corpus={folder}/absent"], "--flow_corpus"),
    "empty corpus flag": (["--flow_corpus="], "--flow_corpus"),
    "corpus is a folder": ([f"--flow_corpus={folder}/empty"], "empty"),
    "corpus is an empty file": ([f"--flow_corpus={folder}/file"], "file"),
    "corpus with a malformed line": ([f"--flow_corpus={folder}/ragged.tsv"], "ragged.tsv, line 2"),
    "corpus that makes no step": ([f"--flow_corpus={folder}/short.txt"], "no step"),
    "train of a task without it": (["--task=hard-sample", "--flow_corpus=train"], "error: --flow_corpus=train"),
    "custom without its file": (["--task=custom", f"--data_dir={folder}/absent.tsv"], "error: --data_dir"),
    "no nli": (["--flow_corpus=nli", f"--data_dir={folder}/empty"], "SNLI"),
    "corpus and data for the sample": (
      [f"--flow_corpus={folder}/short.txt", f"--data_dir={folder}/empty"],
      "--data_dir",
    ),
  }


def other_tasks(folder):
  """Returns cases as `bad`, for folders in which the good command lines have left the results of another task."""
  return {
    "another task without a flow": (["--calibration=sn", "--exp_name=several"], "--exp_name|STS-B"),
    "another task with a flow": (["--exp_name=one_pass"], "--exp_name|STS-14"),
  }


def good(folder):
  """Returns {name: flags} of command lines that work: a run, the same again, other calibrations and corpora."""
  small = f"--flow_model_config={folder}/small.json"  # another flow is another graph to compile, which takes seconds
  stsb = ["--task=STS-B", f"--data_dir={folder}/data", "--low_dim=4", small]
  flags = ["--task=hard-sample", "--num_train_epochs=2", "--exp_name=good"]
  return {
    "good": flags,
    "the same again": flags,
    "several": [
      *stsb,
      "--calibration=sn,flow,natsv,whitening-8",
      f"--flow_corpus={folder}/corpus.txt",
      "--exp_name=several",
    ],
    "nli": [*stsb, "--flow_corpus=nli", "--exp_name=nli"],
    "none": [*stsb, "--calibration=none", "--exp_name=none"],
    "one pass": ["--task=STS-14", *stsb[1:], "--exp_name=one_pass"],
    "three passes": ["--task=STS-14", *stsb[1:], "--use_full_for_training", "--exp_name=three_passes"],
    "auto": ["--task=STS-B", stsb[1], "--calibration=auto", "--exp_name=auto"],
    "no gold": ["--task=custom", f"--data_dir={folder}/pairs.tsv", "--calibration=sn", "--exp_name=no_gold"],
  }


def main(folder):
  """Runs every case; the encoder is loaded once."""
  from run_scripts import run_flow

  write(pathlib.Path(folder))
  run_flow.define_flags()
  always = [f"--{flag}={folder}/{name}" for flag, name in ALWAYS.items()]
  rejected, last = ({name: flags for name, (flags, _) in cases(folder).items()} for cases in (bad, other_tasks))
  print(json.dumps(run_all(run_flow.main, {**rejected, **good(folder), **last}, always)))


if __name__ == "__main__":
  main(sys.argv[1])
