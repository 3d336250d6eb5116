"""The commands of the original's README, end to end, through train_siamese.sh and on GLUE's layout."""

import concurrent.futures
import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest

from bert_flow_tf import SentenceEncoder
from bert_flow_tf.calibration.flow import load_calibration
from bert_flow_tf.evaluation.metrics import cosine_similarity
from tests.encoder import tf1_files, tiny
from tests.integrations.senteval_engine_test import PACKAGE
from tests.run_scripts import tiny_data
from tests.testing import REPO

pytestmark = pytest.mark.slow

PAIRS = 96
LABELS = ("neutral", "contradiction", "entailment")
NLI = "exp_tiny_1234"
NLI_STEPS = int(4 * PAIRS / 16)  # MNLI's train, and SNLI's three splits
FLOW = "--sentence_embedding_type=avg-last-2 --flow=1 --flow_loss=1 --num_examples=0 --num_train_epochs=1.0 "
FLOW += "--flow_learning_rate=1e-3 --use_full_for_training="
TARGET = "exp_t_STS-B_ep_1.00_lr_5.00e-05_e_avg-last-2_f_11_1.00e-03"
AVG = "--sentence_embedding_type=avg --flow=0 --flow_loss=0 --num_examples=0 --num_train_epochs=1e-10"
# (mode, flags): the README's commands, the other row of its table, and SentEval. The lists of commands after
# the first do not depend on each other.
FIRST = ("train", f"--exp_name={NLI} --num_train_epochs=1.0 --learning_rate=2e-5 --train_batch_size=16")
OTHERS = (
  (
    ("predict", f"--exp_name={NLI}_eval {AVG} --label_max=4 --throttle_secs=1"),
    ("do_senteval", f"--exp_name={NLI}_senteval --senteval_tasks=STS12,MRPC --senteval_trusted {AVG}"),
  ),
  (
    ("train", f"--exp_name_prefix=exp {FLOW}1"),
    ("predict", f"--exp_name={TARGET}_allsplits {FLOW}1"),
  ),
  (
    ("train", f"--exp_name_prefix=exp {FLOW}0"),
    ("predict", f"--exp_name={TARGET} {FLOW}1 --eval_checkpoint_name=model.ckpt-{PAIRS // 32}"),
  ),
)


def rows(seed):
  """Returns pairs (score 1 to 5, first sentence, second sentence)."""
  return tiny_data.scored(50, seed) + tiny_data.scored(PAIRS - 50, seed + 10)


def write_table(path, header, lines):
  path.parent.mkdir(parents=True, exist_ok=True)
  path.write_text("".join("\t".join(cells) + "\n" for cells in (header, *lines)), encoding="utf-8")


def write_glue(folder):
  """Writes STS-B, MNLI and SNLI in GLUE's layout and returns all sentences."""
  sentences = []
  for seed, split in enumerate(("train", "dev", "test")):
    pairs = rows(seed)
    sentences += [sentence for _, *sides in pairs for sentence in sides]
    stsb = ["index", "genre", "filename", "year", "old_index", "source1", "source2", "sentence1", "sentence2", "score"]
    cells = [[str(i), *["-"] * 6, a, b, score] for i, (score, a, b) in enumerate(pairs)]
    hidden = split == "test"
    write_table(
      folder / f"STS-B/{split}.tsv", stsb[: 9 if hidden else 10], [row[: 9 if hidden else 10] for row in cells]
    )
    header = ["index", *(f"x{i}" for i in range(1, 7)), "sentence1", "sentence2", "label1", "gold_label"]
    cells = [[str(i), *["-"] * 6, a, b, *[LABELS[i % 3]] * 2] for i, (_, a, b) in enumerate(pairs)]
    write_table(folder / f"SNLI/{split}.tsv", header, cells)
    header = ["index", *(f"x{i}" for i in range(1, 8)), "sentence1", "sentence2", "label1", "gold_label"]
    cells = [[str(i), *["-"] * 7, a, b, *[LABELS[i % 3]] * 2] for i, (_, a, b) in enumerate(pairs)]
    write_table(folder / ("MNLI/train.tsv" if split == "train" else f"MNLI/{split}_matched.tsv"), header, cells)
  gold = [["g", "f", "y", "0", score, a, b] for score, a, b in rows(2)]
  write_table(folder / "STS-B/sts-test.csv", gold[0], gold[1:])
  return sentences


def word_pieces(sentences):
  """Returns a vocabulary that has the sentences' letters and 200 words."""
  words = [word for sentence in sentences for word in sentence.lower().replace(".", " ").split()]
  letters = sorted({letter for word in words for letter in word})
  frequent = sorted({*words}, key=words.count)[-200:]
  pieces = [*tiny.VOCABULARY[:5], ".", *letters, *(f"##{letter}" for letter in letters)]
  return pieces + [word for word in frequent if word not in pieces]


