"""Command lines of run_eval, good and bad, in one process.

Run as a module with a folder to work in, it prints json as `hostile` does.
"""

import json
import pathlib
import sys

from tests.run_scripts import tiny_data
from tests.run_scripts.command_lines import run_all

ARGUMENTS = {"sentence_embedding_type": "avg", "max_seq_length": 32, "low_dim": 4}


def save(folder):
  """Saves the calibrations that the command lines name, and the embeddings of the pairs."""
  import numpy as np

  from bert_flow_tf.calibration.names import make_calibration
  from bert_flow_tf.encoder.sentence_encoder import SentenceEncoder
  from bert_flow_tf.flow.config import FlowConfig
  from bert_flow_tf.flow.glow import Glow

  encoder = SentenceEncoder.from_pretrained("mini")
  sentences = [sentence for pair in tiny_data.sentences() for sentence in pair]
  rows = encoder.encode(sentences, ARGUMENTS["sentence_embedding_type"], ARGUMENTS["max_seq_length"])
  flow = Glow(FlowConfig(n_levels=1, depth=1), rows.shape[1], seed=1)
  flow.initialize(rows)
  calibrations = {name: make_calibration(name).fit(rows) for name in ("whitening-8", "sn", "mean")} | {"flow": flow}
  for name, calibration in calibrations.items():
    calibration.encoder = None if name == "mean" else encoder.identity(**ARGUMENTS).to_dict()
    calibration.save(folder / "exp" / name)
  flow.save(folder / "another/flow")
  other = make_calibration("sn").fit(rows)
  for name, change in {"damaged": {"low_dim": "x"}, "gone": {"name": "gone/model", "weights_sha256": "0" * 64}}.items():
    other.encoder = {**encoder.identity(**ARGUMENTS).to_dict(), **change}
    other.save(folder / name)
  np.savez(folder / "embeddings.npz", sentences=sentences, rows=rows)


def write_files(folder):
  """Writes files for --predictions."""
  gold = [row[0] for row in tiny_data.scored(tiny_data.PAIRS, 2)]
  lines = [f"{0.01 * i * i % 1:.4f}" for i in range(tiny_data.PAIRS)]
  table = ["gold\tmine", *(f"{score}\t{line}" for score, line in zip(gold, lines, strict=True))]
  texts = {
    "lines.txt": lines,
    "table.tsv": table,
    "labels.tsv": ["gold\tmine", "1\t0.5", "0\t0.5", "nan\tnan", "1\t0.9", "0\t0.1"],
    "few.txt": lines[:-1],
    "word.txt": [*lines[:3], "high", *lines[4:]],
    "underscore.txt": [*lines[:3], "1_5", *lines[4:]],
    "gap.txt": [*lines[:3], "", *lines[3:]],
    "nan.txt": [*lines[:3], "nan", *lines[4:]],
    "othergold.tsv": [*table[:3], "0.5\t0.5", *table[4:]],
    "ragged.tsv": [*table[:3], "1\t0.5\t0.5", *table[4:]],
    "noheader.tsv": table[1:],
    "nomethod.tsv": ["index\tgold\tsentence1\tsentence2", "0\t1\ta\tb"],
    "headeronly.tsv": table[:1],
    "nogold.tsv": ["gold\tmine", "nan\t0.5", "nan\t0.4"],
    "empty.txt": [],
  }
  for name, text in texts.items():
    (folder / name).write_text("".join(f"{line}\n" for line in text))
  (folder / "binary.txt").write_bytes(b"\xff\xfe\x00")


