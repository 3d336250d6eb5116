"""A folder in BEIR's layout: documents, queries and judgments (corpus.jsonl, queries.jsonl, qrels/SPLIT.tsv)."""

import contextlib
import dataclasses
import os
import pathlib
from collections.abc import Iterator, Mapping

from bert_flow_tf.data.custom import pair_up
from bert_flow_tf.data.files.formats import is_score, open_reader, parse_number
from bert_flow_tf.data.files.input_format import EMBED, JSONL, MAX_RECORD_BYTES, InputFormat
from bert_flow_tf.data.files.source import lines
from bert_flow_tf.data.task import RETRIEVAL, TaskData, TaskSpec
from bert_flow_tf.errors import ConfigError, DataError
from bert_flow_tf.io.settings import Settings, setting
from bert_flow_tf.progress import counted

# {document's id: its grade} of each query's id.
Qrels = Mapping[str, Mapping[str, int]]


@dataclasses.dataclass(frozen=True)
class BeirSettings(Settings):
  """A search with judgments as the task."""

  beir: str | None = setting(
    None,
    "Folder in BEIR's layout, in place of a task: corpus.jsonl, queries.jsonl and qrels/SPLIT.tsv. Its "
    "documents are searched for its queries; fit fits on the documents. BM25 stands beside it, alone and fused with "
    "each model (pip install bm25s).",
    named=False,
  )
  split: str | None = setting(None, "The judgments of beir: qrels/SPLIT.tsv. Default: test.", named=False)
  ignore_identical_ids: bool = setting(
    True,
    "Whether a document with the id of the query is left out of the ranking, as by BEIR, unless it is relevant.",
    named=False,
  )
  fit_queries: bool = setting(
    False, "Whether all queries of beir, without their judgments, are the queries of the fit.", named=False
  )


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class RetrievalTask(TaskData):
  """A search with judgments as a task; its split `train` has the documents as pairs, on which a calibration is fitted.

  Attributes:
    documents: {id: title and text}.
    queries: {id: text}, also of queries without judgments.
    qrels: {query's id: {document's id: grade}} of `spec.eval_split`; from 1 on a document is relevant.
    ignore_identical_ids: see `JudgedSearch`.
  """

  documents: Mapping[str, str]
  queries: Mapping[str, str]
  qrels: Qrels
  ignore_identical_ids: bool = True


def load_beir(
  folder: str | os.PathLike,
  split: str | None = None,
  max_bytes: int = MAX_RECORD_BYTES,
  ignore_identical_ids: bool = True,
) -> RetrievalTask:
  """Returns the search of a folder in BEIR's layout; each file may be packed, with .gz after its name.

  Args:
    folder: has corpus.jsonl (keys _id, text and perhaps title, which stands before the text, after a blank),
      queries.jsonl (_id, text), and qrels/SPLIT.tsv (query-id, corpus-id and score after a header with these names;
      or the four columns of TREC's qrels).
    split: name of the judgments' file; None for test.
    max_bytes: longest line of the documents and queries.
    ignore_identical_ids: see `JudgedSearch`.

  Raises:
    ConfigError: a file does not exist.
    DataError: a line is malformed, an id repeats or is unknown, or no query is judged.
  """
  root, split = pathlib.Path(os.path.expanduser(folder)), split or "test"
  corpus, asked, judged = (_find(root, name) for name in ("corpus.jsonl", "queries.jsonl", f"qrels/{split}.tsv"))
  documents = _read_texts(corpus, InputFormat(JSONL, "title", "_id", False, EMBED, max_bytes, more_columns=("text",)))
  queries = _read_texts(asked, InputFormat(JSONL, "text", "_id", False, EMBED, max_bytes))
  qrels = _read_qrels(judged)
  for where, query, document in qrels.places:
    for kind, name, known, path in (("query", query, queries, asked), ("document", document, documents, corpus)):
      if name not in known:
        raise _error(where, f"no {kind} of {path} has the _id {name[:100]!r}; expected the _id of one")
  for query in qrels.grades:
    if not queries[query].strip():
      raise _error(asked, f"the judged query {query[:100]!r} has no text")
  texts = [text for text in documents.values() if text.strip()]
  if not texts:
    raise _error(corpus, "no record has a title or text; expected the keys _id, text and perhaps title")
  judged_queries = counted(len(qrels.grades), "judged query", ",")
  return RetrievalTask(
    TaskSpec(root.resolve().name, "", _reload, kind=RETRIEVAL, eval_split=split, num_train_epochs=None),
    {"train": pair_up(texts)},
    f"{judged_queries} and {counted(len(documents), 'document', ',')} of {root}",
    documents=documents,
    queries=queries,
    qrels=qrels.grades,
    ignore_identical_ids=ignore_identical_ids,
  )


