"""Controls of every score: string matches of two sentences, which need no weight of an encoder."""

from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np

from bert_flow_tf.data.pairs import Texts, check_pairs
from bert_flow_tf.data.task import TaskData
from bert_flow_tf.evaluation.metrics import tied_at_1

# Names of the string matches in results.json and tables: of whole word pieces, of their n-grams, and of a search.
TF_IDF, CHARACTERS, BM25 = "tf-idf of word pieces", "characters", "BM25"
# End of the name of a method of a search whose ranks and those of BM25 are one list.
WITH_BM25 = f"+{BM25}"


class Tokenizer(Protocol):
  """Tokenizer, as `SentenceTokenizer`."""

  def __call__(self, sentences: Iterable[str], max_seq_length: int, warn: bool) -> list[np.ndarray]:
    """Returns the token ids of n sentences, int32 arrays [seq_len]."""


class PieceTable(Protocol):
  """Weights of word pieces and of their n-grams, as `CharacterTable`."""

  @property
  def whole_pieces(self) -> "PieceTable":
    """The table without n-grams."""

  def cosines(self, ids_a: Sequence[np.ndarray], ids_b: Sequence[np.ndarray]) -> np.ndarray:
    """Returns the cosines of n pairs of token ids, float64 [n]."""


class Tokenized(Protocol):
  """Encoder with word pieces, as `SentenceEncoder`."""

  @property
  def has_tokens(self) -> bool:
    """True if it has word pieces."""

  @property
  def tokenizer(self) -> Tokenizer:
    """Its tokenizer."""

  def with_prompt(self, prompt: str) -> "Tokenized":
    """Returns an encoder that puts another text before each sentence; "" for none."""

  @property
  def characters(self) -> PieceTable:
    """The table of the tokenizer's word pieces."""


def string_matches(encoder: Tokenized, texts_a: Texts, texts_b: Texts, max_seq_length: int) -> dict[str, np.ndarray]:
  """Returns cosines of n pairs by string matches of an encoder's word pieces: {`TF_IDF`, `CHARACTERS`: float64 [n]}.

  Identical sentences tie at 1, or at 0 if no word piece has a weight.
  """
  first, second = check_pairs(texts_a, texts_b)
  tokenize = encoder.with_prompt("").tokenizer  # a prompt is no word that two sentences share
  ids = [tokenize(texts, max_seq_length, warn=False) for texts in (first, second)]
  tables = {TF_IDF: encoder.characters.whole_pieces, CHARACTERS: encoder.characters}
  return {name: tied_at_1(table.cosines(*ids)) for name, table in tables.items()}


def task_controls(encoder: Tokenized, task: TaskData, max_seq_length: int) -> dict[str, np.ndarray]:
  """Returns `string_matches` of the evaluated split of a task; {} without gold or word pieces."""
  if task.spec.eval_split is None or not encoder.has_tokens:
    return {}
  pairs = task.splits[task.spec.eval_split]
  return string_matches(encoder, pairs.sentences_a, pairs.sentences_b, max_seq_length)
