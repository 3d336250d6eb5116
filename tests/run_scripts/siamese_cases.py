"""run_siamese.py's command lines, good ones and such as it must refuse, all in one process with a tiny BERT.

Run as a module with a folder to work in, it prints json: {name of the case: {"status", "stdout", "stderr"}}.
"""

import json
import pathlib
import sys

from tests.run_scripts import tiny_data
from tests.run_scripts.command_lines import run_all
from tests.training import small_siamese

PAIRS = 40
LABELS = ("CONTRADICTION", "ENTAILMENT", "NEUTRAL")


def write(folder):
  """Writes model, data and a flow's config below the folder."""
  folder = pathlib.Path(folder)
  small_siamese.save(folder / "model")
  (folder / "small.json").write_text('{"n_levels": 1, "depth": 1, "coupling_width": 4}')
  (folder / "garbage.json").write_text("{")
  sick, stsb, snli = folder / "data/SICK", folder / "data/STS/STSBenchmark", folder / "data/SNLI"
  for made in (sick, stsb, snli):
    made.mkdir(parents=True)
  header = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"
  for seed, (file, split) in enumerate((("train", "train"), ("trial", "dev"), ("test_annotated", "test"))):
    rows = list(zip(*small_siamese.pairs(PAIRS, seed), strict=True))
    lines = [f"{i}\t{a}\t{b}\t{1 + label}\t{LABELS[int(label)]}\n" for i, (a, b, label) in enumerate(rows)]
    (sick / f"SICK_{file}.txt").write_text(header + "".join(lines))
    lines = [f"g\tf\ty\t{i}\t{2 * label}\t{a}\t{b}\n" for i, (a, b, label) in enumerate(rows)]
    (stsb / f"sts-{split}.csv").write_text("".join(lines))
  lines = [f"{a}\t{b}\t{'-' if i < 3 else LABELS[int(label)].lower()}\n" for i, (a, b, label) in enumerate(rows)]
  tiny_data.write_years(folder / "data")
  (snli / "dev.tsv").write_text("sentence1\tsentence2\tgold_label\n" + "".join(lines))


def good(folder):
  """Returns {name: flags} of command lines that succeed, in this order."""
  sick = ["--task=SICK-E", "--learning_rate=1e-3", "--exp_name=sick"]
  flow = ["--flow", "--flow_loss", f"--flow_model_config={folder}/small.json"]
  frozen = [
    "--task_name=STS-B",
    "--do_train",
    *flow,
    "--num_examples=0",
    "--use_full_for_training",
    "--exp_name=frozen",
  ]
  joint = ["--task=STS-B", *flow, "--num_examples=20", "--exp_name=joint"]
  return {
    "sick": [*sick, "--do_train", "--do_eval", "--do_predict", "--predict_pool", "--save_checkpoints_steps=4"],
    "sick predicted": [*sick, "--do_predict"],
    "sick again": [*sick, "--do_eval", "--do_predict_on_full"],
    "frozen": [*frozen, "--do_eval"],
    "joint": [
      *joint,
      *("--do_train", "--do_eval", "--do_predict_on_dev", "--predict_pool", "--precision=bfloat16", "--dupe_factor=2"),
      *("--early_stopping", "--save_checkpoints_steps=2", "--l2_penalty=1e-4", "--low_dim=4"),
    ],
    "joint again": [*joint, "--do_eval", "--low_dim=4", "--precision=bfloat16"],
    "nothing trained": ["--task=STS-B", "--do_eval", "--exp_name=nothing"],
    "a union": ["--task=STS-12-16", "--do_eval", "--exp_name=union"],
    "subsets": ["--task=STS-13", "--do_eval", "--exp_name=subsets"],
  }


