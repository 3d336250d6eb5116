"""The recipe of a table's row: an embedding, its calibration and the sentences that it is fitted on."""

import dataclasses
from collections.abc import Sequence
from typing import TypeVar

from bert_flow_tf.calibration.names import FLOW
from bert_flow_tf.data.flow_corpus import TARGET
from bert_flow_tf.evaluation.controls import CHARACTERS, TF_IDF

PerSeed = TypeVar("PerSeed")

NONE = "none"
CONTROLS = (TF_IDF, CHARACTERS)
UNIFORM = "uniform"


@dataclasses.dataclass(frozen=True)
class RowRecipe:
  """RowRecipe of a row."""

  embedding: str  # a `sentence_embedding_type`, or one of `CONTROLS`
  calibration: str = NONE  # canonical name; NONE for the embeddings themselves
  corpus: str = TARGET  # sentences that it is fitted on: "target", "nli", a file, or `inputs.target_of([TASK, ...])`
  token_weights: str = UNIFORM  # the encoder's; UNIFORM for the encoder as the run loads it
  static: bool = False  # whether the encoder is its BERT's word embeddings alone
  precision: str = ""  # the encoder's; "" for that of the run
  engine: str = ""  # the encoder's; "" for that of the run

  def __str__(self) -> str:
    parts = [self.embedding]
    if self.token_weights != UNIFORM:
      parts.append(self.token_weights)
    if self.calibration != NONE:
      parts.append(f"{self.calibration} ({self.corpus})")
    parts += filter(None, (self.precision, self.engine))
    return ", ".join(parts)

  @property
  def has_characters(self) -> bool:
    """True if characters are a part of the calibration."""
    return self.calibration.split("+")[-1].startswith(CHARACTERS)

  @property
  def is_random(self) -> bool:
    """True if the seed changes the result."""
    return FLOW in self.calibration.split("+")

  def seeds(self, seeds: Sequence[PerSeed]) -> Sequence[PerSeed]:
    """Returns all seeds (or values per seed) if the recipe is random, else the first."""
    if self.is_random:
      return seeds
    return seeds[:1]
