"""Rows of the tables beyond the paper: calibrations of other embeddings, their gains, and the best one in steps."""

import dataclasses

from bert_flow_tf.data.flow_corpus import TARGET
from bert_flow_tf.tables.plan import ABLATION, BEYOND, GAINS
from bert_flow_tf.tables.similarity_tables import AVG, FIRST_LAST
from bert_flow_tf.tables.terms import note
from bert_flow_tf.tables.workbench import NONE

UNIFORM, IDF = "uniform", "idf"
_SOFT, AUTO = "soft-whitening", "auto"


@dataclasses.dataclass(frozen=True)
class Line:
  """Method of a row.

  Attributes:
    embedding: a `sentence_embedding_type`.
    calibration: name of a calibration, "none" for the embeddings themselves.
    token_weights: the encoder's `token_weights`.
    static: whether the encoder is its BERT's word embeddings alone.
    prefix: beginning of its name in the tables.
  """

  embedding: str
  calibration: str = NONE
  token_weights: str = UNIFORM
  static: bool = False
  prefix: str = ""

  @property
  def name(self) -> str:
    """Name in the tables: "recipe: mix, idf, soft-whitening"."""
    parts = (self.embedding, self.token_weights, self.calibration)
    return self.prefix + ", ".join(part for part in parts if part not in (UNIFORM, NONE))


WHITENING, FLOW = Line(FIRST_LAST, "whitening"), Line(FIRST_LAST, "flow")
RECIPE = Line("mix", _SOFT, IDF, prefix="recipe: ")
LINES = (
  Line(AVG),
  Line(FIRST_LAST),
  FLOW,
  WHITENING,
  Line(FIRST_LAST, _SOFT),
  RECIPE,
  Line("mix", "whitening", IDF),
  Line("mix", "flow", IDF),
  Line("mix", f"flow+{_SOFT}", IDF),
  Line("word-rows", _SOFT, IDF, static=True, prefix="static: "),
  Line("mix", AUTO, IDF),
)
ABLATION_LINES = (
  WHITENING,
  Line(FIRST_LAST, _SOFT),
  Line(FIRST_LAST, "whitening", IDF),
  Line(FIRST_LAST, _SOFT, IDF),
  Line(AVG, _SOFT, IDF),
  Line("word-rows", _SOFT, IDF),
  Line("mix-0.5", _SOFT, IDF),
  RECIPE,
  Line("mix-0.8", _SOFT, IDF),
  Line("mix", _SOFT, "idf-1"),
  Line("mix", _SOFT),
  Line("mix", "whitening", IDF),
  Line("mix", "soft-whitening-0.3", IDF),
  Line("mix", "soft-whitening-0.4", IDF),
)
TITLES = {
  BEYOND: "the paper's flow, other calibrations, and other embeddings",
  GAINS: "differences between rows of table beyond, with 95 % intervals",
  ABLATION: "from whitening to the recipe, and away from it",
}
METRIC = "Spearman x 100 (STS-12 to STS-16: mean over the subsets, weighted by their numbers of pairs)"
BINARY_METRIC = "; AUC x 100 of QNLI and MRPC"
NOTES = {
  BEYOND: tuple(map(note, ("(target)", "(all sets)", "mix", "idf", "static", "▲, ▼"))),
  GAINS: (
    note("[low, high]"),
    note("▲, ▼"),
    "The mean has no interval: some pairs of STS-B are pairs of STS-12 to STS-16 too.",
  ),
  ABLATION: ("All rows are fitted on all sentences of the evaluated set, without gold scores.",),
}
NOT_RUN = (
  "The paper's encoders, `base` and `large`, were not run here. With them: `python run_scripts/run_table.py "
  "--table=beyond,gains,ablation --model=base,large --num_seeds=3 --seed=0 --data_dir=DATA`."
)


def jobs(name: str, all_sets: str) -> list[tuple[Line, str, Line | None]]:
  """Returns method, corpus, and the method that it is compared with, of each row."""
  if name == ABLATION:
    return [(line, TARGET, None) for line in ABLATION_LINES]
  fitted = [line for line in LINES if line.calibration != NONE]
  if name == BEYOND:
    return [*((line, TARGET, None) for line in LINES), *((line, all_sets, None) for line in fitted)]
  pairs = [(line, over) for over in (WHITENING, FLOW) for line in fitted if line != over]
  pairs = [(line, over) for line, over in pairs if over != FLOW or "flow" in line.calibration]
  return [(line, corpus, over) for corpus in (TARGET, all_sets) for line, over in pairs]


def row_name(line: Line, corpus: str, over: Line | None) -> str:
  """Returns the name of a row, without its encoder."""
  fitted = "" if line.calibration == NONE else fitted_on(corpus)
  return f"{line.name}{f' over {over.name}' if over else ''}{fitted}"


def fitted_on(corpus: str) -> str:
  """Returns the end of the name of a row that is fitted on a corpus."""
  return " (target)" if corpus == TARGET else " (all sets)"
