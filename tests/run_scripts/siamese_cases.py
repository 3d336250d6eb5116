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
  (folder / "deeper.json").write_text('{"n_levels": 1, "depth": 2, "coupling_width": 4}')
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
  sick = ["--task=SICK-E", "--learning_rate=1e-3", "--num_train_epochs=1", "--exp_name=sick"]
  flow = ["--flow=1", "--flow_loss=1", f"--flow_model_config={folder}/small.json"]
  frozen = ["--task_name=STS-B", *flow, "--num_examples=0", "--use_full_for_training=1", "--num_train_epochs=1"]
  joint = ["--task=STS-B", *flow, "--num_examples=20", "--num_train_epochs=2", "--low_dim=4", "--exp_name=joint"]
  joint += ["--precision=bfloat16"]
  named = [*frozen, "--exp_name_prefix=p", "--label_max=4", "--throttle_secs=1", "--num_train_epochs=0.2"]
  return {
    "sick": [*sick, "--do_train", "--do_eval", "--do_predict", "--save_checkpoints_steps=1"],
    "sick pooled": [*sick, "--do_predict", "--predict_pool"],
    "sick again": [*sick, "--do_eval", "--do_predict_on_full", "--do_lower_case"],
    "sick earlier": [*sick, "--do_predict", "--eval_checkpoint_name=model.ckpt-4"],
    "frozen": [*frozen, "--exp_name=frozen", "--do_train", "--do_eval", "--do_predict_on_dev", "--do_predict_on_full"],
    "joint": [
      *joint,
      *("--do_train", "--do_eval", "--do_predict_on_dev", "--dupe_factor=2", "--early_stopping", "--l2_penalty=1e-4"),
    ],
    "joint again": [*joint, "--do_eval", "--do_predict_on_dev", "--predict_pool", "--l2_penalty=1e-4"],
    # Flow and classifier of other experiments are restored by name.
    "joint elsewhere": [
      *(flag.replace("=joint", "=elsewhere") for flag in joint if "--l2" not in flag),
      *("--do_predict", f"--init_checkpoint={folder}/exp/joint/model.ckpt-5"),
    ],
    "named": [*named, "--do_train"],
    "published": [
      *("--task=STS-B", *flow, "--use_full_for_training=1", "--num_train_epochs=3", "--exp_name=published"),
      *("--as_published", "--early_stopping", "--do_train", "--do_eval"),
    ],
    "no epochs": ["--task=STS-B", "--do_train", "--num_train_epochs=1e-10", "--do_predict", "--exp_name=untrained"],
    "nothing trained": ["--task=STS-B", "--do_eval", "--exp_name=nothing"],
    "a union": ["--task=STS-12-16", "--do_eval", "--exp_name=union"],
    "subsets": ["--task=STS-13", "--do_eval", "--exp_name=subsets"],
  }


