"""Process that calls a model's adapter as sentence-transformers or mteb does, and writes their results as JSON."""

import json
import pathlib
import sys

import sentence_transformers  # before TensorFlow: it imports Triton
from datasets import Dataset, DatasetDict
from sentence_transformers import util
from sentence_transformers.sentence_transformer import evaluation

from bert_flow_tf import evaluate_retrieval
from bert_flow_tf.integrations.sentence_transformers import SentenceTransformersAdapter
from bert_flow_tf.model import SentenceModel
from tests.integrations.evaluators_test import LABELS, SCORES, THRESHOLD, A, B


def evaluate(adapter):
  """Returns {evaluator: its scores}."""
  queries, corpus, every = ({str(n): text for n, text in enumerate(texts)} for texts in (A, B, A + B))
  following = [*B[1:], B[0]]
  samples = []
  for query, *positives in zip(A, B, following, strict=True):
    samples.append({"query": query, "positive": positives, "negative": [text for text in B if text not in positives]})
  inputs = {
    "EmbeddingSimilarityEvaluator": (A, B, SCORES),
    "BinaryClassificationEvaluator": (A, B, LABELS),
    "InformationRetrievalEvaluator": (queries, corpus, {number: {number} for number in queries}),
    "ParaphraseMiningEvaluator": (every, [(str(number), str(number + 6)) for number in range(6)]),
    "RerankingEvaluator": (samples,),
    "TripletEvaluator": (A, B, following),
    "TranslationEvaluator": (A, B),
    "MSEEvaluator": (A, B, adapter),
  }
  scores = {}
  for name, arguments in inputs.items():
    scores[name] = getattr(evaluation, name)(*arguments, write_csv=False)(adapter)
  assert [metrics for _, metrics in adapter.model_card_data.metrics] == list(scores.values())
  return scores


def call_utilities(adapter, folder):
  """Returns {utility: its result}."""
  results = {}
  arrays, tensors = ([adapter.encode(texts, convert_to_tensor=is_tensor) for texts in (A, B)] for is_tensor in (0, 1))
  for name, rows, options in (
    ("semantic_search", arrays, {}),
    ("semantic_search of arrays", arrays, {"score_function": adapter.similarity}),
    ("semantic_search of tensors", tensors, {"score_function": adapter.similarity}),
  ):
    results[name] = [[hit["corpus_id"] for hit in hits] for hits in util.semantic_search(*rows, **options)]
  results["paraphrase_mining"] = util.paraphrase_mining(adapter, A + B)
  rows = adapter.encode(A + B, convert_to_tensor=True)
  results["community_detection"] = util.community_detection(rows, THRESHOLD, min_community_size=1)
  pairs, options = Dataset.from_dict({"anchor": A, "positive": B}), {"num_negatives": 1, "verbose": False}
  mined = [util.mine_hard_negatives(pairs, adapter, cache_folder=f"{folder}/mined", **options) for _ in range(2)]
  results["mine_hard_negatives"] = [dataset.to_dict() for dataset in mined]
  results["similarity_fct_name"] = sentence_transformers.util.misc.similarity_fct_name(adapter.similarity)
  return results


def call_sentence_transformers(adapter, folder):
  return evaluate(adapter) | call_utilities(adapter, folder)


def call_mteb(adapter, folder):
  """Returns the results of mteb's own small tasks, and of a task of our pairs."""
  import mteb
  from mteb.abstasks.sts import AbsTaskSTS
  from mteb.abstasks.task_metadata import TaskMetadata
  from mteb.models import CachedEmbeddingWrapper, EncoderProtocol

  about = {field: None for field, value in TaskMetadata.model_fields.items() if not value.is_required()}
  about = dict.fromkeys(
    about.keys() & {"date", "domains", "task_subtypes", "license", "annotations_creators", "dialect"}
  )

  class Pairs(AbsTaskSTS):
    metadata = TaskMetadata(
      **about,
      name="Pairs",
      description="pairs of this test",
      dataset={"path": "none/none", "revision": "none"},
      type="STS",
      category="t2t",
      modalities=["text"],
      eval_splits=["test"],
      eval_langs=["eng-Latn"],
      main_score="cosine_spearman",
    )

    def load_data(self, **unused):
      self.dataset = DatasetDict(test=Dataset.from_dict({"sentence1": A, "sentence2": B, "score": SCORES}))
      self.data_loaded = True

  def scores(model, cache=None):
    return mteb.evaluate(model, [Pairs()], cache=cache, show_progress_bar=False).task_results[0].scores["test"][0]

  assert isinstance(adapter, EncoderProtocol)
  cache = mteb.ResultCache(f"{folder}/mteb")
  results = {"STS": scores(adapter, cache)}
  root = pathlib.Path(folder, "mteb", "results")
  results["results of"] = sorted({str(path.parent.relative_to(root)) for path in root.rglob("Pairs.json")})
  results["STS from cached embeddings"] = [scores(CachedEmbeddingWrapper(adapter, f"{folder}/e")) for _ in range(2)][1]
  results["retrieval"] = retrieval(folder, about)
  results["mock tasks"] = {}
  for name, status in mteb.mock_run(adapter).items():
    if status is not None:  # None: of images and sound
      results["mock tasks"][name] = getattr(status, "exception", "passed")
  return results


def retrieval(folder, about):
  """Returns nDCG@10 of a search by mteb, by `evaluate_retrieval`, and of a model that does not know roles."""
  import mteb
  from mteb.abstasks.retrieval import AbsTaskRetrieval
  from mteb.abstasks.task_metadata import TaskMetadata

  texts = [("Queries", A, "q"), ("Corpus", B, "d")]
  queries, corpus = ({f"{prefix}{row}": text for row, text in enumerate(side)} for _, side, prefix in texts)
  qrels = {f"q{row}": {f"d{row}": 1, f"d{(row + 2) % 6}": 2} for row in range(6)}

  class Search(AbsTaskRetrieval):
    metadata = TaskMetadata(
      **about,
      name="Search",
      description="a search of this test",
      dataset={"path": "none/none", "revision": "none"},
      type="Retrieval",
      category="t2t",
      modalities=["text"],
      eval_splits=["test"],
      eval_langs=["eng-Latn"],
      main_score="ndcg_at_10",
    )

    def load_data(self, **unused):
      rows = {}
      for name, texts in (("corpus", corpus), ("queries", queries)):
        rows[name] = Dataset.from_list([{"id": number, "text": text} for number, text in texts.items()])
      self.dataset = {"default": {"test": {**rows, "relevant_docs": qrels, "top_ranked": None}}}
      self.data_loaded = True

  model = SentenceModel.from_pretrained(f"{folder}/tiny", query_prompt="cats ").fit(B, "whitening-3", queries=A)

  class WithoutRoles:
    encode = model.encode

  (found,) = mteb.evaluate(
    SentenceTransformersAdapter(model), [Search()], cache=None, show_progress_bar=False
  ).task_results
  ours = [100 * found.scores["test"][0]["ndcg_at_10"]]
  return ours + [evaluate_retrieval(each, corpus, queries, qrels).mean["ndcg@10"] for each in (model, WithoutRoles())]


if __name__ == "__main__":
  program, path = sys.argv[1:]
  model = SentenceTransformersAdapter(SentenceModel.load(f"{path}/model"))
  programs = {"sentence_transformers": call_sentence_transformers, "mteb": call_mteb}
  found = programs[program](model, path)
  pathlib.Path(path, f"{program}.json").write_text(json.dumps(found, default=float))