def cases(folder):
  """Returns {name: (flags, text of the error)}."""
  train, flow = ["--task=SICK-E", "--do_train"], ["--flow", "--flow_loss"]
  stsb = ["--task=STS-B", "--do_train"]
  return {
    "no task": (["--do_train"], "--task"),
    "unknown task": (["--task=RTE", "--do_train"], "--task=RTE"),
    "nothing to do": (["--task=SNLI"], "--do_train"),
    "pool without predict": (["--task=SNLI", "--do_eval", "--predict_pool"], "--predict_pool"),
    "flow_loss without flow": ([*train, "--flow_loss"], "--flow_loss"),
    "no labels and no flow": ([*train, "--num_examples=0"], "--num_examples=0"),
    "no labels and no flow_loss": ([*train, "--num_examples=0", "--flow"], "--num_examples=0"),
    "num_examples": ([*train, "--num_examples=-2"], "num_examples"),
    "dupe_factor": ([*train, "--dupe_factor=0"], "dupe_factor"),
    "batch of 0": ([*train, "--train_batch_size=0"], "--train_batch_size=0"),
    "batch too large": ([*train, "--train_batch_size=64"], "--train_batch_size=64"),
    "no epochs": ([*train, "--num_train_epochs=0"], "--num_train_epochs=0.0"),
    "learning rate": ([*train, "--learning_rate=-1"], "--learning_rate=-1.0"),
    "warm-up": ([*train, "--warmup_proportion=2"], "--warmup_proportion=2"),
    "penalty": ([*train, "--l2_penalty=nan"], "--l2_penalty=nan"),
    "half precision": ([*train, "--precision=float16"], "--precision=float16"),
    "several machines": (
      [*train, "--distribution_strategy=multi_worker_mirrored"],
      "--distribution_strategy=multi_worker_mirrored",
    ),
    "full set without flow": ([*train, "--use_full_for_training"], "--use_full_for_training"),
    "split twice": ([*train, "--train_splits=train,train"], "--train_splits=train,train"),
    "no split": ([*train, "--train_splits="], "--train_splits"),
    "no such split": (["--task=SNLI", "--do_train"], "--train_splits=train"),
    "no split to predict": (["--task=SNLI", "--do_train", "--train_splits=dev", "--do_predict"], "--do_predict"),
    "stopping on what is trained": (
      [*train, "--train_splits=dev", "--early_stopping"],
      "--early_stopping",
    ),
    "stopping without labels": ([*stsb, *flow, "--num_examples=0", "--early_stopping"], "--early_stopping"),
    "patience": ([*train, "--early_stopping", "--early_stopping_patience=0"], "early_stopping_patience"),
    "no classifier": (["--task=SICK-E", "--do_eval", "--exp_name=none"], "--task=SICK-E"),
    "no flow": (["--task=STS-B", "--do_eval", "--flow", "--exp_name=none"], "--flow"),
    "flow alone has no classifier": (
      [*train, *flow, "--num_examples=0", "--do_eval"],
      "--num_examples=0",
    ),
    "config is garbage": ([*stsb, *flow, f"--flow_model_config={folder}/garbage.json"], "--flow_model_config="),
    "gold of another task": ([*train, f"--stsb_gold={folder}/small.json"], "--stsb_gold="),
    "pooling": ([*train, "--sentence_embedding_type=max"], "sentence_embedding_type=max"),
    "no model": ([*train, "--model=absent/absent"], "absent"),
    "empty exp_name": ([*train, "--exp_name="], "--exp_name"),
    "another fit": (
      [*train, "--exp_name=sick"],
      "belongs to another fit (learning_rate 0.001 in the folder, 2e-05 now",
    ),
  }


def main(folder):
  """Runs every case."""
  from run_scripts import run_siamese

  write(folder)
  run_siamese.define_flags()
  always = [f"--output_parent_dir={folder}/exp", f"--data_dir={folder}/data", f"--model={folder}/model"]
  always += ["--max_seq_length=16", "--train_batch_size=8"]
  found = run_all(run_siamese.main, good(folder), always, cached=False)  # training changes an encoder
  refused = {name: flags for name, (flags, _) in cases(folder).items()}
  print(json.dumps(found | run_all(run_siamese.main, refused, always)))


if __name__ == "__main__":
  main(sys.argv[1])
