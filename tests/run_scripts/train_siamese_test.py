"""run_scripts/train_siamese.sh: the flags of each mode, and what it rejects; docs_blocks_test runs its commands."""

import os
import subprocess

import pytest

from tests.testing import REPO


@pytest.mark.parametrize(
  ("mode", "flags"),
  [
    ("train", {"do_train", "do_eval", "init_checkpoint"}),
    ("eval", {"do_eval", "init_checkpoint"}),
    ("predict", {"do_predict", "init_checkpoint"}),
    ("predict_pool", {"do_predict", "predict_pool"}),
    ("predict_dev", {"do_predict", "do_predict_on_dev", "predict_pool"}),
    ("predict_full", {"do_predict", "do_predict_on_full", "predict_pool"}),
    ("do_senteval", {"do_senteval", "init_checkpoint"}),
  ],
)
@pytest.mark.parametrize(
  ("name", "folder"),
  [
    ("large", "uncased_L-24_H-1024_A-16"),
    ("large-wwm", "wwm_uncased_L-24_H-1024_A-16"),
    ("x", "uncased_L-12_H-768_A-12"),
  ],
)
def test_flags_of_the_modes(tmp_path, mode, flags, name, folder):
  """../shared/original_runner.md, "The script's modes"."""
  bert = tmp_path / folder
  bert.mkdir()
  settings = {"PATH": os.environ["PATH"], "PYTHON": "echo", "BERT_PREMODELS": str(tmp_path), "BERT_NAME": name}
  settings |= {"GLUE_DIR": "G", "TASK_NAME": "ALLNLI", "OUTPUT_PARENT_DIR": "O", "RANDOM_SEED": "7"}
  command = ["bash", REPO / "run_scripts/train_siamese.sh", mode, "--flow=1 --seed=3 --max_seq_length=9"]
  words = subprocess.run(command, env=settings, capture_output=True, text=True, check=True).stdout.split()
  found = dict(word.removeprefix("--").partition("=")[::2] for word in words[1:])
  expected = {"task_name": "ALLNLI", "data_dir": "G/ALLNLI", "max_seq_length": "9", "output_parent_dir": "O"}
  expected |= {"vocab_file": f"{bert}/vocab.txt", "bert_config_file": f"{bert}/bert_config.json"}
  expected |= {"flow": "1", "seed": "3"} | dict.fromkeys(flags, "")
  if "init_checkpoint" in flags:
    expected["init_checkpoint"] = f"{bert}/bert_model.ckpt"
  assert found == expected and len(words) == 1 + len(found)


@pytest.mark.parametrize(
  ("arguments", "text"),
  [
    (["fit"], "'fit': expected train, eval"),
    (["train", "--flow=1", "--x"], "one pair of quotes"),
    (["eval"], "BERT_NAME=base"),
  ],
)
def test_rejected_commands(tmp_path, arguments, text):
  command = ["bash", REPO / "run_scripts/train_siamese.sh", *arguments]
  environment = {"PATH": os.environ["PATH"]}
  done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
  assert done.returncode == 1 and done.stderr.startswith("error: ") and text in done.stderr