def good(folder):
  """Returns {case: flags} of command lines that work."""
  data = f"--data_dir={folder}/data"
  tasks = ["--task=stsb,SICK-R,STS-12-16", data, f"--cached_dir={folder}/cache"]
  exp = f"{folder}/exp"
  return {
    "several tasks": [*tasks, f"--flow_folder={exp}/flow,{exp}/whitening-8,{exp}/sn", f"--output_dir={folder}/several"],
    "two flows": ["--task_name=STS-B", data, f"--flow_folder={exp}/flow,{folder}/another/flow", "--split=dev"],
    "no identity": [
      *("--task=STS-B", data, f"--flow_folder={exp}/mean", "--model=mini", f"--output_dir={folder}/no_identity"),
      *("--sentence_embedding_type=avg", "--max_seq_length=32", "--low_dim=4"),
    ],
    "insisted": [
      *("--task=STS-B", data, f"--flow_folder={exp}/sn", "--max_seq_length=64", "--allow_other_encoder"),
      f"--output_dir={folder}/insisted",
    ],
    "bare": ["--task=STS-B", data, "--low_dim=4", f"--output_dir={folder}/bare"],
    "table": [f"--predictions={folder}/table.tsv", f"--output_dir={folder}/table"],
    "lines": [f"--predictions={folder}/lines.txt", "--task=STS-B", data, f"--output_dir={folder}/lines"],
    "written": [f"--predictions={folder}/several/STS-12-16/test_results.tsv", "--task=STS-12-16", data],
    "senteval": [
      *(f"--senteval={folder}/data", "--senteval_tasks=STSBenchmark,STS12", f"--output_dir={folder}/senteval"),
      *(f"--flow_folder={exp}/flow,{exp}/whitening-8,{exp}/sn", f"--cached_dir={folder}/cache"),
    ],
    "labels": [f"--predictions={folder}/labels.tsv", "--metric=auc", f"--output_dir={folder}/labels"],
  }


def bad(folder):
  """Returns {case: (flags, text of the error)}: the flag, or the file at fault."""
  data, exp = f"--data_dir={folder}/data", f"{folder}/exp"
  stsb = ["--task=STS-B", data]

  return {
    "task twice": (["--task=STS-B,stsb", data], "--task=STS-B,stsb"),
    "no task": (["--task="], "--task="),
    "unknown task": (["--task=STS-B,STS-C", data], "--task=STS-C"),
    "data for the sample": ([data], "--data_dir"),
    "split that is not there": (["--task=hard-sample", "--split=dev"], "--split=dev"),
    "split": ([*stsb, "--split=all"], "split"),
    "no gold": (["--task=custom", f"--data_dir={folder}/pairs.tsv", "--metric=auc"], "--metric=auc"),
    "auc of scores": ([*stsb, "--metric=auc"], "--metric=auc"),
    "no folder": ([*stsb, "--flow_folder="], "--flow_folder"),
    "absent folder": ([*stsb, f"--flow_folder={folder}/absent"], "error: --flow_folder"),
    "experiment's folder": ([*stsb, f"--flow_folder={exp}"], f"{exp}/flow"),
    "folder twice": ([*stsb, f"--flow_folder={exp}/sn,{exp}/../exp/sn"], "--flow_folder"),
    "no identity, no encoder": ([*stsb, f"--flow_folder={exp}/mean"], "--flow_folder"),
    "damaged identity": ([*stsb, f"--flow_folder={folder}/damaged"], "low_dim"),
    "encoder that is gone": ([*stsb, f"--flow_folder={folder}/gone"], "--flow_folder"),
    "other weights": (
      [*stsb, f"--flow_folder={folder}/gone", "--model=mini"],
      "weights_sha256",
    ),
    "other pooling": (
      [*stsb, f"--flow_folder={exp}/flow", "--sentence_embedding_type=avg-top-2"],
      "pooling",
    ),
    "other length": ([*stsb, f"--flow_folder={exp}/sn", "--max_seq_length=64"], "max_seq_length"),
    "other dimensions all the same": (
      [*stsb, f"--flow_folder={exp}/sn", "--sentence_embedding_type=concat-top-2", "--allow_other_encoder"],
      "--flow_folder",
    ),
    "insisting on nothing": ([*stsb, "--allow_other_encoder"], "--allow_other_encoder"),
    "no senteval": (["--senteval="], "--senteval"),
    "absent senteval": ([f"--senteval={folder}/absent"], "--senteval="),
    "senteval is a file": ([f"--senteval={folder}/lines.txt"], "--senteval="),
    "senteval without data": ([f"--senteval={exp}"], "--senteval="),
    "senteval and a task": ([*stsb, f"--senteval={folder}/data"], "--task"),
    "trust without senteval": ([*stsb, "--senteval_trusted"], "--senteval_trusted"),
    "a revision of the packaged model": ([*stsb, "--model_revision=main"], "--model_revision=main"),
    "senteval's tasks alone": ([*stsb, "--senteval_tasks=STS12"], "--senteval_tasks"),
    "no task of senteval": ([f"--senteval={folder}/data", "--senteval_tasks="], "--senteval_tasks"),
    "unknown task of senteval": (
      [f"--senteval={folder}/data", "--senteval_tasks=STS12,STS17"],
      "--senteval_tasks=STS17",
    ),
    "output is a file": ([*stsb, f"--output_dir={folder}/lines.txt"], "--output_dir"),
    # The good cases have left their results in these folders.
    "output of other tasks": ([*stsb, f"--output_dir={folder}/several"], f"--output_dir: {folder}/several has"),
    "output of SentEval": ([*stsb, f"--output_dir={folder}/senteval"], "--output_dir"),
    "SentEval into other output": (
      [f"--senteval={folder}/data", "--senteval_tasks=STS12", f"--output_dir={folder}/bare"],
      "--output_dir",
    ),
    "no output": ([*stsb, "--output_dir="], "--output_dir"),
    **bad_predictions(folder),
  }


