"""run_scripts/run_pretraining.py: as a user starts it and mistypes it, all in one process."""

import re
import sys

import numpy as np
import pytest
from safetensors.numpy import load_file
from scipy import stats

from bert_flow_tf import SentenceEncoder, load_task
from tests.run_scripts import hostile_pretraining
from tests.run_scripts.command_lines import check_rejected, check_succeeded
from tests.run_scripts.results import read_json
from tests.training import two_workers

pytestmark = pytest.mark.slow
COMMAND_LINES = hostile_pretraining


def test_good_command_lines(ran):
  check_succeeded(ran[1], hostile_pretraining.good(ran[0]))


def test_what_is_refused_is_refused_in_one_line(ran):
  folder, found = ran
  check_rejected(found, hostile_pretraining.bad(folder), alone=False)
  assert not (folder / "never/model").exists()


def test_model_is_an_encoder_with_these_figures(ran):
  """The card's figure without calibration is SciPy's from the encoder's embeddings."""
  folder, found = ran
  results = read_json(folder / "made/results.json")
  assert len(results["losses"]) == 20 and results["final_loss"] == pytest.approx(np.mean(results["losses"]))
  encoder = SentenceEncoder.from_pretrained(str(folder / "made/model"))
  pairs = load_task("STS-B", folder / "data").splits["test"]
  a, b = (encoder.encode(side, "avg", 32).astype(np.float64) for side in (pairs.sentences_a, pairs.sentences_b))
  cosines = np.sum(a * b, axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
  expected = 100 * stats.spearmanr(cosines, pairs.scores)[0]
  assert f"STS-B test, Spearman x 100, avg: {expected:.2f}\n" in found["good"]["stdout"]
  assert "STS-B test, Spearman x 100, avg-first-last + flow: " in found["good"]["stdout"]


def test_finished_training_is_written_again_and_not_made_again(ran):
  folder, found = ran
  first, again = (found[name]["stdout"].splitlines() for name in ("good", "the same again"))
  assert first[0] == again[0] and re.fullmatch(r"final loss [0-9.]+ nats; the model is in .*/made/model", again[0])
  assert sorted(path.name for path in (folder / "made/model").iterdir()) == [
    "README.md",
    "config.json",
    "model.safetensors",
    "tokenizer_config.json",
    "vocab.txt",
  ]


def test_card(ran):
  """The run without data wrote it last."""
  folder, _ = ran
  card = (folder / "made/model/README.md").read_text()
  for part in (
    "20 steps of 8 sentences",
    "seed 0",
    "`corpus.txt`",
    "built from the text",
    "nats for each masked piece",
  ):
    assert part in card
  chosen = (folder / "chosen/model/README.md").read_text()
  assert "200 word pieces" in chosen and "the text's most frequent of `vocab.txt`" in chosen and "dropout 0.1" in chosen


def test_stored_types(ran):
  folder, _ = ran
  for name, dtype in {"made": np.float16, "chosen": np.float32}.items():
    weights = load_file(folder / name / "model/model.safetensors")
    assert {weight.dtype for weight in weights.values()} == {np.dtype(dtype)}
    assert {"cls.predictions.bias", "cls.predictions.transform.dense.weight"} < weights.keys()


def test_two_workers_train_as_one_and_only_the_chief_writes(ran, tmp_path):
  folder, _ = ran
  command = [
    sys.executable,
    "run_scripts/run_pretraining.py",
    f"--corpus={folder}/corpus.txt",
    *hostile_pretraining.SMALL,
  ]
  command += ["--distribution_strategy=multi_worker_mirrored"]
  outputs = two_workers.finish(two_workers.start(lambda index: [*command, f"--output_dir={tmp_path}/{index}"]))
  assert [(status, bool(stdout)) for stdout, _, status in outputs] == [(0, True), (0, False)], outputs
  assert not (tmp_path / "1").exists()
  for name in ("model/vocab.txt", "vocab.txt"):
    assert (tmp_path / "0" / name).read_bytes() == (folder / "made" / name).read_bytes()
  losses, expected = (read_json(place / "results.json")["losses"] for place in (tmp_path / "0", folder / "made"))
  np.testing.assert_allclose(losses, expected, rtol=1e-4)  # a gradient is a sum of two halves: rounding of 20 steps
