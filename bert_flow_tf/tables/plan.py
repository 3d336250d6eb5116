"""Tables and figures of a run, checked before anything is loaded."""

import dataclasses
import os
import pathlib
from collections.abc import Sequence

from absl import logging

from bert_flow_tf.calibration.names import FLOW, parse_calibrations
from bert_flow_tf.data.flow_corpus import NLI
from bert_flow_tf.data.tasks import STS_TASKS, find_task
from bert_flow_tf.encoder.word_vectors import PREFIX
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.evaluation.analysis import TOKENS, UNITS, edit_distances
from bert_flow_tf.io.experiment import encoder_label
from bert_flow_tf.io.settings import Settings, setting

NEW_TABLES = (BEYOND, GAINS, ABLATION) = ("beyond", "gains", "ablation")  # not the paper's
TABLES = (*NEW_TABLES, "1", "2", "3", "4", "5", "6", "8", "isotropy", "transfer", "activation")
FIGURES = ("2", "isotropy", "cone")
ONE_TASK = "STS-B"  # of Tables 5, 6 and 8, isotropy, activation and the figures
BINARY_TASKS = ("QNLI", "MRPC")  # further columns of beyond and gains, unless some columns are chosen
_SEEDS_OF_TABLE_8 = 5
_MAX_SEED = 2**31 - 1

# {argument: the tables and figures that use it}; all others are used by every table.
USED_BY = {
  "task": (*NEW_TABLES, "2", "3", "transfer"),
  "nli_model": ("3", "4", "8"),
  "calibration": ("2", "3", "5", "isotropy", "figure isotropy"),
  "transfer_corpus": ("transfer",),
  "frequency_file": ("1",),
  "corpus": ("1",),
  "edit_unit": ("6", "figure 2"),
  "frequency_corpus": NEW_TABLES,
  "num_seeds": tuple(table for table in TABLES if table not in ("1", ABLATION)),
}


@dataclasses.dataclass(frozen=True)
class Plan(Settings):
  """Tables and figures of a run, and the encoders, calibrations and corpora that they compare."""

  table: tuple[str, ...] = setting((), f"Tables to compute: {', '.join(TABLES)}, or all.")
  figure: tuple[str, ...] = setting((), f"Figures to draw: {', '.join(FIGURES)}, or all.")
  task: tuple[str, ...] = setting((), "Columns of Tables 2, 3, transfer, beyond, gains and ablation; default: all.")
  model: tuple[str, ...] = setting(
    ("mini",), "Encoders as in run_flow.py, or glove:FILE for averaged word vectors of that file."
  )
  nli_model: tuple[str, ...] = setting(
    (), "Hugging Face folders of encoders that were fine-tuned on NLI, for Tables 3, 4 and 8."
  )
  calibration: tuple[str, ...] = setting(
    ("sn", "whitening"), "Further calibrations, as rows of Tables 2, 3 and 5 and isotropy; may be empty."
  )
  transfer_corpus: tuple[str, ...] = setting((), "Further files of sentences, or nli, as rows of transfer.")
  num_seeds: int | None = setting(None, "Seeds of the flow, from seed; default: 1, and 5 for Table 8.", minimum=1)
  frequency_file: str | None = setting(None, "For Table 1: a file with a word and its count per line.")
  corpus: str | None = setting(None, "For Table 1: a text file whose words are counted.")
  edit_unit: str = setting(TOKENS, "For Table 6 and Figure 2: unit of the edit distance.", choices=UNITS)
  seed: int = 1234

  def seeds(self, table: str) -> list[int]:
    """Returns the flow's seeds in a table; [] for Table 1, in which nothing is random."""
    if table == "1":
      return []
    count = self.num_seeds or (_SEEDS_OF_TABLE_8 if table == "8" else 1)
    return [self.seed + number for number in range(count)]

  @property
  def needs_models(self) -> bool:
    """True if the encoders of `model` are needed, not only those of `nli_model`."""
    without = {"3"} | ({"8"} if self.nli_model else set())
    return bool(self.figure or set(self.table) - without)

  @property
  def fits_on_nli(self) -> bool:
    """True if a flow is fitted on SNLI and MNLI."""
    berts = any(not name.startswith(PREFIX) for name in self.model)
    fitting_tables = ({"2", "4"} if berts else set()) | ({"3", "4"} if self.nli_model else set())
    return bool(fitting_tables & set(self.table)) or NLI in self.transfer_corpus

  def tasks(self) -> list[str]:
    """Returns the names of the tasks that are needed, in a fixed order."""
    needed = {"1": (), "4": ("QNLI",), **dict.fromkeys(("5", "6", "8", "isotropy", "activation"), (ONE_TASK,))}
    needed |= dict.fromkeys((BEYOND, GAINS), self.columns(BEYOND))
    if not self.nli_model:
      needed["3"] = ()  # only published rows
    names = {task for table in self.table for task in needed.get(table, self.task)}
    if self.figure:
      names.add(ONE_TASK)
    return [task for task in (*STS_TASKS, *BINARY_TASKS) if task in names]

  def columns(self, table: str) -> tuple[str, ...]:
    """Returns the names of the tasks of a table whose columns can be chosen."""
    return (*self.task, *BINARY_TASKS) if table in (BEYOND, GAINS) and self.task == STS_TASKS else self.task


