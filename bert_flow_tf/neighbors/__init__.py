"""Neighbors and near-duplicates by cosine: of all pairs, in blocks, or by an index; without TensorFlow.

Files in reading order:

    unit_rows       rows of length 1, of arrays in memory or in files, and their nearest rows
    nearest         search: the nearest texts of queries
    paraphrases     the most similar pairs of a corpus
    inverted_lists  the index, by FAISS
    unrelated       cosines of unrelated rows, which a threshold must exceed
    duplicates      near-duplicates, with and without an index
"""

from bert_flow_tf.neighbors.duplicates import Duplicates, find_duplicates, near_duplicates
from bert_flow_tf.neighbors.nearest import rows_with_text, search, search_embeddings
from bert_flow_tf.neighbors.paraphrases import paraphrase_mining, paraphrase_mining_embeddings
from bert_flow_tf.neighbors.unit_rows import Neighbors

__all__ = [
  "Duplicates",
  "Neighbors",
  "find_duplicates",
  "near_duplicates",
  "paraphrase_mining",
  "paraphrase_mining_embeddings",
  "rows_with_text",
  "search",
  "search_embeddings",
]
