"""Prints the tables of docs/retrieval.md: nDCG@10 x 100 of an encoder's searches, calibrated in many ways, beside BM25.

python -m tools.retrieval_tables DATA MODEL [TEXT]

DATA has QNLI, MRPC, STS and SICK as in docs/data.md, of which exp/retrieval/NAME becomes a folder in BEIR's layout.
TEXT is a file of other sentences, one per line, of which a calibration is fitted, too. Embeddings are kept in
exp/retrieval/cache, so that a run that was stopped goes on. MODEL is cut at 128 tokens.

QNLI: its questions search for their sentences among those of dev and test. The other sets: the first sentence of each
paraphrase searches for the second; the sentence itself, whose document has the query's id, is left out.
"""

import csv
import dataclasses
import functools
import gzip
import json
import pathlib
import sys
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from bert_flow_tf import SentenceModel, fit_calibration
from bert_flow_tf.calibration.recipes import RECIPES
from bert_flow_tf.data.beir import RetrievalTask, load_beir
from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.data.tasks import load_task
from bert_flow_tf.evaluation.bootstrap import bootstrap_mean_gain
from bert_flow_tf.evaluation.metrics import normalized

_FOLDER = pathlib.Path("exp/retrieval")
QUESTIONS, PARAPHRASES = "QNLI", ("MRPC", "STS-B", "SICK")
_POWERS = tuple(f"soft-whitening-0.{digit}" for digit in range(1, 5))  # from nearly none to nearly whitening, 0.5
_CALIBRATIONS = ("mean", *_POWERS, "whitening", "soft-whitening", "tempered-whitening", "flow")
_RECIPES = ("recommended", "fast")
_QUERIES, _SENTENCES, _FOREIGN = (64, 512), (512, 2000), 20_000
_FEW_QUERIES, _FEW_SEEDS = (1, 3, 8, 16, 32, 64), range(5)
_RANK_CONSTANT = 60  # of reciprocal rank fusion: Cormack, Clarke and Büttcher 2009
Pairs = Sequence[tuple[str, str]]


def write_beir_folders(data_dir: str) -> None:
  """Writes a folder in BEIR's layout for each set that does not have one yet."""
  for name, (sentences, pairs) in {QUESTIONS: _questions(data_dir), **dict(_paraphrases(data_dir))}.items():
    if not (_FOLDER / name / "qrels").exists():
      _write_folder(_FOLDER / name, sentences, pairs, name == QUESTIONS)


def _rows(path: pathlib.Path) -> list[dict[str, str]]:
  with path.open(encoding="utf-8-sig", newline="") as file:
    return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def _questions(data_dir: str) -> tuple[list[str], Pairs]:
  """Returns the distinct sentences of QNLI's dev and test, and (question, its sentence) of dev."""
  dev, test = (_rows(pathlib.Path(data_dir) / QUESTIONS / f"{split}.tsv") for split in ("dev", "test"))
  sentences = [row["sentence"] for row in dev + test]
  return sentences, [(row["question"], row["sentence"]) for row in dev if row["label"] == "entailment"]


def _paraphrases(data_dir: str) -> Iterator[tuple[str, tuple[list[str], Pairs]]]:
  """Yields (set, (its sentences, its paraphrases)): MRPC's train and test, test pairs of STS-B and SICK from 4 on."""
  mrpc = [row for split in ("train", "test") for row in _rows(pathlib.Path(data_dir) / f"MRPC/msr-para-{split}.tsv")]
  scored = {"MRPC": [(row["#1 String"], row["#2 String"], float(row["Quality"])) for row in mrpc]}
  for name, task in (("STS-B", "STS-B"), ("SICK", "SICK-R")):
    pairs = load_task(task, data_dir).split("test")
    scored[name] = list(zip(pairs.sentences_a, pairs.sentences_b, pairs.scores, strict=True))
  for name, triples in scored.items():
    lowest = 1.0 if name == "MRPC" else 4.0
    sentences = [sentence for first, second, _ in triples for sentence in (first, second)]
    yield name, (sentences, [(first, second) for first, second, score in triples if score >= lowest])


