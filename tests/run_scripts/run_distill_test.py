"""run_scripts/run_distill.py: right and wrong command lines; and tables by run_export.py and run_flow.py."""

import json
import os

import numpy as np
import pytest
from safetensors.numpy import load_file

from bert_flow_tf import SentenceModel
from tests.encoder import tiny
from tests.encoder.other.static_model_test import save
from tests.run_scripts.command_lines import check_rejected, check_succeeded
from tests.testing import finished_python

pytestmark = pytest.mark.slow
RUNNER = "distill"
WORDS = ["mask", "a", "b", "dog", "cat", "dogs"]


def prepare(folder):
  tiny.save_tiny(folder / "tiny")
  save(folder / "static", normalize=True)
  lines = [" ".join(np.random.default_rng(number).choice(WORDS, 4)) for number in range(200)]
  (folder / "corpus.txt").write_text("\n".join(lines))
  (folder / "pairs.tsv").write_text("\n".join(f"{a}\t{b}" for a, b in zip(lines, reversed(lines), strict=True)))
  (folder / "short.txt").write_text("\n".join(lines[:5]))
  (folder / "counts.txt").write_text("a dog\na cat\n")
  (folder / "glove.txt").write_text("a 1 2\nb 2 1\n")
  (folder / "full").mkdir()
  (folder / "full/file").write_text("mine")
  (folder / "empty").mkdir()


def right(folder):
  tiny_model, fit = f"--model={folder}/tiny", ["--calibration=soft-whitening", f"--corpus={folder}/corpus.txt"]
  return {
    "plain": [tiny_model, f"--output={folder}/plain", "--sentence_embedding_type=avg"],
    "idf": [tiny_model, f"--output={folder}/empty", "--token_weights=idf-2", f"--frequency_corpus={folder}/counts.txt"],
    "fit": [tiny_model, *fit, "--dim=3", f"--output={folder}/new/fit", "--dtype=float16", "--nonormalize", "--prompt="],
    "pairs": [f"--model=static:{folder}/static", fit[0], f"--corpus={folder}/pairs.tsv", f"--output={folder}/pairs"],
  }


def config(folder):
  return json.loads((folder / "config.json").read_text())


def test_command_lines(ran):
  check_succeeded(ran, right)
  check_rejected(ran, RUNNER, alone=False)
  folder, results = ran
  line = results["fit"]["stdout"]
  assert line.startswith(f"{folder}/new/fit: 11 tokens, 3 dimensions, float16, ") and line.endswith(" MB\n")
  assert not config(folder / "new/fit")["normalize"] and config(folder / "pairs")["normalize"]
  assert load_file(folder / "new/fit/model.safetensors")["embeddings"].shape == (11, 3)
  assert not (folder / "never").exists() and os.listdir(folder / "full") == ["file"]
  left = [path.name for path in folder.rglob(".*")]
  assert left == []


def test_export_and_fit_write_a_table(tmp_path):
  prepare(tmp_path)
  model = SentenceModel.from_pretrained(f"static:{tmp_path}/static", static_normalize=False)
  model.fit((tmp_path / "corpus.txt").read_text().splitlines(), "mean").save(tmp_path / "model")
  flags = ["--format=model2vec", "--dtype=float16", "--normalize", f"--export_dir={tmp_path}/out"]
  done = finished_python("run_scripts/run_export.py", f"--flow_folder={tmp_path}/model", *flags)
  assert done.stdout.startswith(f"{tmp_path}/out: 7 tokens, 4 dimensions, float16, ")
  table = SentenceModel.from_pretrained(f"static:{tmp_path}/out")
  texts = ["a dog", "b cat", "a cat runs", "dog b"]
  np.testing.assert_allclose(table.similarity(texts, texts[::-1]), model.similarity(texts, texts[::-1]), atol=1e-2)
  flags = ["--format=model2vec", "--calibration=sn", "--task=sample", f"--output_parent_dir={tmp_path}/exp"]
  flags += ["--model=static:mini", f"--export_dir={tmp_path}/fitted"]
  done = finished_python("run_scripts/run_flow.py", *flags)
  assert f"{tmp_path}/fitted: " in done.stdout and not config(tmp_path / "fitted")["normalize"]


@pytest.mark.parametrize(
  "command, flags, expected",
  [
    ("export", ["--export_dir=@/full"], "--export_dir"),
    ("export", ["--calibration_only"], "--calibration_only: has no use"),
    ("export", ["--reference=@/corpus.txt"], "--reference: has no use"),
    ("export", ["--version=3"], "--version=3"),
    ("export", ["--model_name=x"], "--model_name=x"),
    ("export", ["--format=saved_model", "--dtype=int8"], "--dtype=int8"),
    ("flow", ["--calibration=flow", "--model=static:mini"], "--calibration=flow: is not affine"),
    ("flow", ["--calibration=sn", "--model=mini"], "bert-flow distill"),
  ],
)
def test_flags_that_a_table_does_not_have(tmp_path, command, flags, expected):
  (tmp_path / "full").mkdir()
  (tmp_path / "full/file").write_text("mine")
  flags = [flag.replace("@", str(tmp_path)) for flag in flags]
  for other in ("--format=model2vec", f"--export_dir={tmp_path}/out"):
    if not any(flag.startswith(other.partition("=")[0]) for flag in flags):
      flags.append(other)
  done = finished_python(f"run_scripts/run_{command}.py", *flags, status=1)
  assert expected in done.stderr and len(done.stderr.splitlines()) == 1
