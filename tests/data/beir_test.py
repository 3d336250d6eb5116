"""Folders in BEIR's layout."""

import gzip

import numpy as np
import pytest

from bert_flow_tf.data.beir import load_beir
from bert_flow_tf.errors import ConfigError, DataError
from tests.testing import rejected

CORPUS = '{"_id": "d1", "title": "Cats", "text": "They sleep."}\n{"_id": "d2", "title": "", "text": "Dogs run."}\n'
CORPUS += '{"_id": "d3", "text": "No title."}\n{"_id": "d4", "title": "", "text": ""}\n'
QUERIES = '{"_id": "q1", "text": "Who sleeps?"}\n{"_id": 2, "text": "Who runs?", "metadata": {}}\n'
QUERIES += '{"_id": "q3", "text": "not judged"}\n'
QRELS = "query-id\tcorpus-id\tscore\nq1\td1\t2\nq1\td4\t-1\n2\td2\t1\n"


def write(folder, corpus=CORPUS, queries=QUERIES, qrels=QRELS, split="test"):
  """Writes a folder in BEIR's layout; returns it."""
  (folder / "qrels").mkdir(parents=True, exist_ok=True)
  (folder / "corpus.jsonl").write_text(corpus)
  (folder / "queries.jsonl").write_text(queries)
  (folder / "qrels" / f"{split}.tsv").write_text(qrels)
  return folder


def test_a_folder(tmp_path):
  task = load_beir(write(tmp_path / "own"))
  assert task.documents == {"d1": "Cats They sleep.", "d2": "Dogs run.", "d3": "No title.", "d4": ""}
  assert task.queries == {"q1": "Who sleeps?", "2": "Who runs?", "q3": "not judged"}
  assert task.qrels == {"q1": {"d1": 2, "d4": -1}, "2": {"d2": 1}}
  assert task.name == "own" and task.spec.eval_split == "test" and task.spec.metric == "ndcg@10"
  assert task.source == f"2 judged queries and 4 documents of {tmp_path / 'own'}"
  pairs = task.all_pairs()
  assert {*pairs.sentences_a, *pairs.sentences_b} == {"Cats They sleep.", "Dogs run.", "No title."}
  assert np.isnan(pairs.scores).all()


def test_packed_files_another_split_and_qrels_of_trec(tmp_path):
  write(tmp_path, qrels="q1 0 d1 2\nq1 0 d4 -1\n2 0 d2 1\n", split="dev")
  for path in (tmp_path / "corpus.jsonl", tmp_path / "qrels/dev.tsv"):
    path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
  expected = load_beir(write(tmp_path / "plain"))
  task = load_beir(tmp_path, "dev")
  assert task.qrels == expected.qrels and task.documents == expected.documents
  with rejected(ConfigError, "split", match=r"split=test: .*test.tsv does not exist; expected dev$"):
    load_beir(tmp_path)


def test_grades_as_floats_and_a_blank_line_before_the_header(tmp_path):
  expected = load_beir(write(tmp_path / "plain")).qrels
  for qrels in ("\nquery-id\tcorpus-id\tscore\nq1\td1\t2.0\nq1\td4\t-1\n\n2\td2\t1\n", "q1 d1 2,0\nq1 d4 -1\n2 d2 1\n"):
    assert load_beir(write(tmp_path / "other", qrels=qrels)).qrels == expected


WRONG = {
  "a fraction without a header": (
    {"qrels": "q1\td1\t1.5\n"},
    "test.tsv, line 1: the score is '1.5'; expected an integer",
  ),
  "a number with a line": ({"qrels": QRELS + "q1\td2\t1_0\n"}, "test.tsv, line 5: the score is '1_0'"),
  "a document twice": ({"corpus": CORPUS + '{"_id": "d1", "text": "x"}\n'}, r"corpus.jsonl, line 5: .*'d1' repeats"),
  "a query twice": ({"queries": QUERIES + '{"_id": "q1", "text": "x"}\n'}, r"queries.jsonl, line 4: .*'q1' repeats"),
  "no id": ({"corpus": '{"text": "x"}\n'}, 'corpus.jsonl, line 1: no key "_id"; expected it in each record'),
  "no id of a query": ({"queries": QUERIES + '{"text": "x"}\n'}, 'queries.jsonl, line 4: no key "_id"; expected it'),
  "a number as text": (
    {"corpus": '{"_id": 1, "text": 5}\n'},
    "corpus.jsonl, line 1: column 'text' has 5, expected text",
  ),
  "an empty id": ({"corpus": '{"_id": "", "text": "x"}\n'}, "corpus.jsonl, line 1: the id is empty"),
  "blank in id": ({"corpus": '{"_id": "a b", "text": "x"}\n'}, "line 1: the _id is 'a b'; expected one without blanks"),
  "unknown document": ({"qrels": QRELS + "q1\td9\t1\n"}, r"test.tsv, line 5: no document of .*corpus.jsonl has .*'d9'"),
  "unknown query": ({"qrels": QRELS + "q9\td1\t1\n"}, r"test.tsv, line 5: no query of .*queries.jsonl has .*'q9'"),
  "judged twice": ({"qrels": QRELS + "q1\td1\t1\n"}, "test.tsv, line 5: the query 'q1' and document 'd1' are judged"),
  "thousands": ({"qrels": QRELS + "q1\td2\t1,000.0\n"}, "line 5: the score is '1,000.0'; expected an integer"),
  "a comma": ({"qrels": QRELS + "q1\td2\t0,5\n"}, "test.tsv, line 5: the score is '0,5'; expected an integer"),
  "no integer": ({"qrels": QRELS + "q1\td2\t0.5\n"}, "test.tsv, line 5: the score is '0.5'; expected an integer"),
  "two columns": ({"qrels": QRELS + "q1\td2\n"}, "test.tsv, line 5: 2 columns; expected query-id, corpus-id and score"),
  "none judged": ({"qrels": QRELS.split("\n")[0]}, "test.tsv: no judged query"),
  "none relevant": ({"qrels": "q1\td1\t0\n"}, "test.tsv: no query has a relevant document"),
  "no texts": (
    {"corpus": '{"_id": "d1", "body": "x"}\n', "qrels": "q1\td1\t1\n"},
    "corpus.jsonl: no record has a title",
  ),
  "blank query": ({"queries": '{"_id": "q1", "text": ""}\n', "qrels": "q1\td1\t1\n"}, "judged query 'q1' has no text"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_files(name, tmp_path):
  contents, message = WRONG[name]
  with pytest.raises(DataError, match=message) as raised:
    load_beir(write(tmp_path, **contents))
  assert "\n" not in str(raised.value)


def test_missing_files(tmp_path):
  write(tmp_path)
  (tmp_path / "queries.jsonl").unlink()
  with rejected(ConfigError, "beir", match=r"queries.jsonl is missing; expected corpus.jsonl, queries.jsonl and"):
    load_beir(tmp_path)
  with rejected(ConfigError, "beir", match=r"no such folder; expected corpus.jsonl"):
    load_beir(tmp_path / "bier")