def checked(plan: Plan) -> Plan:
  """Returns the plan with canonical names in the paper's order, and without Table 1 of "all" if it lacks frequencies.

  Raises:
    ConfigError: a value is not allowed, or something that a table needs is missing.
  """
  tables, drawn = list(_chosen("table", plan.table, TABLES)), _chosen("figure", plan.figure, FIGURES)
  for name in ("frequency_file", "corpus"):
    path = getattr(plan, name)
    if path is not None and not os.path.exists(os.path.expanduser(path)):
      raise ConfigError(f"{name}={path}: the file does not exist", name)
  if plan.frequency_file and plan.corpus:
    raise ConfigError("frequency_file and corpus both give word frequencies; leave one out", "frequency_file")
  if "1" in tables and not (plan.frequency_file or plan.corpus):
    if "1" in _lower(plan.table):
      raise ConfigError("table=1: needs word frequencies; give frequency_file, or corpus to count words", "table")
    logging.warning("Table 1 is left out: neither frequency_file nor corpus is given")
    tables.remove("1")
  if "6" in tables or "2" in drawn:
    edit_distances([], [])  # raises an error if its package is missing
  specs = parse_calibrations(plan.calibration) if plan.calibration else []
  plan = dataclasses.replace(
    plan,
    table=tuple(tables),
    figure=drawn,
    task=_columns(plan.task),
    calibration=tuple(spec.name for spec in specs if spec.name != FLOW),
    transfer_corpus=_corpora(plan.transfer_corpus),
  )
  _check_models(plan)
  last = max((seed for table in tables for seed in plan.seeds(table)), default=0)
  if last > _MAX_SEED:
    raise ConfigError(f"seed={plan.seed}: the last seed would be {last}, expected at most {_MAX_SEED}", "seed")
  return plan


def label_of(name: str) -> str:
  """Returns the name of an encoder in the tables."""
  if name.startswith(PREFIX):
    file = pathlib.Path(name.removeprefix(PREFIX)).name
    return file.removesuffix(".gz").removesuffix(".txt").removesuffix(".vec")
  return encoder_label(name)


def _lower(names):
  return [name.strip().lower() for name in names]


def _chosen(argument: str, names: Sequence[str], allowed: Sequence[str]) -> tuple[str, ...]:
  """Returns the values of an argument in the order of `allowed`; all of them for "all"."""
  names = _lower(names)
  for name in names:
    if name not in (*allowed, "all"):
      hint = "; Table 7 is a list of settings" if (argument, name) == ("table", "7") else ""
      raise ConfigError(f"{argument}={name}: expected one or more of {', '.join(allowed)}, or all{hint}", argument)
  return tuple(name for name in allowed if name in names or "all" in names)


def _columns(tasks):
  names = [find_task(name.strip()).name for name in tasks]
  for name in names:
    if name not in STS_TASKS:
      raise ConfigError(f"task={name}: expected some of {', '.join(STS_TASKS)}", "task")
  return tuple(task for task in STS_TASKS if task in names or not names)


def _corpora(names):
  """Returns transfer_corpus with "nli" in lower case."""
  corpora = tuple(NLI if name.strip().lower() == NLI else name for name in names)
  for name in corpora:
    if corpora.count(name) > 1:
      raise ConfigError(f"transfer_corpus={name}: is given twice, expected each once", "transfer_corpus")
    if name != NLI and not os.path.exists(os.path.expanduser(name)):
      raise ConfigError(f"transfer_corpus={name}: expected nli, or an existing file of sentences", "transfer_corpus")
  return corpora


def _check_models(plan):
  """Checks that every table has an encoder for its rows, and that no two have the same label."""
  words = [name for name in plan.nli_model if name.startswith(PREFIX)]
  if words:
    raise ConfigError(f"nli_model={words[0]}: word vectors are not fine-tuned; give them as model", "nli_model")
  if plan.needs_models and not plan.model:
    raise ConfigError("model is empty; expected one or more encoders, as in base,large", "model")
  only_words = all(name.startswith(PREFIX) for name in plan.model)
  with_words = ("2", "3", *(("4", "8") if plan.nli_model else ()))
  needing = [("table", name) for name in plan.table if name not in with_words]
  needing += [("figure", name) for name in plan.figure]
  if needing and only_words:
    argument, name = needing[0]
    raise ConfigError(f"{argument}={name}: needs a BERT, and model={','.join(plan.model)} has only words", argument)
  labels = [label_of(name) for name in (*(plan.model if plan.needs_models else ()), *plan.nli_model)]
  for label in labels:
    if labels.count(label) > 1:
      raise ConfigError(f"model: two of model and nli_model have the name {label!r}; rename a folder", "model")
