"""evaluation/scored_tasks.py: files of similarities, as `score`, runs and other programs write them."""

import gzip
import json

import numpy as np
import pytest
from scipy import stats

from bert_flow_tf.data.files.rows import read_pairs
from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.errors import ConfigError, DataError
from bert_flow_tf.evaluation.scored_tasks import score_predictions
from bert_flow_tf.report.result_files import pairs_text
from tests.testing import rejected

GOLD = [4.5, 1.0, 3.0, 2.0, 0.0]
MINE = [0.9, 0.2, 0.5, 0.6, 0.1]
TEXTS = [("A man eats.", "A man, eating."), ("A dog.", 'It "runs".'), ("E", "F"), ("G", "H"), ("I", "J")]


def scored(path):
  """Returns {method: (Spearman's correlation times 100, number of pairs)} of a file with its gold."""
  task, scores = score_predictions(path)
  numbers = {}
  for name, (values, _) in scores.items():
    numbers[name] = round(values["test"]["spearman"], 4), len(task.splits["test"])
  return numbers


def expected(rows=(0, 1, 2, 3, 4)):
  correlation = stats.spearmanr(np.take(GOLD, rows), np.take(MINE, rows)).statistic
  return round(100 * correlation, 4), len(rows)


def table(separator, columns):
  lines = [separator.join(columns)]
  lines += [separator.join(map(str, row)) for row in zip(*columns.values(), strict=True)]
  return "".join(f"{line}\n" for line in lines)


def test_similarities_and_gold_with_decimal_commas(tmp_path):
  columns = {"gold": GOLD, "mine": MINE}
  content = table("\t", columns).replace(".", ",")
  (tmp_path / "a.tsv").write_text(content)
  assert scored(tmp_path / "a.tsv") == {"mine": expected()}
  (tmp_path / "a.tsv").write_text(content.replace("0,9", "0.9"))
  with pytest.raises(DataError, match=r"line 3: the score is '0,2', and '0\.9' in line 2"):
    scored(tmp_path / "a.tsv")


def pairs_file(path, gold="score"):
  """Writes pairs with gold, one without a second sentence, in the format of the path's name."""
  rows = [*zip(*zip(*TEXTS, strict=True), GOLD, strict=True), ("K", "", 2.5)]
  dicts = [dict(zip(("sentence1", "sentence2", gold), row, strict=True)) for row in rows]
  kind = path.name.split(".")[1]
  if kind == "parquet":
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    from pyarrow import parquet

    parquet.write_table(pa.Table.from_pylist(dicts), path)
  elif kind == "jsonl":
    path.write_text("".join(json.dumps(row) + "\n" for row in dicts))
  elif kind == "tsv":
    path.write_text("".join("\t".join(map(str, row)) + "\n" for row in [tuple(dicts[0]), *rows]))
  else:
    quoted = [[f'"{str(field).replace(chr(34), 2 * chr(34))}"' for field in row] for row in [tuple(dicts[0]), *rows]]
    path.write_text("\ufeff" + "".join(",".join(row) + "\r\n" for row in quoted))


@pytest.mark.parametrize("gold", ["score", "label", "Score", "gold"])
@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.parquet", "a.csv.gz"])
def test_a_file_that_score_wrote(tmp_path, name, gold, caplog):
  plain = tmp_path / name.removesuffix(".gz")
  pairs_file(plain, gold)
  read = read_pairs(str(plain))
  content = read.content(range(6), "similarity", [*MINE, None])
  (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
  # Spearman is that of SciPy; the pair without a second sentence has no similarity.
  assert scored(tmp_path / name) == {"similarity": expected()}
  assert "1 pair without a similarity left out" in caplog.text


@pytest.mark.parametrize("separator", ["\t", ","])
def test_ids_and_text_are_no_methods(tmp_path, separator, caplog):
  caplog.set_level("INFO", logger="absl")
  ids = {
    "": range(5),
    "id": [7, 9, 8, 5, 4],
    "Unnamed: 0": range(5),
    "pair_ID": range(5),
    "numbers": range(1, 6),
    "from 0": range(5),
    "split": ["test"] * 5,
    "index": range(5),
  }
  path = tmp_path / ("a.csv" if separator == "," else "a.tsv")
  path.write_text(table(separator, {**ids, "gold": GOLD, "mine": MINE, "other": MINE[::-1]}))
  assert list(scored(path)) == ["mine", "other"] and scored(path)["mine"] == expected()
  assert (
    "7 columns left out as no similarities: (without a name), id, Unnamed: 0, pair_ID, numbers, from 0, split"
    in caplog.text
  )
  # Integers in their order may be similarities where there are no others.
  path.write_text(table(separator, {"gold": GOLD, "mine": range(1, 6)}))
  assert list(scored(path)) == ["mine"]


def test_formats_of_before(tmp_path):
  path = tmp_path / "test_results.tsv"
  pairs = SentencePairs(*zip(*TEXTS, strict=True), np.array(GOLD))
  path.write_text(pairs_text(pairs, {"gold": GOLD, "avg": MINE, "flow": MINE}))
  assert scored(path) == {"avg": expected(), "flow": expected()}
  path.write_text("gold\tmine\n" + "".join(f"{a}\t{b}\n" for a, b in zip(GOLD, MINE, strict=True)) + "nan\tnan\n\n")
  assert scored(path)["mine"][0] == expected()[0]
  # A similarity per line, with or without a name, has no gold.
  for content in ("0.9\n0.2\n", "similarity\n0.9\n0.2\n"):
    (tmp_path / "a.txt").write_text(content)
    with rejected(ConfigError, "predictions", match="no gold"):
      score_predictions(tmp_path / "a.txt")


@pytest.mark.parametrize(
  ("content", "message"),
  [
    ("0.9,0.2\n1,2\n", "line 1: '0.9, 0.2'; expected a header"),
    ("4.5,A man.,A dog.,0.9\n1,C,D,0.2\n", "line 1: '4.5, A man., A dog., 0.9'; expected a header"),
    ("gold,gold,mine\n1,2,3\n", "2 columns 'gold'"),
    ("score,label,mine\n1,2,3\n", "columns score and label may each be the gold"),
    ("gold,sentence1\n1,A\n2,B\n", "the header is gold, sentence1; expected gold"),
    ("gold,id\n1,5\n2,7\n", "the header is gold, id; expected gold"),
    ("gold,mine\n1,0.5\nhigh,0.4\n", "line 3: the score is 'high'"),
    ("gold,mine\n1,0.5\n2,high\n3,0.1\n", "line 3: the score is 'high'"),
    ("gold,mine\n1,nan\n2,0.3\n", "line 2: mine is nan, expected a finite number"),
    ("gold,mine\n1,0.5,7\n", "record 2: 3 columns, expected 2"),
    ("gold;mine\n1;0.5\n", "the columns are separated by semicolons"),
    ("", "is empty"),
    ("gold,mine\n", "has a header and no records"),
  ],
)
def test_wrong_files_of_similarities(tmp_path, content, message):
  (tmp_path / "a.csv").write_text(content)
  with rejected(DataError, "predictions", match=message):
    score_predictions(tmp_path / "a.csv")