def bad_predictions(folder):
  """Returns cases of wrong files of similarities, as `bad`."""
  data = f"--data_dir={folder}/data"
  stsb = ["--task=STS-B", data]

  def file(name, *flags):
    return [f"--predictions={folder}/{name}", *flags]

  return {
    "no predictions": (["--predictions="], "--predictions"),
    "absent predictions": (file("absent"), "error: --predictions"),
    "predictions are a folder": (file("exp"), "exp"),
    "predictions and a flow": (file("table.tsv", f"--flow_folder={folder}/exp/sn"), "--flow_folder"),
    "predictions and a model": (file("table.tsv", "--model=mini"), "--model"),
    "predictions and a split alone": (file("table.tsv", "--split=dev"), "--split"),
    "predictions of two tasks": (file("lines.txt", "--task=STS-B,SICK-R", data), "--task"),
    "lines without a task": (file("lines.txt"), "--predictions"),
    "too few lines": (file("few.txt", *stsb), "few.txt"),
    "a word": (file("word.txt", *stsb), "word.txt, line 4"),
    "a number that only Python reads": (
      file("underscore.txt", *stsb),
      "line 4",
    ),
    "an empty line": (file("gap.txt", *stsb), "gap.txt, line 4"),
    "a nan": (file("nan.txt", *stsb), "nan.txt, line 4"),
    "gold of another task": (file("othergold.tsv", *stsb), "othergold.tsv, line 4"),
    "a ragged table": (file("ragged.tsv"), "ragged.tsv, line 4"),
    "no header": (file("noheader.tsv"), "line 1"),
    "no method": (file("nomethod.tsv"), "nomethod.tsv, line 1"),
    "a header alone": (file("headeronly.tsv"), "headeronly.tsv"),
    "no gold in it": (file("nogold.tsv"), "nogold.tsv"),
    "an empty file": (file("empty.txt"), "empty.txt"),
    "a binary file": (file("binary.txt"), "binary.txt, line 1"),
    "auc of a table of scores": (file("table.tsv", "--metric=auc"), "--metric=auc"),
  }


def main(folder):
  """Runs every case."""
  from run_scripts import run_eval

  folder = pathlib.Path(folder)
  tiny_data.write(folder / "data")
  (folder / "pairs.tsv").write_text("one\ttwo\nthree\tfour\n")
  write_files(folder)
  save(folder)
  run_eval.define_flags()
  refused = {name: arguments for name, (arguments, _) in bad(folder).items()}
  print(json.dumps(run_all(run_eval.main, {**good(folder), **refused})))


if __name__ == "__main__":
  main(sys.argv[1])
