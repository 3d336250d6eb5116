"""A search asks the index that it is told to, and finds what all cosines find."""

import numpy as np

from bert_flow_tf.vectors import search_embeddings
from bert_flow_tf.vectors.inverted_lists import AUTO, EXACT, IVF
from bert_flow_tf.vectors.search_choice import ExactSearch, search_of_embeddings, search_of_folder
from bert_flow_tf.vectors.sentence_index import SentenceIndex, index_vectors
from bert_flow_tf.vectors.unit_rows import checked_unit_rows
from bert_flow_tf.vectors.vector_folder import VectorFolder
from tests.vectors.toy_folder import embed, needs_faiss
from tests.vectors.toy_rows import embeddings


@needs_faiss
def test_a_folder_is_searched_as_it_is_told_to(tmp_path):
  """exact compares all vectors, also where an index is complete."""
  embed(tmp_path / "vectors")
  vectors = VectorFolder.open(str(tmp_path / "vectors"))
  assert isinstance(search_of_folder(vectors, AUTO, 1), ExactSearch)
  index_vectors(vectors.folder)
  expected = {EXACT: ExactSearch, IVF: SentenceIndex, AUTO: SentenceIndex}
  assert {index: type(search_of_folder(vectors, index, 1)) for index in expected} == expected


@needs_faiss
def test_both_find_the_nearest():
  corpus, queries = checked_unit_rows(embeddings(60)), embeddings(20, seed=1)
  expected = search_embeddings(queries, corpus, 4)
  for index in (EXACT, IVF):
    found = search_of_embeddings(corpus, index, 20).search(queries, 4)
    np.testing.assert_allclose(found.scores, expected.scores, atol=1e-6)