def cases(folder):
  """Returns {name: (flags, text of the error)}."""
  train, flow = ["--task=SICK-E", "--do_train"], ["--flow", "--flow_loss"]
  stsb = ["--task=STS-B", "--do_train"]
  return {
    "no task": (["--do_train"], "--task: missing"),
    "unknown task": (["--task=RTE", "--do_train"], "--task=RTE"),
    "nothing to do": (["--task=SNLI"], "--do_train"),
    "pool without predict": (["--task=SNLI", "--do_eval", "--predict_pool"], "--predict_pool"),
    "a checkpoint without predict": (
      ["--task=SNLI", "--do_eval", "--eval_checkpoint_name=model.ckpt-1"],
      "--eval_checkpoint_name",
    ),
    "no such checkpoint": (
      ["--task=STS-B", "--do_predict", "--eval_checkpoint_name=model.ckpt-7", "--exp_name=joint"],
      "--eval_checkpoint_name=model.ckpt-7",
    ),
    "flow is no number": ([*train, "--flow=2"], "--flow=2: expected true or false, or 1 or 0"),
    "flow_loss without flow": ([*train, "--flow_loss"], "--flow_loss"),
    "no labels and no flow": ([*train, "--num_examples=0"], "--num_examples=0"),
    "no labels and no flow_loss": ([*train, "--num_examples=0", "--flow"], "--num_examples=0"),
    "num_examples": ([*train, "--num_examples=-2"], "num_examples"),
    "dupe_factor": ([*train, "--dupe_factor=0"], "dupe_factor"),
    "batch of 0": ([*train, "--train_batch_size=0"], "--train_batch_size=0"),
    "batch too large": ([*train, "--train_batch_size=640"], "--train_batch_size=640"),
    "epochs": ([*train, "--num_train_epochs=nan"], "--num_train_epochs=nan"),
    "learning rate": ([*train, "--learning_rate=-1"], "--learning_rate=-1.0"),
    "warm-up": ([*train, "--warmup_proportion=2"], "--warmup_proportion=2"),
    "penalty": ([*train, "--l2_penalty=nan"], "--l2_penalty=nan"),
    "half precision": ([*train, "--precision=float16"], "--precision=float16"),
    "several machines": ([*train, "--distribution_strategy=multi_worker_mirrored"], "distribution_strategy"),
    "wait for machines": ([*train, "--worker_wait_seconds=9"], "worker_wait_seconds"),
    "split twice": ([*train, "--train_splits=train,train"], "--train_splits=train,train"),
    "no split": ([*train, "--train_splits="], "--train_splits"),
    "no such split": (["--task=SNLI", "--do_train"], "--train_splits=train"),
    "no split to predict": (["--task=SNLI", "--do_train", "--train_splits=dev", "--do_predict"], "--do_predict"),
    "stopping on what is trained": ([*train, "--train_splits=dev", "--early_stopping"], "--early_stopping"),
    "stopping without labels": ([*stsb, *flow, "--num_examples=0", "--early_stopping"], "--early_stopping"),
    "patience": ([*train, "--early_stopping", "--early_stopping_patience=0"], "early_stopping_patience"),
    "no classifier": (["--task=SICK-E", "--do_eval", "--exp_name=none"], "--task=SICK-E"),
    "no flow": (
      ["--task=STS-B", "--do_eval", "--flow", f"--flow_model_config={folder}/small.json", "--exp_name=none"],
      "--flow",
    ),
    "flow alone has no classifier": ([*train, *flow, "--num_examples=0", "--do_eval"], "--num_examples=0"),
    "config is garbage": ([*stsb, *flow, f"--flow_model_config={folder}/garbage.json"], "--flow_model_config="),
    "another flow": (
      ["--task=STS-B", "--do_eval", "--flow", f"--flow_model_config={folder}/deeper.json", "--exp_name=frozen"],
      "of this flow; train first",
    ),
    "another pooling": (
      ["--task=STS-B", "--do_eval", *flow, "--low_dim=4", "--sentence_embedding_type=cls", "--exp_name=joint"],
      "--sentence_embedding_type=cls",
    ),
    **_encoder_and_folder_cases(folder),
  }


def _encoder_and_folder_cases(folder):
  """Returns the cases of the encoder, its files, and the experiment's folder."""
  train = ["--task=SICK-E", "--do_train"]
  return {
    "gold of another task": ([*train, f"--stsb_gold={folder}/small.json"], "--stsb_gold="),
    "pooling": ([*train, "--sentence_embedding_type=median"], "sentence_embedding_type=median"),
    "too long": ([*train, "--max_seq_length=64"], "--max_seq_length=64"),
    "letter case": ([*train, "--do_lower_case=false"], "--do_lower_case=False"),
    "a static encoder": (
      [*train, f"--model=static:{folder}/model"],
      "word rows without a transformer cannot be trained",
    ),
    "config without a checkpoint": (
      [*train, f"--bert_config_file={folder}/exp/joint/bert_config.json"],
      "--bert_config_file",
    ),
    "no config": (
      [*train, f"--init_checkpoint={folder}/exp/joint/model.ckpt-5", f"--bert_config_file={folder}/absent.json"],
      "--bert_config_file",
    ),
    "no vocabulary": (
      [*train, f"--init_checkpoint={folder}/exp/joint/model.ckpt-5", f"--vocab_file={folder}/absent/vocab.txt"],
      "--vocab_file",
    ),
    "no such init_checkpoint": ([*train, "--init_checkpoint=exp/model.ckpt-9"], "--init_checkpoint=exp/model.ckpt-9"),
    "SentEval": (["--task=STS-B", "--do_senteval", f"--senteval={folder}/absent"], "--senteval="),
    "empty exp_name": ([*train, "--exp_name="], "--exp_name"),
    "results of another task": (["--task=STS-B", "--do_eval", "--exp_name=sick"], "--exp_name"),
    "another seed": (
      [*train, "--exp_name=sick", "--learning_rate=1e-3", "--num_train_epochs=1", "--seed=2"],
      "exp_name",
    ),
  }


def main(folder):
  """Runs every case."""
  from absl import flags

  from run_scripts import run_siamese

  write(folder)
  run_siamese.define_flags()
  defaults = {name: flags.FLAGS[name].default for name in flags.FLAGS}
  always = [f"--output_parent_dir={folder}/exp", f"--data_dir={folder}/data", "--max_seq_length=16"]
  always += ["--train_batch_size=8", f"--model={folder}/model"]
  found = run_all(run_siamese.main, good(folder), always, cached=False)  # training changes an encoder
  refused = {name: flags for name, (flags, _) in cases(folder).items()}
  found["defaults"] = defaults
  print(json.dumps(found | run_all(run_siamese.main, refused, always)))


if __name__ == "__main__":
  main(sys.argv[1])
