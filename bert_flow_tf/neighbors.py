"""The former name of `bert_flow_tf.vectors`."""

import sys

from bert_flow_tf.errors import deprecated
from bert_flow_tf.vectors import (
  Neighbors,
  duplicates,
  near_duplicates,
  nearest,
  paraphrase_mining,
  paraphrase_mining_embeddings,
  paraphrases,
  rows_with_text,
  search,
  search_embeddings,
)

__all__ = [
  "Neighbors",
  "near_duplicates",
  "paraphrase_mining",
  "paraphrase_mining_embeddings",
  "rows_with_text",
  "search",
  "search_embeddings",
]

deprecated(__name__, since="0.3", use="bert_flow_tf.vectors")
for module in (duplicates, nearest, paraphrases):
  sys.modules[module.__name__.replace("vectors", "neighbors")] = module
