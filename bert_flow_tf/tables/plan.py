"""Tables and figures of a run, checked before anything is loaded."""

import dataclasses
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from absl import logging

from bert_flow_tf.calibration.names import FLOW, parse_calibrations
from bert_flow_tf.data.flow_corpus import NLI
from bert_flow_tf.data.task import TaskData
from bert_flow_tf.data.tasks import STS_TASKS, find_task
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.io.settings import setting
from bert_flow_tf.tables.analysis import LEXICAL_SPLIT, edit_distances
from bert_flow_tf.tables.inputs import label_of, sample_corpus
from bert_flow_tf.tables.kinds import EncoderKind, EncoderName, encoder_kind
from bert_flow_tf.tables.registry import BINARY_TASKS, FIGURES, STS_B, TABLES
from bert_flow_tf.tables.request import TableArguments
from bert_flow_tf.training.settings import FlowSettings

# An argument of a plan, its value, and what is wrong with it or expected.
Mistake = tuple[str, str, str]


@dataclasses.dataclass(frozen=True)
class Plan(TableArguments):
  """Tables and figures of a run, and the encoders, calibrations and corpora that they compare."""

  table: tuple[str, ...] = setting((), f"Tables to compute: {', '.join(TABLES)}, or all.")
  figure: tuple[str, ...] = setting((), f"Figures to draw: {', '.join(FIGURES)}, or all.")
  task: tuple[str, ...] = setting(
    (), "Columns of Tables 2, 3, transfer, beyond, gains, ablation and choice; default: all.", flag="table_tasks"
  )
  model: tuple[str, ...] = setting(
    ("mini",), "Encoders as in bert-flow fit, or glove:FILE for averaged word vectors of that file."
  )
  num_seeds: int | None = setting(None, "Seeds of the flow, from seed; default: 1, and 5 for Table 8.", minimum=1)

  def seeds(self, table: str) -> list[int]:
    """Returns the flow's seeds in a table; [] if nothing in it is random."""
    count = TABLES[table].seeds
    if count and self.num_seeds:
      count = self.num_seeds
    return list(range(self.seed, self.seed + count))

  def encoders(self, table: str) -> list[EncoderName]:
    """Returns the names of the encoders that have rows in a table."""
    names = [EncoderName(name, encoder_kind(name)) for name in self.model]
    names += [EncoderName(name, encoder_kind(name, is_tuned=True)) for name in self.nli_model]
    return TABLES[table].select(names)

  @property
  def needs_models(self) -> bool:
    """True if the encoders of `model` are needed, not only the encoders of `nli_model`."""
    if self.figure:
      return True
    kinds = {kind for table in self.table for _, kind in self.encoders(table)}
    return bool(kinds - {EncoderKind.TUNED})

  def tasks(self) -> list[str]:
    """Returns the names of the tasks that are needed, in a fixed order."""
    names = set()
    if self.figure:
      names.add(STS_B)
    for table in self.table:
      if self.encoders(table):  # else all rows are published
        names.update(TABLES[table].columns(self.task))
    return list(filter(names.__contains__, STS_TASKS + BINARY_TASKS))

  def corpora(self) -> list[str]:
    """Returns the corpora besides tasks on which a flow is fitted: files, "nli"."""
    corpora = set(self.transfer_corpus)
    for table in self.table:
      if TABLES[table].on_nli and any(kind is not EncoderKind.WORDS for _, kind in self.encoders(table)):
        corpora.add(NLI)
    if self.corpus and not {"beyond", "gains"}.isdisjoint(self.table):
      corpora.add(sample_corpus(self.corpus))
    return sorted(corpora)

  def check_tasks(self, tasks: Mapping[str, TaskData]) -> None:
    """Checks that the task of Table 6 and Figure 2 has a dev split."""
    for argument, name, names in (("table", "6", self.table), ("figure", "2", self.figure)):
      if name in names and LEXICAL_SPLIT not in tasks[STS_B].splits:
        task = tasks[STS_B]
        raise ConfigError(
          f"{argument}={name}: needs the {LEXICAL_SPLIT} split of {STS_B}; {task.source} has {', '.join(task.splits)}",
          argument,
        )


