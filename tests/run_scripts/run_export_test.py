"""run_scripts/run_export.py: as a user starts it, and mistypes it."""

import importlib.util
import json
import subprocess
import sys

import pytest

from bert_flow_tf import SentenceEncoder
from bert_flow_tf.calibration.spec import make_calibration
from tests.encoder import tiny
from tests.testing import REPO

if importlib.util.find_spec("tensorflow_text") is None or importlib.util.find_spec("tensorflow_serving") is None:
  pytest.skip("not installed: pip install 'bert-flow-tf[serving]'", allow_module_level=True)

pytestmark = pytest.mark.slow


def run(*flags):
  command = [sys.executable, str(REPO / "run_scripts" / "run_export.py"), *flags]
  return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def test_a_saved_calibration_says_how_it_is_served(tmp_path):
  encoder = SentenceEncoder.from_pretrained(str(tiny.save_tiny(tmp_path / "tiny")))
  settings = {"sentence_embedding_type": "avg-top-2", "max_seq_length": 9, "low_dim": 6}
  sentences = [f"{'a ' * (i % 5)}{'dog ' * (i % 3)}{'cat ' * (i % 7)}" for i in range(100)]
  calibration = make_calibration("sn").fit(encoder.encode(sentences, **settings))
  calibration.encoder = encoder.identity(**settings)
  calibration.save(tmp_path / "exp" / "sn")
  (tmp_path / "exp" / "results.json").write_text('{"task": "sample", "results": {"test": {"sn": {"spearman": 50.5}}}}')
  base = tmp_path / "base"
  (base / "3").mkdir(parents=True)
  done = run(f"--flow_folder={tmp_path}/exp/sn", f"--export_dir={base}", "--normalize", "--model_name=small")
  assert done.returncode == 0, done.stderr[-3000:]
  lines = done.stdout.splitlines()
  assert lines[0].startswith(f"{base}/4: ") and "calibration sn, 6 dimensions" in lines[0]
  assert lines[1] == "signatures: embed_ids, embed_pooled, serving_default, similarity"
  assert lines[-1].startswith("not run by us: docker run ") and "MODEL_NAME=small" in lines[-1]
  described = json.loads((base / "4" / "assets.extra" / "metadata.json").read_text())
  assert {key: described["encoder"][key] for key in settings} == settings
  assert described["normalize"] is True and described["figures"] == {"test": {"sn": {"spearman": 50.5}}}
  assert "test, sn: spearman 50.5" in (base / "4" / "assets.extra" / "README.md").read_text()
  assert sorted(path.name for path in base.iterdir()) == ["3", "4"]


@pytest.mark.parametrize(
  ("flags", "message"),
  [
    ([], "--export_dir is missing"),
    (["--export_dir=x", "--weights_dtype=int8"], "--weights_dtype=int8: expected one of float32, float16, bfloat16"),
  ],
)
def test_refusals_are_one_line(flags, message):
  done = run(*flags)
  assert done.returncode == 1 and "Traceback" not in done.stderr
  errors = [line for line in done.stderr.splitlines() if line.startswith("error:")]
  assert len(errors) == 1 and message in errors[0]
