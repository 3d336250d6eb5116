"""bert_flow_tf/tables/plan.py: canonical plans; rejected ones are in run_table_test."""

import pytest

from bert_flow_tf.data.tasks import STS_TASKS
from bert_flow_tf.tables.plan import TABLES, Plan, checked, label_of


def plan_of(**values):
  return checked(Plan(**{name: tuple(value.split(",")) for name, value in values.items()}))


def test_all_without_frequencies_leaves_table_1_out():
  plan = plan_of(table="ALL", figure="all")
  assert (
    plan.table == tuple(name for name in TABLES if name != "1")
    and plan.figure == ("2", "isotropy", "cone")
    and plan.task == STS_TASKS
  )
  assert plan.tasks() == [*STS_TASKS, "QNLI", "MRPC"]
  assert "1" in checked(Plan(table=("all",), corpus=__file__)).table


def test_order_and_repetition():
  plan = plan_of(table="5, 2,2", task="sts16,stsb,STS-16", calibration="SN,flow,None,whitening-8")
  assert plan.table == ("2", "5") and plan.task == ("STS-B", "STS-16") and plan.calibration == ("sn", "whitening-8")
  assert checked(Plan(table=("5",), calibration=())).calibration == ()


@pytest.mark.parametrize(
  ("values", "tasks", "needs_models", "fits_on_nli"),
  [
    ({"table": "3"}, [], False, False),
    ({"table": "3", "task": "SICK-R", "nli_model": "x"}, ["SICK-R"], False, True),
    ({"table": "8", "nli_model": "x"}, ["STS-B"], False, False),
    ({"table": "8"}, ["STS-B"], True, False),
    ({"table": "4"}, ["QNLI"], True, True),
    ({"table": "2", "task": "SICK-R", "model": "glove:x"}, ["SICK-R"], True, False),
    ({"table": "transfer", "task": "SICK-R", "transfer_corpus": "NLI"}, ["SICK-R"], True, True),
    ({"table": "beyond", "model": "x"}, [*STS_TASKS, "QNLI", "MRPC"], True, False),
    ({"table": "gains", "task": "SICK-R"}, ["SICK-R"], True, False),
    ({"table": "ablation"}, [*STS_TASKS], True, False),
    ({"figure": "2"}, ["STS-B"], True, False),
  ],
)
def test_tasks_and_encoders_that_are_loaded(values, tasks, needs_models, fits_on_nli):
  plan = plan_of(**values)
  assert (plan.tasks(), plan.needs_models, plan.fits_on_nli) == (tasks, needs_models, fits_on_nli)


def test_seeds():
  plan = Plan(seed=10)
  assert plan.seeds("2") == [10] and plan.seeds("8") == [10, 11, 12, 13, 14] and plan.seeds("1") == []
  assert Plan(seed=10, num_seeds=1).seeds("8") == [10] and Plan(seed=10, num_seeds=3).seeds("2") == [10, 11, 12]


def test_labels(tmp_path):
  (tmp_path / "bert").mkdir()
  names = ("base", "org/name", f"{tmp_path}/bert/", f"{tmp_path}/bert/../bert/.", "glove:/x/glove.6B.300d.txt.gz")
  assert [label_of(name) for name in names] == ["base", "name", "bert", "bert", "glove.6B.300d"]
