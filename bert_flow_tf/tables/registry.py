"""The tables and figures of `run_table.py`: a new one is a function and a row here."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from bert_flow_tf.data.tasks import STS_TASKS
from bert_flow_tf.tables import analysis, beyond, similarity
from bert_flow_tf.tables.workbench import Made, Run, Workbench

BINARY_TASKS = ("QNLI", "MRPC")  # further columns of beyond and gains, unless some columns are chosen
STS_B = "STS-B"  # of Tables 5, 6 and 8, isotropy and all figures
# Encoders with rows in a table: all, all but word vectors, those with a BERT, those fine-tuned on NLI, BERTs and these,
# or these if any.
ALL, BERTS, TUNED, BERTS_AND_TUNED, TUNED_OR_BERTS = "all", "BERTs", "tuned", "BERTs and tuned", "tuned or BERTs"
NOT_WORDS = "not words"


@dataclasses.dataclass(frozen=True)
class Kind:
  """A table, before it is made."""

  make: Callable[[Run], Made]
  title: str = ""  # "": title and metric are those of the paper's table, whose rows follow ours
  metric: str = ""
  encoders: str = BERTS  # which encoders have rows, one of the above
  tasks: tuple[str, ...] | None = None  # tasks that are read; None for those of the argument `task`
  binary: bool = False  # whether BINARY_TASKS follow these, unless some are chosen
  uses: tuple[str, ...] = ()  # arguments of `Plan`, besides those that every table uses
  seeds: int = 1  # default number of seeds; 0 if nothing is random
  on_nli: bool = False  # whether a row is fitted on SNLI and MNLI
  without_best: tuple[str, ...] | None = ()  # columns without a best cell; None for all
  nearest_0: tuple[str, ...] = ()  # columns whose best cell is the nearest to 0

  def columns(self, chosen: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the names of its tasks if `chosen` is the argument `task`."""
    if self.tasks is not None:
      return self.tasks
    if self.binary and chosen == STS_TASKS:
      return chosen + BINARY_TASKS
    return chosen

  def benches(self, models: Sequence[Any], tuned: Sequence[Any]) -> list[Any]:
    """Returns the workbenches that have rows, of the plain ones and of those of encoders fine-tuned on NLI."""
    not_words = [bench for bench in models if not bench.words]
    berts = [bench for bench in not_words if not bench.saved_model]
    if self.encoders == BERTS_AND_TUNED:
      return berts + list(tuned)
    return list(
      {ALL: models, NOT_WORDS: not_words, BERTS: berts, TUNED: tuned, TUNED_OR_BERTS: tuned or berts}[self.encoders]
    )


TABLES = {
  "beyond": Kind(
    beyond.make_beyond,
    title="the paper's flow, other calibrations, and other embeddings",
    metric=beyond.METRIC,
    encoders=NOT_WORDS,
    binary=True,
    uses=("task", "frequency_corpus", "num_seeds", "corpus"),
  ),
  "gains": Kind(
    beyond.make_gains,
    title="differences between rows of table beyond, with 95 % intervals",
    metric=beyond.METRIC,
    binary=True,
    uses=("task", "frequency_corpus", "num_seeds"),
    without_best=None,
  ),
  "ablation": Kind(
    beyond.make_ablation,
    title="from whitening to the recipe, and away from it",
    metric=beyond.METRIC,
    uses=("task", "frequency_corpus"),
  ),
  "1": Kind(analysis.make_words, tasks=(), uses=("frequency_file", "corpus"), seeds=0, without_best=None),
  "2": Kind(similarity.make_similarity, encoders=ALL, uses=("task", "calibration", "num_seeds"), on_nli=True),
  "3": Kind(
    similarity.make_similarity,
    encoders=TUNED,
    uses=("task", "nli_model", "calibration", "num_seeds"),
    on_nli=True,
  ),
  "4": Kind(
    similarity.make_qnli, encoders=BERTS_AND_TUNED, tasks=("QNLI",), uses=("nli_model", "num_seeds"), on_nli=True
  ),
  "5": Kind(similarity.make_calibrations, tasks=(STS_B,), uses=("calibration", "num_seeds")),
  "6": Kind(analysis.make_lexical, tasks=(STS_B,), uses=("edit_unit", "num_seeds"), without_best=("edit distance",)),
  "8": Kind(
    similarity.make_seeds,
    encoders=TUNED_OR_BERTS,
    tasks=(STS_B,),
    uses=("nli_model", "num_seeds"),
    seeds=5,
    without_best=("standard deviation",),
  ),
  "isotropy": Kind(
    analysis.make_isotropy,
    title=f"how evenly the embeddings of {STS_B}'s test sentences fill their space",
    metric="IsoScore (Rudman et al. 2022): 100 is isotropic, 0 is a single direction",
    tasks=(STS_B,),
    uses=("calibration", "num_seeds"),
    nearest_0=analysis.ISOTROPY_COLUMNS[1:],
  ),
  "transfer": Kind(
    similarity.make_transfer,
    title="does a flow fitted on the sentences of one set help on another?",
    metric=f"Spearman x 100 of {similarity.FIRST_LAST}",
    uses=("task", "transfer_corpus", "num_seeds"),
  ),
}
# {name: (function of a run and an encoder that draws it, arguments that it uses)}; all are of STS-B and of BERTs.
FIGURES: dict[str, tuple[Callable[[Run, Workbench], Any], tuple[str, ...]]] = {
  "2": (analysis.draw_edit_distances, ("edit_unit",)),
  "isotropy": (analysis.draw_spectra, ("calibration",)),
  "cone": (analysis.draw_cone, ()),
}


def users_of(argument: str) -> list[str]:
  """Returns the tables, and figures as "figure NAME", that use an argument; [] for arguments that all of them use."""
  users = []
  for name, kind in TABLES.items():
    if argument in kind.uses:
      users.append(name)
  for name, (_, uses) in FIGURES.items():
    if argument in uses:
      users.append(f"figure {name}")
  return users