def _write_folder(folder: pathlib.Path, sentences: Iterable[str], pairs: Pairs, asks: bool) -> None:
  """Writes documents, queries and judgments; a query that is a sentence has the id of its document."""
  ids = {sentence: f"d{number}" for number, sentence in enumerate(dict.fromkeys(sentences))}
  queries = dict(ids)
  if asks:
    queries = {
      question: f"q{number}" for number, question in enumerate(dict.fromkeys(question for question, _ in pairs))
    }
  lines = [f"{queries[query]}\t{ids[document]}\t1\n" for query, document in dict.fromkeys(pairs)]
  asked = dict.fromkeys(query for query, _ in pairs)
  folder.mkdir(parents=True, exist_ok=True)
  _write_texts(folder / "corpus.jsonl", ids)
  _write_texts(folder / "queries.jsonl", {query: queries[query] for query in asked})
  (folder / "qrels").mkdir()
  (folder / "qrels/test.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(lines), encoding="utf-8")


def _write_texts(path: pathlib.Path, ids: dict[str, str]) -> None:
  lines = [json.dumps({"_id": name, "text": text}, ensure_ascii=False) + "\n" for text, name in ids.items()]
  path.write_text("".join(lines), encoding="utf-8")


@dataclasses.dataclass(frozen=True)
class Search:
  """A search for judged queries, whose every judgment is scored by itself: its document is the only right answer."""

  task: RetrievalTask

  @functools.cached_property
  def documents(self) -> list[str]:
    """Texts of the n documents."""
    return list(self.task.documents.values())

  @functools.cached_property
  def queries(self) -> list[str]:
    """Texts of the m judged queries."""
    return [self.task.queries[name] for name in self.task.qrels]

  @functools.cached_property
  def judgments(self) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the query and of the document of each judgment."""
    rows = {name: row for row, name in enumerate(self.task.documents)}
    judged = [(query, rows[name]) for query, grades in enumerate(self.task.qrels.values()) for name in grades]
    queries, documents = np.array(judged).T
    return queries, documents

  @functools.cached_property
  def bm25(self) -> np.ndarray:
    """Scores of BM25 by bm25s with English stop words, float32 [m, n]."""
    import bm25s

    retriever = bm25s.BM25()
    retriever.index(bm25s.tokenize(self.documents, stopwords="en", show_progress=False), show_progress=False)
    words = bm25s.tokenize(self.queries, stopwords="en", return_ids=False, show_progress=False)
    scores = np.zeros([len(words), len(self.documents)], np.float32)
    for row, query in enumerate(words):
      if query:
        scores[row] = retriever.get_scores(query)
    return self._without_itself(scores)

  def cosines(self, queries: np.ndarray, documents: np.ndarray) -> np.ndarray:
    """Cosines of embeddings of queries [m, dim] and documents [n, dim], float32 [m, n]."""
    return self._without_itself(normalized(queries) @ normalized(documents).T)

  def _without_itself(self, scores: np.ndarray) -> np.ndarray:
    """Returns scores [m, n], with the lowest one for the document that is the query."""
    rows = {name: row for row, name in enumerate(self.task.documents)}
    for query, name in enumerate(self.task.qrels):
      if name in rows:
        scores[query, rows[name]] = -np.inf
    return scores

  def ndcg(self, scores: np.ndarray) -> np.ndarray:
    """nDCG@10 x 100 of each judgment by scores [m, n], where its document is the first of those with its score."""
    queries, documents = self.judgments
    before = np.array(
      [np.sum(scores[query] > scores[query, row]) for query, row in zip(queries, documents, strict=True)]
    )
    return np.where(before < 10, 100 / np.log2(before + 2), 0.0)

  @functools.cached_property
  def _distinct_numbers(self) -> np.ndarray:
    queries, documents = self.judgments
    pairs = SentencePairs([self.queries[row] for row in queries], [self.documents[row] for row in documents], queries)
    return pairs.distinct_numbers()

  def gain(self, after: np.ndarray, before: np.ndarray) -> str:
    """The mean gain of the judgments, with its 95 % interval; a pair that is judged in both orders is drawn once."""
    gain = bootstrap_mean_gain(before, after, "ndcg@10", numbers=self._distinct_numbers)
    return f"{gain.gain:+.1f} [{gain.low:+.1f}, {gain.high:+.1f}]"

  @functools.cached_property
  def _ranks_of_bm25(self) -> np.ndarray:
    return _reciprocal_ranks(self.bm25)

  def with_bm25(self, scores: np.ndarray) -> np.ndarray:
    """Reciprocal rank fusion of scores [m, n] and those of BM25."""
    return _reciprocal_ranks(scores) + self._ranks_of_bm25


def _reciprocal_ranks(scores: np.ndarray) -> np.ndarray:
  """Returns 1 / (60 + rank) of the documents of each query, float32 [m, n]."""
  ranks = np.empty(scores.shape, np.float32)
  reciprocal = 1 / (_RANK_CONSTANT + np.arange(1, scores.shape[1] + 1, dtype=np.float32))
  np.put_along_axis(ranks, np.argsort(-scores, axis=1, kind="stable"), reciprocal[np.newaxis], axis=1)
  return ranks


def _sample(rows: np.ndarray, count: int, seed: int = 1) -> np.ndarray:
  return rows[np.random.default_rng(seed).permutation(len(rows))[:count]]


def _print_row(*cells: str) -> None:
  print(f"| {' | '.join(cells)} |", flush=True)


def _print_head(*cells: str) -> None:
  print()
  _print_row(*cells)
  _print_row(*["---"] * len(cells))


@dataclasses.dataclass(frozen=True)
class Embedded:
  """A search with the embeddings of its m queries, [m, dim], and n documents, [n, dim], which are not calibrated."""

  search: Search
  queries: np.ndarray
  documents: np.ndarray

  @classmethod
  def of(cls, search: Search, model: SentenceModel) -> "Embedded":
    """Embeds a search."""
    return cls(search, model.encode_query(search.queries), model.encode_document(search.documents))

  @functools.cached_property
  def plain(self) -> np.ndarray:
    """Cosines without a calibration, [m, n]."""
    return self.search.cosines(self.queries, self.documents)

  @functools.cached_property
  def plain_with_bm25(self) -> np.ndarray:
    """Their fusion with BM25, [m, n]."""
    return self.search.with_bm25(self.plain)

  def calibrated(self, name: str, rows: np.ndarray, queries: np.ndarray | None = None) -> np.ndarray:
    """Cosines by a calibration that is fitted on embeddings of documents, and of queries if they are given."""
    calibration = fit_calibration(rows, name, queries=queries, show_progress=False)
    return self.search.cosines(calibration.transform_queries(self.queries), calibration.transform(self.documents))


def print_fits(name: str, embedded: Embedded, text: np.ndarray | None) -> None:
  """Prints nDCG@10 of each calibration by what it is fitted on: documents of the search, its queries, another text."""
  documents, queries = embedded.documents, embedded.queries
  some = _sample(queries, _QUERIES[0])
  fits: dict[str, tuple[np.ndarray, np.ndarray | None]] = {"corpus": (documents, None)}
  for count in _QUERIES:
    fits[f"and {count} queries"] = documents, _sample(queries, count)
  fits["and all queries"] = documents, queries
  for count in _SENTENCES:
    fits[f"{count:,} sentences"] = _sample(documents, count), None
    fits[f"{count:,} sentences, {len(some)} queries"] = _sample(documents, count), some
  if text is not None:
    fits |= {"other text": (text, None), f"other text, {len(some)} queries": (text, some)}
  _print_head(f"{name}, fitted on", *fits)
  _print_row("as it is", *[f"{embedded.search.ndcg(embedded.plain).mean():.1f}"] * len(fits))
  for calibration in _CALIBRATIONS:
    scores = [embedded.search.ndcg(embedded.calibrated(calibration, *rows)).mean() for rows in fits.values()]
    _print_row(calibration, *[f"{score:.1f}" for score in scores])


def print_few_queries(name: str, embedded: Embedded) -> None:
  """Prints nDCG@10 by the number of queries beside the corpus, mean of samples by some seeds."""
  documents, queries = embedded.documents, embedded.queries
  _print_head(f"{name}, queries", "none", *map(str, _FEW_QUERIES))
  for calibration in ("whitening", "tempered-whitening"):
    cells = [f"{embedded.search.ndcg(embedded.calibrated(calibration, documents)).mean():.1f}"]
    for count in _FEW_QUERIES:
      samples = [_sample(queries, count, seed) for seed in _FEW_SEEDS]
      scores = [embedded.search.ndcg(embedded.calibrated(calibration, documents, each)).mean() for each in samples]
      cells.append(f"{np.mean(scores):.1f}")
    _print_row(calibration, *cells)


def print_intervals(name: str, embedded: Embedded, rows: dict[str, tuple[Embedded, str | None]]) -> None:
  """Prints gains with intervals, fitted on the corpus and 64 queries, alone and fused with BM25.

  `rows`: {name of a row: (embeddings, calibration, or None for none)}.
  """
  search = embedded.search
  before = {"alone": search.ndcg(embedded.plain), "fused": search.ndcg(embedded.plain_with_bm25)}
  of_keyword = search.ndcg(search.bm25)
  columns = ("nDCG@10", "gain", "over BM25", "with BM25", "gain", "over BM25")
  _print_head(f"{name}; BM25: {of_keyword.mean():.1f}", *columns)
  for row, (source, calibration) in rows.items():
    scores = source.plain
    if calibration is not None:
      scores = source.calibrated(calibration, source.documents, _sample(source.queries, _QUERIES[0]))
    after = {"alone": search.ndcg(scores), "fused": search.ndcg(search.with_bm25(scores))}
    cells = []
    for kind, gains in after.items():
      cells += [f"{gains.mean():.1f}", search.gain(gains, before[kind]), search.gain(gains, of_keyword)]
    _print_row(row, *cells)


def print_paraphrases(name: str, searches: dict[str, Embedded]) -> None:
  """Prints nDCG@10 and gains with intervals of some searches, fitted on their documents."""
  scores = {each: embedded.search.ndcg(embedded.search.bm25).mean() for each, embedded in searches.items()}
  _print_head(name, *[f"{each}; BM25: {score:.1f}" for each, score in scores.items()])
  plain = {each: embedded.search.ndcg(embedded.plain) for each, embedded in searches.items()}
  _print_row("as it is", *[f"{scores.mean():.1f}" for scores in plain.values()])
  for calibration in _CALIBRATIONS:
    cells = []
    for each, embedded in searches.items():
      after = embedded.search.ndcg(embedded.calibrated(calibration, embedded.documents))
      cells.append(f"{after.mean():.1f} ({embedded.search.gain(after, plain[each])})")
    _print_row(calibration, *cells)


def read_first_lines(path: str) -> list[str]:
  """Returns the first lines of a file, which may be packed by gzip."""
  opener = gzip.open if path.endswith(".gz") else open
  with opener(path, "rt", encoding="utf-8") as file:
    return [line.rstrip("\n") for _, line in zip(range(_FOREIGN), file, strict=False)]


def main(data_dir: str, encoder: str, path: str | None = None) -> None:
  """Writes the folders and prints the tables of an encoder, as Markdown."""
  write_beir_folders(data_dir)
  searches = {name: Search(load_beir(_FOLDER / name)) for name in (QUESTIONS, *PARAPHRASES)}
  load = functools.partial(SentenceModel.from_pretrained, encoder, max_seq_length=128, cache=_FOLDER / "cache")
  kind, _, folder = encoder.rpartition(":")
  model, name = load(), ":".join(filter(None, [kind, pathlib.Path(folder).name]))
  embedded = {each: Embedded.of(search, model) for each, search in searches.items()}
  questions = embedded.pop(QUESTIONS)
  rows: dict[str, tuple[Embedded, str | None]] = {each: (questions, each) for each in _CALIBRATIONS}
  if not model.encoder.declared.source and not encoder.startswith("static:"):
    for recipe in _RECIPES:
      rows[f"recipe {recipe}"] = Embedded.of(questions.search, load(recipe=recipe)), RECIPES[recipe].calibration
  print_intervals(name, questions, {"as it is": (questions, None), **rows})
  print_paraphrases(name, embedded)
  print_fits(name, questions, None if path is None else model.encode_document(read_first_lines(path)))
  print_few_queries(name, questions)


if __name__ == "__main__":
  if not 3 <= len(sys.argv) <= 4:
    sys.exit(__doc__)
  main(*sys.argv[1:])
