"""What the runner says to command lines that it must refuse, all in one process.

Run as a module with a folder to work in, it prints json: {name of the case: {"status", "stdout", "stderr"}}.
"""

import contextlib
import functools
import io
import json
import os
import pathlib
import sys
import traceback

from tests.run_scripts import tiny_data

# Before each case's own flags, below the folder; sentences are embedded once.
ALWAYS = {"output_parent_dir": "experiments", "cached_dir": "cache"}


def cases(folder):
  """{name: (flags, what the line must hold)}; `folder` is empty but for what is made here."""
  folder = pathlib.Path(folder)
  (folder / "file").write_text("")
  (folder / "empty").mkdir()
  configs = {
    "garbage": "{",
    "list": "[]",
    "unknown": '{"levels": 2}',
    "value": '{"n_levels": 0}',
    "fp16": '{"use_fp16": true}',
  }
  for name, text in configs.items():
    (folder / f"{name}.json").write_text(text)
  (folder / "binary.json").write_bytes(b"\xff\xfe\x00")
  config = "--flow_model_config="
  return {
    "unknown flag": (["--tsak=sample"], "tsak"),
    "argument": (["sample"], "'sample', expected flags alone"),
    "argument after flags": (["--task=sample", "--", "--x"], "'--x', expected flags alone"),
    "flag without value": (["--task"], "task"),
    "unknown task": (["--task=STS-C"], "unknown task 'STS-C'; allowed are STS-B, SICK-R"),
    "empty task": (["--task="], "unknown task ''"),
    "unknown model": (["--model=gpt"], "--model=gpt"),
    "model is a file": ([f"--model={folder}/file"], "found a file"),
    "model is an empty folder": ([f"--init_checkpoint={folder}/empty"], "empty"),
    "model with a long name": ([f"--model={'m' * 300}"], "--model="),
    "data for the sample": ([f"--data_dir={folder}/empty"], "--task=sample reads no files"),
    "no data_dir": (["--task=STS-B", f"--data_dir={folder}/absent"], "absent"),
    "empty data_dir": (["--task=STS-B", "--data_dir="], "--data_dir is empty"),
    "data_dir without files": (["--task=STS-B", f"--data_dir={folder}/empty"], "empty"),
    "data_dir with a long name": (["--task=STS-B", f"--data_dir={'d' * 300}"], "ddd"),
    "no train split": (["--nouse_full_for_training"], "--use_full_for_training=1"),
    "pooling": (["--sentence_embedding_type=max"], "max"),
    "pooling of more blocks than there are": (["--sentence_embedding_type=avg-top-9"], "avg-top-9"),
    "cls without a pooler": (["--sentence_embedding_type=cls"], "cls"),
    "no config": ([f"{config}{folder}/absent.json"], "absent.json: no such file"),
    "empty config": ([config], "no such file"),
    "config is a folder": ([f"{config}{folder}"], "no such file"),
    "config with a long name": ([f"{config}{'c' * 300}"], "ccc"),
    "config is garbage": ([f"{config}{folder}/garbage.json"], "garbage.json: cannot be read as json"),
    "config is binary": ([f"{config}{folder}/binary.json"], "binary.json: cannot be read as json"),
    "config is a list": ([f"{config}{folder}/list.json"], "expected an object"),
    "config with an unknown key": ([f"{config}{folder}/unknown.json"], "unknown key levels"),
    "config with no levels": ([f"{config}{folder}/value.json"], "n_levels is 0"),
    "config in half precision": ([f"{config}{folder}/fp16.json"], "use_fp16 is True"),
    "low_dim of 0": (["--low_dim=0"], "--low_dim=0: expected a positive number, or -1"),
    "low_dim of -2": (["--low_dim=-2"], "--low_dim=-2"),
    "low_dim that does not divide": (["--low_dim=7"], "low_dim"),
    "low_dim too small for the levels": (["--low_dim=2"], "dim is 2, expected a multiple of 4"),
    "low_dim above": (["--low_dim=512"], "low_dim"),
    "low_dim of 1.5": (["--low_dim=1.5"], "low_dim"),
    "max_seq_length of 1": (["--max_seq_length=1"], "max_seq_length=1: expected 3"),
    "max_seq_length of 100000": (["--max_seq_length=100000"], "max_seq_length=100000: expected 3"),
    "batch of 0": (["--train_batch_size=0"], "train_batch_size is 0"),
    "batch of -1": (["--train_batch_size=-1"], "train_batch_size is -1"),
    "batch of 1": (["--train_batch_size=1"], "at least 2 rows"),
    "batch above all pairs": (["--train_batch_size=100000"], "make no step"),
    "no predict batch": (["--predict_batch_size=0"], "predict_batch_size"),
    "epochs of -1": (["--num_train_epochs=-1"], "num_train_epochs is -1"),
    "epochs of 0": (["--num_train_epochs=0"], "num_train_epochs is 0"),
    "epochs of nan": (["--num_train_epochs=nan"], "num_train_epochs is nan"),
    "epochs of inf": (["--num_train_epochs=inf"], "num_train_epochs is inf"),
    "epochs of 1e-9": (["--num_train_epochs=1e-9"], "make no step"),
    "epochs of text": (["--num_train_epochs=one"], "num_train_epochs"),
    "rate of 0": (["--flow_learning_rate=0"], "flow_learning_rate is 0"),
    "rate of nan": (["--flow_learning_rate=nan"], "flow_learning_rate is nan"),
    "rate of -1": (["--flow_learning_rate=-1"], "flow_learning_rate is -1"),
    "rate of 1e30": (["--flow_learning_rate=1e30", "--exp_name=kept", "--save_checkpoints_steps=1"], "at step"),
    # The case above has left its checkpoints in that folder.
    "another seed in the same folder": (
      ["--flow_learning_rate=1e30", "--exp_name=kept", "--seed=2"],
      "seed 1234 there, 2 now",
    ),
    "another rate in the same folder": (["--exp_name=kept"], "learning_rate 1e+30 there, 0.001 now"),
    "seed of -1": (["--seed=-1"], "seed"),
    "seed of 2**31": ([f"--seed={2**31}"], "seed"),
    "no checkpoints": (["--save_checkpoints_steps=0"], "save_checkpoints_steps"),
    "actnorm": (["--actnorm_init=zeros"], "data|glorot"),
    "permutation": (["--permutation=none"], "reverse|random"),
    "strategy": (["--distribution_strategy=tpu"], "default, mirrored, multi_worker_mirrored"),
    "output is a file": ([f"--output_parent_dir={folder}/file"], "output_parent_dir"),
    "output below a file": ([f"--output_parent_dir={folder}/file/below"], "output_parent_dir"),
    "output where nobody may write": (["--output_parent_dir=/proc/nobody"], "output_parent_dir"),
    "output with a long name": ([f"--exp_name={'n' * 300}"], "cannot be made"),
    "cache is a file": ([f"--cached_dir={folder}/file"], "file"),
    **_calibration_cases(folder),
  }


