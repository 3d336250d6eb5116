"""run_scripts/run_export.py: the command."""

import importlib.util
import json

import numpy as np
import pytest
import tensorflow as tf

from bert_flow_tf import SentenceEncoder, SentenceModel, fit_calibration
from bert_flow_tf.calibration.names import make_calibration
from bert_flow_tf.report.result_files import write_results
from bert_flow_tf.runs.run_folder import describe_measured
from bert_flow_tf.serving.signatures import SIGNATURES, signatures_of
from tests.encoder import tiny
from tests.testing import finished_python, hub_folder

if importlib.util.find_spec("tensorflow_text") is None or importlib.util.find_spec("tensorflow_serving") is None:
  pytest.skip("not installed: pip install '.[serving]'", allow_module_level=True)

pytestmark = pytest.mark.slow


def test_export_of_a_saved_calibration(tmp_path):
  snapshot = tiny.save_tiny(hub_folder(tmp_path / "hub"))
  encoder = SentenceEncoder.from_pretrained("someone/tiny", cache_dir=tmp_path / "hub", revision="v1")
  settings = {"sentence_embedding_type": "avg-top-2", "max_seq_length": 9, "low_dim": 6}
  sentences = [f"{'a ' * (i % 5)}{'dog ' * (i % 3)}{'cat ' * (i % 7)}" for i in range(100)]
  calibration = make_calibration("sn").fit(encoder.encode(sentences, "avg-top-2", 9))
  calibration.encoder = encoder.identity(**settings).to_dict()
  calibration.save(tmp_path / "exp" / "sn")
  measured = describe_measured({"sn": SentenceModel(encoder, calibration, **settings)})
  about = {"task": "sample", "encoder": {"name": "tiny"}, "controls": {}, **measured}
  write_results(tmp_path / "exp", {**about, "results": {"test": {"sn": {"spearman": 50.5}, "mean": {"spearman": 1.0}}}})
  base = tmp_path / "base"
  (base / "3").mkdir(parents=True)
  flags = [f"--flow_folder={tmp_path}/exp/sn", f"--export_dir={base}", f"--model_cache_dir={tmp_path}/hub"]
  done = finished_python("run_scripts/run_export.py", *flags, "--normalize", "--model_name=small")
  lines = done.stdout.splitlines()
  assert lines[0].startswith(f"{base}/4: ") and "calibration sn, 12 dimensions, 6 calibrated" in lines[0]
  assert lines[1] == f"signatures: {', '.join(signatures_of(SIGNATURES, has_flow=False))}"
  assert "not run by us" in lines[-1] and "MODEL_NAME=small" in lines[-1]
  metadata = json.loads((base / "4" / "assets.extra" / "metadata.json").read_text())
  assert {key: metadata["encoder"][key] for key in settings} == settings
  assert (metadata["encoder"]["name"], metadata["encoder"]["revision"]) == ("someone/tiny", snapshot.name)
  assert metadata["normalize"] is True and metadata["figures"] == {"test": {"sn": {"spearman": 50.5}}}
  assert "test, sn: spearman 50.5" in (base / "4" / "assets.extra" / "README.md").read_text()
  assert sorted(path.name for path in base.iterdir()) == ["3", "4"]


def test_export_of_a_calibration_of_vectors(tmp_path):
  vectors = np.random.default_rng(0).normal(size=[64, 6])
  fit_calibration(vectors, "whitening", vectors_of="numbers").save(tmp_path / "whitening")
  flags = [f"--flow_folder={tmp_path}/whitening", "--calibration_only", f"--export_dir={tmp_path}/base"]
  done = finished_python("run_scripts/run_export.py", *flags)
  assert done.stdout.splitlines()[1] == "signatures: serving_default"
  # A static encoder is loaded without TensorFlow, whose lines the export must hide.
  done = finished_python(
    "run_scripts/run_export.py", "--model=static:mini", f"--export_dir={tmp_path}/static", "--quiet"
  )
  assert done.stderr == ""
  loaded = tf.saved_model.load(str(tmp_path / "base/1"))
  np.testing.assert_allclose(np.cov(loaded(vectors.astype(np.float32)).numpy().T), np.eye(6), atol=1e-5)


def test_export_to_openvino(tmp_path):
  pytest.importorskip("openvino")
  vectors = np.random.default_rng(0).normal(size=[64, 6])
  fit_calibration(vectors, "whitening", vectors_of="numbers").save(tmp_path / "whitening")
  flags = [f"--flow_folder={tmp_path}/whitening", "--calibration_only", f"--export_dir={tmp_path}/base"]
  done = finished_python("run_scripts/run_export.py", *flags, "--format=openvino", ONEDNN_MAX_CPU_ISA=None)
  assert done.stdout.splitlines()[1] == "signatures: embed" and (tmp_path / "base/1/model.xml").exists()
  done = finished_python("run_scripts/run_flow.py", "--format=openvino", status=1)
  assert "format: needs export_dir" in done.stderr
