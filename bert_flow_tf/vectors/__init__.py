"""Vectors in memory and in files: nearest ones, near-duplicates, an index, their model, their calibration.

Files in reading order:

    unit_rows         rows of length 1, of arrays in memory or in files, and their nearest rows
    nearest           search: the nearest texts of queries
    retrieval         a search for judged queries, by a model and by BM25
    paraphrases       the most similar pairs of a corpus
    unrelated         cosines of unrelated rows, which a threshold must exceed
    inverted_lists    lists of FAISS, by which a part of the rows is compared
    unread_keys       keys of numbers and of what an encoder does not read, which near-duplicates share
    kept_rows         rows compared with the rows that are kept before them
    shards            the files of a shard: names, formats, receipts
    vector_file       a file of vectors with ids, of a shard or of any program
    manifest          what a folder says about its vectors and their model
    vector_folder     a folder of shards, or of several such folders
    duplicates        near-duplicates, the rows or texts that are dropped for another
    model_of_vectors  the model that embedded vectors
    sentence_index    an index of vectors by inverted lists, in memory or beside a folder
    index_folder      the files of such an index
    search_choice     whether a search compares every pair or asks an index
    calibrate_files   calibrations that are fitted on, and applied to, files of vectors
"""

from bert_flow_tf.vectors.duplicates import Duplicates, find_duplicates, near_duplicates
from bert_flow_tf.vectors.nearest import rows_with_text, search, search_embeddings
from bert_flow_tf.vectors.paraphrases import paraphrase_mining, paraphrase_mining_embeddings
from bert_flow_tf.vectors.unit_rows import Neighbors

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
