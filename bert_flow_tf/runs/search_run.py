"""Evaluation of models by the judged queries of a folder, beside BM25."""

from collections.abc import Mapping

from bert_flow_tf.data.beir import RetrievalTask
from bert_flow_tf.encoder.checkpoints.declared import DOCUMENT, QUERY
from bert_flow_tf.encoder.embeddings import Embeddings
from bert_flow_tf.evaluation.controls import BM25, WITH_BM25
from bert_flow_tf.evaluation.retrieval import JudgedSearch
from bert_flow_tf.evaluation.task_scores import WITHOUT_FLOW
from bert_flow_tf.io.experiment import Stopwatch
from bert_flow_tf.model import SentenceModel
from bert_flow_tf.report.record import TaskRecord, retrieval_record
from bert_flow_tf.vectors.bm25 import has_bm25s
from bert_flow_tf.vectors.nearest import log_apart, search_embeddings
from bert_flow_tf.vectors.retrieval import Bm25Search


def search_record(
  task: RetrievalTask,
  models: Mapping[str, SentenceModel],
  embeddings: Embeddings,
  watch: Stopwatch,
  batch_size: int = 64,
) -> TaskRecord:
  """Returns the record of {method: model}, and if bm25s is installed, of BM25 and of each model with it.

  Args:
    task: the search.
    models: models of documents, of one encoder.
    embeddings: of the documents.
    watch: gets the seconds.
    batch_size: see `SentenceModel.encode`.
  """
  judged = JudgedSearch(task.documents, task.queries, task.qrels, task.ignore_identical_ids)
  with watch.timing("embedding"):
    queries = models[WITHOUT_FLOW].encode_query(judged.queries, batch_size, calibrated=False)
  rankings, with_bm25 = {}, {}
  with watch.timing("evaluating"):
    documents = embeddings.of(judged.documents)
    bm25 = Bm25Search(judged) if has_bm25s() else None  # the report says that it is not installed
    for method, model in models.items():
      of_queries = model.transform(queries, judged.queries, prompt_type=QUERY)
      log_apart(model, of_queries)
      of_documents = model.transform(documents, judged.documents, prompt_type=DOCUMENT)
      near = search_embeddings(of_queries, of_documents, judged.depth)
      rankings[method] = judged.ranking(near.rows, near.scores)
      if bm25 is not None:
        with_bm25[f"{method}{WITH_BM25}"] = bm25.ranking_with(near)
    if bm25 is not None:
      rankings |= {BM25: bm25.ranking, **with_bm25}
    scored = {method: judged.measure(ranking) for method, ranking in rankings.items()}
    return retrieval_record(task, scored, rankings)
