"""What a table run is asked for, checked before anything is loaded."""

import dataclasses
import os
import pathlib

from absl import logging

from bert_flow_tf.calibration.spec import FLOW, parse_calibrations
from bert_flow_tf.data.flow_corpus import NLI
from bert_flow_tf.data.tasks import STS_TASKS, find_task
from bert_flow_tf.encoder.word_vectors import PREFIX
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.evaluation.edit_distance import edit_distances
from bert_flow_tf.io.experiment import encoder_label
from bert_flow_tf.tables import figures

TABLES = ("1", "2", "3", "4", "5", "6", "8", "isotropy", "transfer")
FIGURES = ("2", "isotropy", "cone")
ONE_TASK = "STS-B"  # of Tables 5, 6 and 8, isotropy and both figures
_SEEDS_OF_TABLE_8 = 5
_MOST_SEED = 2**31 - 1

# Tables and figures that a flag means something to; given for others alone it is refused.
_OF_USE = {
  "task": ("2", "3", "transfer"),
  "nli_model": ("3", "4", "8"),
  "calibration": ("2", "3", "5", "isotropy", "figure isotropy"),
  "transfer_corpus": ("transfer",),
  "frequency_file": ("1",),
  "corpus": ("1",),
  "num_seeds": TABLES[1:],
}


@dataclasses.dataclass(frozen=True)
class Plan:
  """What a run makes of what.

  Attributes:
    tables, figures: names, in the order of `TABLES` and `FIGURES`.
    columns: tasks of Tables 2, 3 and transfer.
    models, nli_models: values of the flags.
    calibrations: further calibrations, in their canonical names, without flow and none.
    transfer_corpora: files, or "nli".
    seed: the first seed.
    num_seeds: seeds of the flow; None for each table's own number.
    frequency_file, corpus: of Table 1, one of them or none.
  """

  tables: tuple[str, ...]
  figures: tuple[str, ...]
  columns: tuple[str, ...]
  models: tuple[str, ...]
  nli_models: tuple[str, ...] = ()
  calibrations: tuple[str, ...] = ()
  transfer_corpora: tuple[str, ...] = ()
  seed: int = 0
  num_seeds: int | None = None
  frequency_file: str | None = None
  corpus: str | None = None

  def seeds(self, table):
    """Seeds of the flow in a table; none where nothing is random."""
    if table == "1":
      return []
    count = self.num_seeds or (_SEEDS_OF_TABLE_8 if table == "8" else 1)
    return [self.seed + number for number in range(count)]

  @property
  def needs_models(self):
    """Whether encoders of --model are needed, and not those of --nli_model alone."""
    without = {"3"} | ({"8"} if self.nli_models else set())
    return bool(self.figures or set(self.tables) - without)

  @property
  def fits_on_nli(self):
    """Whether a flow is fitted on SNLI and MNLI."""
    berts = any(not name.startswith(PREFIX) for name in self.models)
    fitting_tables = ({"2", "4"} if berts else set()) | ({"3", "4"} if self.nli_models else set())
    return bool(fitting_tables & set(self.tables)) or NLI in self.transfer_corpora

  def tasks(self):
    """Names of the tasks that are needed, in a fixed order."""
    needed = {"1": (), "4": ("QNLI",), **dict.fromkeys(("5", "6", "8", "isotropy"), (ONE_TASK,))}
    if not self.nli_models:
      needed["3"] = ()  # published rows alone
    wanted = {task for table in self.tables for task in needed.get(table, self.columns)}
    if self.figures:
      wanted.add(ONE_TASK)
    return [task for task in (*STS_TASKS, "QNLI") if task in wanted]


def make_plan(flags):
  """The `Plan` of the parsed flags of `run_table.py`.

  Raises:
    ConfigError: a flag's value is not known, is of no use, or what it asks for lacks something.
  """
  tables, drawn = _chosen("table", flags.table, TABLES), _chosen("figure", flags.figure, FIGURES)
  _check_files(flags)
  if not (tables or drawn or flags.results_page):
    raise ConfigError(f"nothing to do: give --table={'|'.join(TABLES)}, or --figure={'|'.join(FIGURES)}")
  _check_use(flags, {*tables, *(f"figure {name}" for name in drawn)})
  if flags.frequency_file and flags.corpus:
    raise ConfigError("--frequency_file and --corpus both say how frequent words are; give one of them")
  if "1" in tables and not (flags.frequency_file or flags.corpus):
    if "1" in _lower(flags.table):
      raise ConfigError("--table=1 needs word frequencies: --frequency_file=FILE, or --corpus=FILE to count them")
    logging.warning("Table 1 is left out: neither --frequency_file nor --corpus is given")
    tables.remove("1")
  if drawn:
    figures.require_matplotlib()
  if "6" in tables or "2" in drawn:
    edit_distances([], [])  # says so where the package for it is missing
  specs = parse_calibrations(flags.calibration) if flags.calibration else []
  plan = Plan(
    tables=tuple(tables),
    figures=tuple(drawn),
    columns=_columns(flags.task),
    models=tuple(flags.model),
    nli_models=tuple(flags.nli_model),
    calibrations=tuple(spec.name for spec in specs if spec.method != FLOW),
    transfer_corpora=_corpora(flags.transfer_corpus),
    seed=flags.seed,
    num_seeds=None if flags["num_seeds"].using_default_value else flags.num_seeds,
    frequency_file=flags.frequency_file,
    corpus=flags.corpus,
  )
  _check_models(plan)
  last = max((max(plan.seeds(table), default=0) for table in tables), default=0)
  if last > _MOST_SEED:
    raise ConfigError(f"--seed={plan.seed}: the seeds go up to {last}, expected at most {_MOST_SEED}")
  return plan