def _reload(spec, paths):
  return load_beir(paths.data_dir, spec.eval_split)


def _find(root, name):
  """Returns the path of a file of the folder, packed or not."""
  for path in (root / name, root / f"{name}.gz"):
    if path.is_file():
      return path
  others = sorted(path.name.partition(".tsv")[0] for path in root.glob("qrels/*.tsv*"))
  if name.startswith("qrels/") and others:
    message = f"split={pathlib.Path(name).stem}: {root / name} does not exist; expected {' or '.join(others)}"
    raise ConfigError(message, argument="split")
  expected = "expected corpus.jsonl, queries.jsonl and qrels/test.tsv, or another split's, in BEIR's layout"
  found = f"{name} is missing" if root.is_dir() else "no such folder"
  raise ConfigError(f"beir={root}: {found}; {expected}", argument="beir")


def _error(where, message):
  return DataError(f"beir: {where}: {message}", "beir")


def _read_texts(path: pathlib.Path, input_format: InputFormat) -> dict[str, str]:
  """Returns {id: text} of JSON lines."""
  texts: dict[str, str] = {}
  with contextlib.closing(open_reader(str(path), input_format)) as reader:
    reader.text_columns = input_format.texts
    for number, (record, _) in enumerate(reader.records(reader.start, reader.first), reader.first):
      if reader.is_blank(record):
        continue
      name, text = reader.checked(record, number, reader.parse) or ("", "")
      where = f"{path}, line {number}"
      if name is None or name.split() != [name]:
        raise _error(where, f"the _id is {name!r}; expected one without blanks, which separate TREC's columns")
      if name in texts:
        raise _error(where, f"the _id {name[:100]!r} repeats; expected each once")
      texts[name] = text
  return texts


@dataclasses.dataclass(frozen=True)
class _Judgments:
  """Judgments of a file: `grades`, and `places`, the (file and line, query's id, document's id) of each."""

  grades: dict[str, dict[str, int]]
  places: list[tuple[str, str, str]]


def _read_qrels(path: pathlib.Path) -> _Judgments:
  """Returns the judgments of a file of BEIR, or of TREC."""
  found = _Judgments({}, [])
  for where, query, document, grade in _judgments(path):
    grades = found.grades.setdefault(query, {})
    if document in grades:
      raise _error(where, f"the query {query[:100]!r} and document {document[:100]!r} are judged twice; expected once")
    grades[document] = grade
    found.places.append((where, query, document))
  if not found.grades:
    raise _error(path, "no judged query; expected lines of query-id, corpus-id and score")
  if not any(grade > 0 for grades in found.grades.values() for grade in grades.values()):
    raise _error(path, "no query has a relevant document; expected a score of 1 or more for each of them")
  return found


def _judgments(path: pathlib.Path) -> Iterator[tuple[str, str, str, int]]:
  """Yields (file and line, query's id, document's id, grade) of the lines of a file."""
  for place, (number, line) in enumerate(lines(path, empty="skip")):
    where, fields = f"{path}, line {number}", line.split()
    if len(fields) == 4:  # TREC's qrels: query, iteration, document, grade
      del fields[1]
    if len(fields) != 3:
      raise _error(where, f"{counted(len(fields), 'column')}; expected query-id, corpus-id and score")
    query, document, score = fields
    grade = parse_number(score)
    if grade.is_integer():
      yield where, query, document, int(grade)
    elif is_score(score) or place > 0:  # the first line may have the names of the columns
      raise _error(where, f"the score is {score[:40]!r}; expected an integer")
