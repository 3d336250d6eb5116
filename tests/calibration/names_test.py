"""calibration/names.py: names of calibrations, and whether k can be chosen on dev."""

import numpy as np
import pytest

from bert_flow_tf.calibration.names import (
  CalibrationSpec,
  check_k_on_dev,
  make_calibration,
  parse_calibration,
  parse_calibrations,
)
from bert_flow_tf.data.tasks import load_task
from bert_flow_tf.errors import ConfigError
from tests.run_scripts import tiny_data
from tests.testing import rejected

ACCEPTED = {
  "flow": ("flow", None),
  "auto": ("auto", None),
  "whitening": ("whitening", None),
  "whitening-256": ("whitening", 256),
  "whitening-1234567": ("whitening", 1234567),
  "soft-whitening": ("soft-whitening", None),
  "soft-whitening-0.3": ("soft-whitening", 0.3),
  "tempered-whitening": ("tempered-whitening", None),
  "tempered-whitening-0.3": ("tempered-whitening", 0.3),
  "sn": ("sn", None),
  "natsv": ("natsv", None),
  "natsv-6": ("natsv", 6),
  "sn+natsv": ("sn+natsv", None),
  "sn+natsv-6": ("sn+natsv", 6),
  "mean": ("mean", None),
  "none": ("none", None),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_names(name):
  spec = parse_calibration(name)
  assert (spec.method, spec.k) == ACCEPTED[name]
  assert spec.name == name and parse_calibration(spec.name) == spec
  assert parse_calibration(f" {name.upper()} ") == spec
  assert spec.k_on_dev == (name in ("natsv", "sn+natsv"))
  if name not in ("flow", "auto"):
    assert make_calibration(spec).name == make_calibration(name).name == name


@pytest.mark.parametrize("name", ["flow", "flow+sn", "auto"])
def test_what_is_not_made_here(name):
  with rejected(ConfigError, "calibration"):
    make_calibration(name)


@pytest.mark.parametrize("other", ["soft-whitening", "whitening-4", "soft-whitening-0.3", "natsv", "sn+natsv-6"])
def test_the_flow_and_another_one(other):
  spec = parse_calibration(f"Flow+{other}")
  assert spec.parts == (CalibrationSpec("flow"), parse_calibration(other))
  assert spec.name == f"flow+{other}" and parse_calibration(spec.name) == spec
  assert spec.k_on_dev == (other == "natsv")


@pytest.mark.parametrize(
  "name",
  ["", "whiten", "flow-3", "auto-3", "flow+", "flow+auto", "flow+flow", "flow+flow+sn", "flow+sn-3", "sn+flow",
   "flow+natsv+sn",
   "sn-3", "mean-1", "none-1", "natsv-0", "natsv--6", "natsv-06", "natsv-6.0", "natsv+sn",
   "natsv6", "whitening-", "whitening-x", "whitening-1e3", "sn+natsv-6-7", "sn + natsv", "whitening-9999999999",
   "natsv-٦", "soft-whitening-3", "soft-whitening-1.5", "soft-whitening-0.00",
   "whitening-0.5", "soft", "-whitening", "a" * 100, None, 6,
   "characters+characters", "characters+flow", "characters-7", "characters-0.5", "+characters"],
)  # fmt: skip
def test_unknown_names(name):
  with rejected(ConfigError, "calibration"):
    parse_calibration(name)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
  return tiny_data.write(tmp_path_factory.mktemp("data"))


@pytest.mark.parametrize("names", [[], ["flow", ""], ["pca"], ["SN", "sn "], ["flow-3"]])
def test_rejected_calibrations(names):
  with rejected(ConfigError, "calibration"):
    parse_calibrations(names)


def test_calibrations_keep_their_order():
  specs = parse_calibrations(["SN", "none", "Flow", "natsv-3", "natsv"])
  assert [spec.name for spec in specs] == ["sn", "flow", "natsv-3", "natsv"]
  assert parse_calibrations(["none"]) == []


def test_k_is_chosen_on_dev_where_there_is_one_to_choose_on(data):
  specs = [parse_calibration("sn+natsv+characters")]
  check_k_on_dev(specs, load_task("STS-B", data))
  check_k_on_dev([parse_calibration("natsv-3"), parse_calibration("flow")], load_task("hard-sample"))
  with rejected(ConfigError, "calibration"):
    check_k_on_dev(specs, load_task("hard-sample"))


def test_k_is_not_chosen_on_what_is_evaluated(tmp_path):
  (tmp_path / "QNLI").mkdir()
  rows = [f"{i}\tWhat {i}?\tThat {i}.\t{'not_' * (i % 2)}entailment" for i in range(6)]
  (tmp_path / "QNLI/dev.tsv").write_text("\n".join(["index\tquestion\tsentence\tlabel", *rows]) + "\n")
  task = load_task("QNLI", tmp_path)
  assert not np.isnan(task.splits["dev"].scores).any()
  with rejected(ConfigError, "calibration"):
    check_k_on_dev([parse_calibration("natsv")], task)
