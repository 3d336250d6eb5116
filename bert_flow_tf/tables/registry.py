"""The tables and figures of `bert-flow table`: a new one is a `ScoreTable`, or a function, and a row here."""

import dataclasses
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol, TypeVar

from bert_flow_tf.data.tasks import STS_TASKS
from bert_flow_tf.tables import analysis, beyond, choice, similarity
from bert_flow_tf.tables.kinds import EncoderKind
from bert_flow_tf.tables.request import TableContent, TableRequest
from bert_flow_tf.tables.workbench import Workbench

if TYPE_CHECKING:
  from matplotlib.figure import Figure

BINARY_TASKS = ("QNLI", "MRPC")  # further columns of beyond and gains, unless the argument `task` is given
STS_B = "STS-B"  # of Tables 5, 6 and 8, isotropy and all figures
_NOT_TUNED = frozenset(set(EncoderKind) - {EncoderKind.TUNED})
_BERTS = frozenset([EncoderKind.BERT])
_BERTS_AND_TUNED = frozenset([EncoderKind.BERT, EncoderKind.TUNED])


class HasKind(Protocol):
  """Encoder, or its name, of a known kind."""

  @property
  def kind(self) -> EncoderKind:
    """EncoderKind of the encoder."""


Selected = TypeVar("Selected", bound=HasKind)


@dataclasses.dataclass(frozen=True)
class TableSpec:
  """A table: the function that makes it, its title, its encoders and tasks, and its best cells."""

  make: Callable[[TableRequest], TableContent]
  title: str = ""  # "": title and metric of the paper's table, whose rows follow ours
  metric: str = ""
  encoders: frozenset[EncoderKind] = _BERTS  # kinds of encoders that have rows
  prefers_tuned: bool = False  # whether encoders that were fine-tuned on NLI, if any, are the only ones
  tasks: tuple[str, ...] | None = None  # tasks that are read; None for the argument `task`
  binary: bool = False  # whether BINARY_TASKS follow these, unless the argument `task` is given
  uses: tuple[str, ...] = ()  # arguments of `Plan`, besides those that every table uses
  seeds: int = 1  # default number of seeds; 0 if nothing is random
  on_nli: bool = False  # whether a row is fitted on SNLI and MNLI
  unranked_columns: tuple[str, ...] | None = ()  # columns without a best cell; None for all
  columns_best_near_zero: tuple[str, ...] = ()  # columns whose best cell is the nearest to 0

  def columns(self, requested: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the names of its tasks if `requested` is the argument `task`."""
    if self.tasks is not None:
      return self.tasks
    if self.binary and requested == STS_TASKS:
      return requested + BINARY_TASKS
    return requested

  def select(self, encoders: Iterable[Selected]) -> list[Selected]:
    """Returns the encoders that have rows; each has a `kind`."""
    selected = [encoder for encoder in encoders if encoder.kind in self.encoders]
    tuned = [encoder for encoder in selected if encoder.kind is EncoderKind.TUNED]
    if self.prefers_tuned and tuned:
      return tuned
    return selected


TABLES = {
  "beyond": TableSpec(
    beyond.BEYOND.make,
    title="the paper's flow, other calibrations, and other embeddings",
    metric=beyond.METRIC,
    encoders=_NOT_TUNED - {EncoderKind.WORDS},
    binary=True,
    uses=("task", "frequency_corpus", "num_seeds", "corpus"),
  ),
  "gains": TableSpec(
    beyond.make_gains,
    title="differences between rows of table beyond, with 95 % intervals",
    metric=beyond.METRIC,
    binary=True,
    uses=("task", "frequency_corpus", "num_seeds", "corpus"),
    unranked_columns=None,
  ),
  "ablation": TableSpec(
    beyond.ABLATION.make,
    title="from whitening to the recipe, and away from it",
    metric=beyond.METRIC,
    uses=("task", "frequency_corpus"),
  ),
  "choice": TableSpec(
    choice.make_choice,
    title="settings that are chosen on other sets than the one that they are evaluated on",
    metric=beyond.METRIC,
    uses=("task", "frequency_corpus"),
  ),
  "1": TableSpec(
    analysis.make_words,
    encoders=_BERTS | {EncoderKind.STATIC},
    tasks=(),
    uses=("frequency_file", "corpus"),
    seeds=0,
    unranked_columns=None,
  ),
  "2": TableSpec(
    similarity.SIMILARITY.make, encoders=_NOT_TUNED, uses=("task", "calibration", "num_seeds"), on_nli=True
  ),
  "3": TableSpec(
    similarity.SIMILARITY.make,
    encoders=frozenset([EncoderKind.TUNED]),
    uses=("task", "nli_model", "calibration", "num_seeds"),
    on_nli=True,
  ),
  "4": TableSpec(
    similarity.QNLI.make, encoders=_BERTS_AND_TUNED, tasks=("QNLI",), uses=("nli_model", "num_seeds"), on_nli=True
  ),
  "5": TableSpec(similarity.CALIBRATIONS.make, tasks=(STS_B,), uses=("calibration", "num_seeds")),
  "6": TableSpec(
    analysis.make_lexical, tasks=(STS_B,), uses=("edit_unit", "num_seeds"), unranked_columns=("edit distance",)
  ),
  "8": TableSpec(
    similarity.make_seeds,
    encoders=_BERTS_AND_TUNED,
    prefers_tuned=True,
    tasks=(STS_B,),
    uses=("nli_model", "num_seeds"),
    seeds=5,
    unranked_columns=("standard deviation",),
  ),
  "isotropy": TableSpec(
    analysis.make_isotropy,
    title=f"how evenly the embeddings of {STS_B}'s test sentences fill their space",
    metric="IsoScore (Rudman et al. 2022): 100 is isotropic, 0 is a single direction",
    tasks=(STS_B,),
    uses=("calibration", "num_seeds"),
    columns_best_near_zero=analysis.ISOTROPY_COLUMNS[1:],
  ),
  "transfer": TableSpec(
    similarity.TRANSFER.make,
    title="does a flow fitted on the sentences of one set help on another?",
    metric=f"Spearman x 100 of {similarity.FIRST_LAST}",
    uses=("task", "transfer_corpus", "num_seeds"),
  ),
}
# {name: (function of a run and an encoder that draws it, arguments that it uses)}; all are of STS-B and of BERTs.
FIGURES: dict[str, tuple[Callable[[TableRequest, Workbench], "Figure"], tuple[str, ...]]] = {
  "2": (analysis.draw_edit_distances, ("edit_unit",)),
  "isotropy": (analysis.draw_spectra, ("calibration",)),
  "cone": (analysis.draw_cone, ()),
}


def users_of(argument: str) -> list[str]:
  """Returns the tables, and figures as "figure NAME", that use an argument; [] for arguments that all of them use."""
  users = []
  for name, table in TABLES.items():
    if argument in table.uses:
      users.append(name)
  for name, (_, uses) in FIGURES.items():
    if argument in uses:
      users.append(f"figure {name}")
  return users
