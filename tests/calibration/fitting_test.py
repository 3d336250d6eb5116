"""bert_flow_tf/calibration/names.py: lists of calibrations, and the k that is chosen on dev."""

import numpy as np
import pytest

from bert_flow_tf.calibration.names import check_k_on_dev, parse_calibration, parse_calibrations
from bert_flow_tf.data.tasks import load_task
from bert_flow_tf.errors import ConfigError
from tests.run_scripts import tiny_data


@pytest.fixture(scope="module")
def data(tmp_path_factory):
  return tiny_data.write(tmp_path_factory.mktemp("data"))


@pytest.mark.parametrize("names", [[], ["flow", ""], ["pca"], ["SN", "sn "], ["flow-3"]])
def test_rejected_calibrations(names):
  with pytest.raises(ConfigError) as raised:
    parse_calibrations(names)
  assert raised.value.argument == "calibration"


def test_calibrations_keep_their_order():
  specs = parse_calibrations(["SN", "none", "Flow", "natsv-3", "natsv"])
  assert [spec.name for spec in specs] == ["sn", "flow", "natsv-3", "natsv"]
  assert parse_calibrations(["none"]) == []


def test_k_is_chosen_on_dev_where_there_is_one_to_choose_on(data):
  specs = [parse_calibration("sn+natsv")]
  check_k_on_dev(specs, load_task("STS-B", data))
  check_k_on_dev([parse_calibration("natsv-3"), parse_calibration("flow")], load_task("hard-sample"))
  with pytest.raises(ConfigError, match=r"^calibration=sn\+natsv: .*hard-sample has no dev split"):
    check_k_on_dev(specs, load_task("hard-sample"))


def test_k_is_not_chosen_on_what_is_evaluated(tmp_path):
  (tmp_path / "QNLI").mkdir()
  rows = [f"{i}\tWhat {i}?\tThat {i}.\t{'not_' * (i % 2)}entailment" for i in range(6)]
  (tmp_path / "QNLI/dev.tsv").write_text("\n".join(["index\tquestion\tsentence\tlabel", *rows]) + "\n")
  task = load_task("QNLI", tmp_path)
  assert not np.isnan(task.splits["dev"].scores).any()
  with pytest.raises(ConfigError, match="QNLI is evaluated on dev"):
    check_k_on_dev([parse_calibration("natsv")], task)