def canonical(plan: Plan) -> Plan:
  """Returns the plan with canonical names in the paper's order; "all" lacks Table 1 if no frequencies are given."""
  tables, drawn = _canonical_names("table", plan.table, TABLES), _canonical_names("figure", plan.figure, FIGURES)
  if "1" in tables and "1" not in ",".join(plan.table) and not (plan.frequency_file or plan.corpus):
    logging.warning("Table 1 is left out: neither frequency_file nor corpus is given")
    tables = tuple(name for name in tables if name != "1")
  if "6" in tables or "2" in drawn:
    edit_distances([], [])  # raises an error if its package is missing
  columns = {find_task(name.strip()).name for name in plan.task}
  calibrations = []
  if plan.calibration:
    calibrations = [spec.name for spec in parse_calibrations(plan.calibration) if spec.name != FLOW]
  corpora = [NLI if name.strip().lower() == NLI else name for name in plan.transfer_corpus]
  plan = dataclasses.replace(
    plan,
    table=tables,
    figure=drawn,
    task=tuple(filter(columns.__contains__, STS_TASKS)) or STS_TASKS,
    calibration=tuple(calibrations),
    transfer_corpus=tuple(corpora),
  )
  for name in sorted(columns - set(STS_TASKS)):
    raise ConfigError(f"task={name}: expected some of {', '.join(STS_TASKS)}", "task")
  for rule in _RULES:
    for argument, value, text in rule(plan):
      raise ConfigError(f"{argument}={value}: {text}", argument)
  for table in tables:
    for seed in plan.seeds(table)[-1:]:
      FlowSettings(seed=seed)  # raises an error if the last seed is too large
  return plan


def _canonical_names(argument: str, names: Sequence[str], allowed: Collection[str]) -> tuple[str, ...]:
  """Returns the values of an argument in the order of `allowed`; all of them for "all"."""
  requested = {name.strip().lower() for name in names}
  for name in sorted(requested - set(allowed) - {"all"}):
    raise ConfigError(f"{argument}={name}: expected one or more of {', '.join(allowed)}, or all", argument)
  if "all" in requested:
    return tuple(allowed)
  return tuple(filter(requested.__contains__, allowed))


def _mistakes_in_tasks(plan: Plan) -> Iterator[Mistake]:
  if "choice" in plan.table and len(plan.task) == 1:
    yield "task", plan.task[0], "table choice needs another set to choose on; expected two or more"


def _mistakes_in_files(plan: Plan) -> Iterator[Mistake]:
  for argument in ("frequency_file", "corpus"):
    path = getattr(plan, argument)
    if path is not None and not os.path.exists(os.path.expanduser(path)):
      yield argument, path, "the file does not exist"
  if plan.frequency_file and plan.corpus:
    yield "frequency_file", plan.frequency_file, "corpus gives word frequencies, too; leave one out"
  if "1" in plan.table and not (plan.frequency_file or plan.corpus):
    yield "table", "1", "needs word frequencies; give frequency_file, or corpus to count words"


def _mistakes_in_transfer_corpora(plan: Plan) -> Iterator[Mistake]:
  for name in plan.transfer_corpus:
    if name != NLI and not os.path.exists(os.path.expanduser(name)):
      yield "transfer_corpus", name, "expected nli, or an existing file of sentences"
    if plan.transfer_corpus.count(name) > 1:
      yield "transfer_corpus", name, "is given twice, expected each once"


def _tables_without_encoders(plan: Plan) -> Iterator[Mistake]:
  """Yields tables and figures that need an encoder of ours, which all do but Table 3: it has published rows."""
  needing = []
  if EncoderKind.BERT not in map(encoder_kind, plan.model):
    needing = [("figure", name) for name in plan.figure]
  for name in plan.table:
    if EncoderKind.BERT in TABLES[name].encoders and not plan.encoders(name):
      needing.append(("table", name))
  for argument, name in needing:
    if not plan.model:
      yield "model", "", "expected one or more encoders, as in base,large"
    yield argument, name, f"needs a BERT, and model={','.join(plan.model)} has none"


def _mistakes_in_encoders(plan: Plan) -> Iterator[Mistake]:
  for name in plan.nli_model:
    if encoder_kind(name) is not EncoderKind.BERT:
      yield "nli_model", name, "only an encoder with a transformer is fine-tuned; give the others as model"
  # No two encoders have the same name in the tables.
  names = list(plan.nli_model)
  if plan.needs_models:
    names += plan.model
  labels = list(map(label_of, names))
  for label in labels:
    if labels.count(label) > 1:
      yield "model", ",".join(names), f"two of model and nli_model have the name {label!r}; rename a folder"


# The first mistake is the one that a user reads.
_RULES: tuple[Callable[[Plan], Iterator[Mistake]], ...] = (
  _mistakes_in_tasks,
  _mistakes_in_files,
  _mistakes_in_transfer_corpora,
  _tables_without_encoders,
  _mistakes_in_encoders,
)