def _calibration_cases(folder):
  """--calibration and --flow_corpus."""
  (folder / "ragged.tsv").write_text("one\ttwo\nthree\n")
  (folder / "short.txt").write_text("One sentence.\nAnother.\n")
  return {
    "unknown calibration": (["--calibration=flow,pca"], "calibration is 'pca', expected one of flow, whitening"),
    "calibration twice": (["--calibration=SN,flow,sn"], "names sn twice"),
    "no calibration": (["--calibration="], "--calibration is empty"),
    "natsv without a dev split": (["--calibration=natsv"], "sample has none: give k, as in natsv-6"),
    "dropout without a flow": (["--calibration=sn", "--encoder_dropout"], "--encoder_dropout changes"),
    # Refused before the flow is fitted, though it is named after it.
    "more dimensions than there are": (["--calibration=flow,whitening-999", "--exp_name=k"], "has rank"),
    "two ways to say train": (
      ["--flow_corpus=train", "--use_full_for_training"],
      "both say what the flow is fitted on",
    ),
    "no such corpus": ([f"--flow_corpus={folder}/absent"], "expected target, train, nli, or a file"),
    "empty corpus flag": (["--flow_corpus="], "expected target, train, nli, or a file"),
    "corpus is a folder": ([f"--flow_corpus={folder}/empty"], "is a folder"),
    "corpus is an empty file": ([f"--flow_corpus={folder}/file"], "no sentence in it"),
    "corpus with a malformed line": (
      [f"--flow_corpus={folder}/ragged.tsv"],
      "ragged.tsv, line 2: 1 column, expected 2",
    ),
    "corpus that makes no step": ([f"--flow_corpus={folder}/short.txt"], "1 pairs in batches of 32"),
    "train of the sample": (["--flow_corpus=train"], "no train split"),
    "no nli": (["--flow_corpus=nli", f"--data_dir={folder}/empty"], "SNLI and MNLI"),
    "corpus and data for the sample": (
      [f"--flow_corpus={folder}/short.txt", f"--data_dir={folder}/empty"],
      "--task=sample reads no files",
    ),
  }