def is_of_use(flag, table):
  """Whether a flag means something to a table; every flag does that is not among those of some tables alone."""
  return table in _OF_USE.get(flag, (table,))


def label_of(name):
  """How the rows of a value of --model or --nli_model are named, which must not repeat."""
  if name.startswith(PREFIX):
    file = pathlib.Path(name.removeprefix(PREFIX)).name
    return file.removesuffix(".gz").removesuffix(".txt").removesuffix(".vec")
  return encoder_label(name)


def _lower(names):
  return [name.strip().lower() for name in names]


def _chosen(flag, given, known):
  """The values of a list flag in the order of `known`; all of them for "all"."""
  found = _lower(given)
  unknown = [name for name in found if name not in (*known, "all")]
  if unknown:
    hint = "; Table 7 is a list of settings" if (flag, unknown[0]) == ("table", "7") else ""
    raise ConfigError(f"--{flag}={unknown[0]}: expected one or more of {', '.join(known)}, or all{hint}")
  return [name for name in known if name in found or "all" in found]


def _check_use(flags, asked):
  """Refuses a flag that no table or figure of the run reads."""
  for flag, of_use in _OF_USE.items():
    if flags[flag].present and not asked & set(of_use):
      needs = " or ".join(f"--{name.replace(' ', '=')}" if " " in name else f"--table={name}" for name in of_use)
      raise ConfigError(f"--{flag} is of no use here: it needs {needs}")


def _check_files(flags):
  """Refuses outputs that cannot be written, and word frequencies that are not there."""
  for flag in ("results_page", "output_dir", "frequency_file", "corpus"):
    if flags[flag].value == "":
      raise ConfigError(f"--{flag} is empty; expected a path, or leave the flag out")
  for flag in ("frequency_file", "corpus"):
    path = flags[flag].value
    if path and not os.path.exists(os.path.expanduser(path)):
      raise ConfigError(f"--{flag}={path}: no such file")
  page = flags.results_page
  if page and (os.path.isdir(page) or not pathlib.Path(page).absolute().parent.is_dir()):
    raise ConfigError(f"--results_page={page}: expected a file in a folder that exists, such as RESULTS.md")


def _columns(tasks):
  found = [find_task(name.strip()).name for name in tasks]
  other = [task for task in found if task not in STS_TASKS]
  if other:
    raise ConfigError(
      f"--task={other[0]}: expected some of {', '.join(STS_TASKS)}, columns of Tables 2, 3 and transfer"
    )
  return tuple(task for task in STS_TASKS if task in found or not found)


def _corpora(names):
  """--transfer_corpus with "nli" in lower case."""
  found = tuple(NLI if name.strip().lower() == NLI else name for name in names)
  for name in found:
    if found.count(name) > 1:
      raise ConfigError(f"--transfer_corpus names {name} twice; expected each once")
    if name != NLI and not os.path.exists(os.path.expanduser(name)):
      raise ConfigError(f"--transfer_corpus={name}: expected nli, or a file of sentences that exists")
  return found


def _check_models(plan):
  """Every table needs an encoder that can give its rows; no two may have one name."""
  words = [name for name in plan.nli_models if name.startswith(PREFIX)]
  if words:
    raise ConfigError(f"--nli_model={words[0]}: word vectors are not fine-tuned; give it as --model")
  if plan.needs_models and not plan.models:
    raise ConfigError("--model is empty; expected one or more encoders, as in --model=base,large")
  berts = [name for name in plan.models if not name.startswith(PREFIX)]
  needing = [f"--table={name}" for name in plan.tables if name not in ("2", "3")]
  needing = [name for name in needing if not (plan.nli_models and name in ("--table=4", "--table=8"))]
  needing += [f"--figure={name}" for name in plan.figures]
  if needing and not berts:
    raise ConfigError(f"{needing[0]} needs a BERT, and --model={','.join(plan.models)} has word vectors alone")
  names = [*(plan.models if plan.needs_models else ()), *plan.nli_models]
  labels = [label_of(name) for name in names]
  twice = next((label for label in labels if labels.count(label) > 1), None)
  if twice:
    raise ConfigError(f"two of --model and --nli_model are called {twice!r}, expected each once: rename one's folder")
