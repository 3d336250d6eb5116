"""bert_flow_tf/tables/plan.py: what is asked for; what is refused is in run_table_test."""

import pytest
from absl import flags

from bert_flow_tf.data.tasks import STS_TASKS
from bert_flow_tf.tables.plan import TABLES, is_of_use, label_of, make_plan


def plan_of(*arguments):
  found = flags.FlagValues()
  for name in ("table", "figure", "task", "nli_model", "transfer_corpus"):
    flags.DEFINE_list(name, [], "", flag_values=found)
  flags.DEFINE_list("model", ["mini"], "", flag_values=found)
  flags.DEFINE_list("calibration", ["sn"], "", flag_values=found)
  for name, default in {"num_seeds": 1, "seed": 10}.items():
    flags.DEFINE_integer(name, default, "", flag_values=found)
  for name in ("frequency_file", "corpus", "output_dir", "results_page"):
    flags.DEFINE_string(name, None, "", flag_values=found)
  found(["run_table.py", *arguments])
  return make_plan(found)


def test_all_without_frequencies_leaves_table_1_out():
  plan = plan_of("--table=ALL", "--figure=all")
  assert plan.tables == TABLES[1:] and plan.figures == ("2", "isotropy", "cone") and plan.columns == STS_TASKS
  assert plan.tasks() == [*STS_TASKS, "QNLI"]
  assert "1" in plan_of("--table=all", f"--corpus={__file__}").tables


def test_order_and_repetition():
  plan = plan_of("--table=5, 2,2", "--task=sts16,stsb,STS-16", "--calibration=SN,flow,None,whitening-8")
  assert (
    plan.tables == ("2", "5") and plan.columns == ("STS-B", "STS-16") and plan.calibrations == ("sn", "whitening-8")
  )
  assert plan_of("--table=5", "--calibration=").calibrations == ()


@pytest.mark.parametrize(
  ("arguments", "tasks", "needs_models", "fits_on_nli"),
  [
    (["--table=1", f"--corpus={__file__}"], [], True, False),
    (["--table=3"], [], False, False),
    (["--table=3", "--task=SICK-R", "--nli_model=x"], ["SICK-R"], False, True),
    (["--table=8", "--nli_model=x"], ["STS-B"], False, False),
    (["--table=8"], ["STS-B"], True, False),
    (["--table=4"], ["QNLI"], True, True),
    (["--table=2", "--task=SICK-R", "--model=glove:x"], ["SICK-R"], True, False),
    (["--table=transfer", "--task=SICK-R", "--transfer_corpus=NLI"], ["SICK-R"], True, True),
    (["--figure=2"], ["STS-B"], True, False),
  ],
)
def test_what_is_loaded(arguments, tasks, needs_models, fits_on_nli):
  plan = plan_of(*arguments)
  assert (plan.tasks(), plan.needs_models, plan.fits_on_nli) == (tasks, needs_models, fits_on_nli)


def test_seeds():
  plan = plan_of("--table=2,8")
  assert plan.seeds("2") == [10] and plan.seeds("8") == [10, 11, 12, 13, 14] and plan.seeds("1") == []
  assert plan_of("--table=2,8", "--num_seeds=1").seeds("8") == [10]
  assert plan_of("--table=2,8", "--num_seeds=3").seeds("2") == [10, 11, 12]


def test_labels(tmp_path):
  (tmp_path / "bert").mkdir()
  assert [label_of(name) for name in ("base", "org/name", f"{tmp_path}/bert/", f"{tmp_path}/bert/../bert/.")] == [
    "base",
    "name",
    "bert",
    "bert",
  ]
  assert label_of("glove:/x/glove.6B.300d.txt.gz") == "glove.6B.300d"


def test_flags_of_some_tables_alone():
  assert is_of_use("corpus", "1") and not is_of_use("corpus", "2") and is_of_use("seed", "1")