def good(folder):
  """Command lines that work, in order: a short run, and the same again; other calibrations and corpora."""
  folder = pathlib.Path(folder)
  data = tiny_data.write(folder / "data")
  (folder / "corpus.txt").write_text("".join(f"{a}\n{b}\n" for a, b in tiny_data.sentences()))
  (folder / "pairs.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in tiny_data.sentences()))
  (data / "SNLI").mkdir()
  rows = [f"{a}\t{b}\n" for a, b in tiny_data.sentences()] * 8
  (data / "SNLI/dev.tsv").write_text("sentence1\tsentence2\n" + "".join(rows))
  (folder / "small.json").write_text('{"n_levels": 1, "depth": 1, "coupling_width": 8}')
  small = f"--flow_model_config={folder}/small.json"  # another flow is another graph to compile, which takes seconds
  stsb = ["--task=STS-B", f"--data_dir={data}", "--low_dim=32", small]
  flags = ["--num_train_epochs=2", "--exp_name=good"]
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
    "no gold": ["--task=custom", f"--data_dir={folder}/pairs.tsv", "--calibration=sn", "--exp_name=no_gold"],
  }


def main(folder):
  """Runs every case; the encoder is loaded once."""
  from run_scripts import run_flow

  run_flow.define_flags()
  always = [f"--{flag}={os.path.join(folder, name)}" for flag, name in ALWAYS.items()]
  refused = {name: arguments for name, (arguments, _) in cases(folder).items()}
  print(json.dumps(run_all(run_flow.main, {**refused, **good(folder)}, always)))


def run_all(runner, command_lines, always=(), cached=True):
  """{name: {"status", "stdout", "stderr"}} of command lines {name: flags}; cached: an encoder is loaded once."""
  from absl import flags

  import bert_flow_tf
  from run_scripts import common_flags

  load = bert_flow_tf.SentenceEncoder.from_pretrained
  if cached:
    bert_flow_tf.SentenceEncoder.from_pretrained = functools.cache(load)
  found = {}
  for name, arguments in command_lines.items():
    flags.FLAGS.unparse_flags()
    for flag in flags.FLAGS:
      flags.FLAGS[flag].unparse()
    sys.argv = ["runner.py", *always, *arguments]
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
      try:
        common_flags.run(runner)
        status = "returned"
      except SystemExit as stop:
        status = stop.code
      except BaseException:
        status = "raised"
        traceback.print_exc()
    found[name] = {"status": status, "stdout": out.getvalue(), "stderr": err.getvalue()}
  return found


if __name__ == "__main__":
  main(sys.argv[1])