def write_bert(folder, sentences):
  """Writes a tiny BERT as Google does, whose vocabulary knows the sentences."""
  pieces = word_pieces(sentences)
  sizes = {"vocab_size": len(pieces), "hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 2}
  config = {**tf1_files.GOOGLE_CONFIG, **sizes, "max_position_embeddings": 64}
  weights = {name: 0.4 * array for name, array in tiny.random_weights(tiny.CONFIG | config).items()}
  tf1_files.write_google(folder, tf1_files.google_variables(weights), config, pieces)


def run(home, mode, given, **environment):
  """Runs a command as from the README and returns its output."""
  settings = {"PYTHON": sys.executable, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
  settings |= {"BERT_NAME": "tiny", "OUTPUT_PARENT_DIR": "../exp", "GLUE_DIR": "../glue_data"}
  done = subprocess.run(
    ["bash", REPO / "run_scripts/train_siamese.sh", mode, f"{given} --cached_dir=../exp/cached_data"],
    cwd=home,
    env={**os.environ, **settings, **environment},
    capture_output=True,
    text=True,
    timeout=900,
  )
  assert done.returncode == 0, f"{mode} {given}\n{done.stderr[-4000:]}"
  return done.stdout + done.stderr


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
  """Returns the folder of the experiments and the outputs of `OTHERS`."""
  home = tmp_path_factory.mktemp("readme") / "BERT-flow"
  home.mkdir()
  write_bert(home.parent / "bert_premodels/tiny", write_glue(home.parent / "glue_data"))
  senteval = home.parent / "SentEval"
  (senteval / "senteval").mkdir(parents=True)
  for name, text in {"__init__.py": "", "sts.py": "import numpy as np\n", "engine.py": PACKAGE}.items():
    (senteval / "senteval" / name).write_text(text)
  (senteval / "data").mkdir()
  tiny_data.write(home.parent / "senteval_data")
  (senteval / "data/downstream").symlink_to(home.parent / "senteval_data")
  run(home, *FIRST, TASK_NAME="ALLNLI")
  checkpoint = f"../exp/{NLI}/model.ckpt-{NLI_STEPS}"
  with concurrent.futures.ThreadPoolExecutor(2) as pool:
    outputs = pool.map(
      lambda commands: [run(home, *command, TASK_NAME="STS-B", INIT_CKPT=checkpoint) for command in commands], OTHERS
    )
    return home.parent / "exp", list(outputs)


def sentences_of_test():
  return [list(side) for side in zip(*((a, b) for _, a, b in rows(2)), strict=True)]


def test_prediction_without_flow(ran):
  exp, outputs = ran
  for flag in ("label_max", "throttle_secs"):
    assert f"{flag} has no meaning" in outputs[0][0]
  encoder = SentenceEncoder.from_pretrained(str(exp / NLI / f"model.ckpt-{NLI_STEPS}"))
  sides = [encoder.encode(side, "avg", 64) for side in sentences_of_test()]
  found = np.loadtxt(exp / f"{NLI}_eval/test_results.tsv")
  np.testing.assert_allclose(found, cosine_similarity(*sides), atol=1e-5)


@pytest.mark.parametrize(("suffix", "pairs", "prefix"), [("_allsplits", 3 * PAIRS, ""), ("", PAIRS, "model.ckpt-3.")])
def test_flow(ran, suffix, pairs, prefix):
  """BERT stays as it is, bit for bit, and the flow that is saved gives the cosines."""
  exp, outputs = ran
  assert re.search(r" (\d+) of \1 variables of the flow restored", outputs[1 if suffix else 2][1])
  folder, steps = exp / f"{TARGET}{suffix}", pairs // 32
  trained = tf1_files.read_all(folder / f"model.ckpt-{steps}")
  before = tf1_files.read_all(exp / NLI / f"model.ckpt-{NLI_STEPS}")
  assert trained["global_step"] == steps
  for name in before.keys() - {"global_step", "loss/output_weights"}:
    assert trained[name].tobytes() == before[name].tobytes(), name
  encoder = SentenceEncoder.from_pretrained(str(exp / NLI / f"model.ckpt-{NLI_STEPS}"))
  flow = load_calibration(folder / "flow")
  sides = [flow.transform(encoder.encode(side, "avg-last-2", 64)) for side in sentences_of_test()]
  found = np.loadtxt(folder / f"{prefix}test_results.tsv")
  np.testing.assert_allclose(found, cosine_similarity(*sides), atol=1e-4)


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
  command = ["bash", REPO / "run_scripts/train_siamese.sh", mode, "--flow=1 --seed=3"]
  words = subprocess.run(command, env=settings, capture_output=True, text=True, check=True, timeout=60).stdout.split()
  found = dict(word.removeprefix("--").partition("=")[::2] for word in words[1:])
  expected = {"task_name": "ALLNLI", "data_dir": "G/ALLNLI", "max_seq_length": "64", "output_parent_dir": "O"}
  expected |= {"vocab_file": f"{bert}/vocab.txt", "bert_config_file": f"{bert}/bert_config.json"}
  expected |= {"flow": "1", "seed": "3"} | dict.fromkeys(flags, "")
  if "init_checkpoint" in flags:
    expected["init_checkpoint"] = f"{bert}/bert_model.ckpt"
  assert found == expected


def test_senteval(ran):
  exp, outputs = ran
  results = json.loads((exp / f"{NLI}_senteval/senteval_results.json").read_text())
  assert list(results["results"]) == ["STS12", "MRPC"] and results["senteval"]["by"].startswith("SentEval in ")
  assert "STS12 all" in outputs[0][1] and "72.50" in outputs[0][1]


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
  done = subprocess.run(
    command, cwd=tmp_path, env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, timeout=60
  )
  assert done.returncode == 1 and done.stderr.startswith("error: ") and text in done.stderr
