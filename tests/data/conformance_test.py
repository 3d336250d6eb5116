"""Every TSV task: files, positions, missing and malformed files, archives, TensorFlow Datasets, the published data."""

import csv
import gzip
import zipfile

import numpy as np
import pytest

from bert_flow_tf.data.flow_corpus import load_flow_corpus
from bert_flow_tf.data.tasks import KINDS, TASKS, find_task, load_task
from bert_flow_tf.errors import DataError
from tests.data.table_cases import SIZES, TABLES, check_pairs, is_hidden, text, write, write_to_tfds
from tests.data.tfds_cases import cut_network
from tests.testing import shared

EVERY_TASK = [spec.name for spec in TASKS if not spec.packaged and spec.name not in ("custom", "STS-12", "STS-16")]


def _load(name, *paths, **arguments):
  return load_task(name, *paths, **arguments, kinds=KINDS)


def _error(name, **arguments):
  with pytest.raises(DataError) as raised:
    _load(name, **arguments)
  assert "\n" not in str(raised.value)
  return str(raised.value), raised.value.argument


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("header", [True, False], ids=["names", "positions"])
@pytest.mark.parametrize("place", ["below", "itself", "other name"])
def test_files(tmp_path, name, header, place):
  table = TABLES[name]
  other_folders = (*table.other_folders, table.name)
  folder = write(tmp_path / (other_folders[0] if place == "other name" else table.name), table, header)
  data = _load(name, f"{folder}/" if place == "itself" else tmp_path)
  assert list(data.splits) == list(SIZES)
  for split, pairs in data.splits.items():
    check_pairs(pairs, table, split, gold=not is_hidden(table, split))
  evaluated = None if name == "STS-B" else find_task(name, KINDS).eval_split
  assert data.spec.eval_split == evaluated
  owner = "GLUE" if name == "STS-B" else name
  assert data.source.split(", train (")[0].split(",")[0] == f"{owner}'s files in {folder}"
  assert "without S" not in data.source and data.dropped == {}


@pytest.mark.parametrize("name", TABLES)
def test_only_required_files_are_required(tmp_path, name):
  table = TABLES[name]
  folder = write(tmp_path / table.name, table)
  for split in SIZES:
    path = folder / table.files[split][0]
    path.rename(tmp_path / "kept")
    if split in table.required:
      message, argument = _error(name, data_dir=tmp_path)
      assert argument == "data_dir" and f"{table.files[split][0]} does not exist" in message.replace(
        "STS/STSBenchmark/sts-train.csv", "train.tsv"
      )
    else:
      data = _load(name, tmp_path)
      assert split not in data.splits and f"without {table.name}/{path.name}, which is missing" in data.source
    (tmp_path / "kept").rename(path)


def _changed(content, row, place, field):
  """Returns a table with another field in a row."""
  lines = content.splitlines()
  fields = lines[row].split("\t")
  fields[place] = field
  return "\n".join([*lines[:row], "\t".join(fields), *lines[row + 1 :]]).encode() + b"\n"


@pytest.mark.parametrize("name", TABLES)
def test_malformed_files(tmp_path, name):
  table = TABLES[name]
  folder = write(tmp_path / table.name, table)
  path = folder / table.files["dev"][0]
  content = text(table, "dev")
  raw = content.encode()
  cases = {
    ", line 3: the ": _changed(content, 2, table.places[2], "nonsense"),
    ", line 1: the column ": _changed(content, 0, table.places[2], "other"),
    f", line 1: the column '{table.columns[0]}' is twice": _changed(content, 0, table.places[2], table.columns[0]),
    ", line 1: the line is a pair": raw.partition(b"\n")[2],
    ", line 2: byte 0xe9": raw.replace("é".encode(), b"\xe9"),
    " is empty": b"",
    ": all 4 lines after the header have too few columns": raw.partition(b"\n")[0] + b"\n" + b"a b\n" * 4,
  }
  for message, changed in cases.items():
    path.write_bytes(changed)
    assert _error(name, data_dir=tmp_path)[0].startswith(f"{path}{message}"), message
  path.write_bytes(gzip.compress(raw + b"cut\n \n", mtime=0))
  data = _load(name, tmp_path)
  check_pairs(data.splits["dev"], table, "dev")
  assert "1 malformed line of " in data.source


@pytest.mark.parametrize("name", [name for name, table in TABLES.items() if table.archives])
@pytest.mark.parametrize("folder", ["SICK", "."])
def test_archives_are_read_without_unpacking(tmp_path, name, folder):
  table = TABLES[name]
  (tmp_path / folder).mkdir(exist_ok=True)
  for split, url in table.archives.items():
    with zipfile.ZipFile(tmp_path / folder / url.rsplit("/", 1)[1], "w") as archive:
      archive.writestr(table.files[split][0], text(table, split))
      archive.writestr("readme.txt", "hello")
  for split, pairs in _load(name, tmp_path).splits.items():
    check_pairs(pairs, table, split)
  path = tmp_path / folder / table.archives["dev"].rsplit("/", 1)[1]
  path.write_bytes(path.read_bytes()[:-30])
  assert _error(name, data_dir=tmp_path)[0].startswith(f"{path} is not a readable zip archive")


@pytest.mark.parametrize("name", [name for name, table in TABLES.items() if table.tfds and name != "STS-B"])
def test_tfds(tmp_path, monkeypatch, name):
  cut_network(monkeypatch)
  table = TABLES[name]
  hidden = () if name in ("SICK-R", "SNLI", "MNLI") else ("test",)
  version = write_to_tfds(tmp_path, table, hidden)
  data = _load(name, tfds_data_dir=tmp_path)
  for split, pairs in data.splits.items():
    if name in ("SNLI", "MNLI"):  # stored shuffled, without idx
      order = sorted(range(len(pairs)), key=lambda row: pairs.sentences_a[row])
      pairs = pairs.take(np.array(order))
    check_pairs(pairs, table, split, split not in hidden)
  # TFDS hides the labels of MRPC's test, too.
  note = ", evaluated on dev, because test has no gold" if name == "MRPC" else ""
  stored = table.tfds if "/" in table.tfds else data.source.split()[2].rpartition("/")[0]
  assert data.source == f"TensorFlow Datasets {stored}/{version} in {tmp_path}{note}"


@pytest.mark.parametrize("task", EVERY_TASK)
def test_a_missing_file_is_named(tmp_path, task):
  message, argument = _error(task, data_dir=tmp_path)
  assert argument == "data_dir" and message.startswith(f"data_dir={tmp_path}: ")
  assert " does not exist; expected " in message


@pytest.mark.parametrize("task", [*EVERY_TASK, "nli"])
def test_without_files_or_network(tmp_path, monkeypatch, task):
  cut_network(monkeypatch)
  root = tmp_path / "tfds"
  if task == "nli":
    with pytest.raises(DataError) as raised:
      load_flow_corpus("nli", None, None, root)
    message = str(raised.value)
  else:
    message, argument = _error(task, tfds_data_dir=root)
    assert task != "SICK-E" or argument == "data_dir"
  assert "\n" not in message and "data_dir" in message and not root.exists()
  if task != "SICK-E":
    assert f" in {root}, then at http" in message and "(no connection to " in message and "Pool" not in message


# {task: ({split: number of pairs}, sum of the gold of the evaluated split)}, counted in the files' columns
REAL = {
  "QNLI": ({"dev": 5463, "test": 5463}, 2702),
  "MRPC": ({"train": 3576, "dev": 500, "test": 1725}, 1147),
  "SICK-R": ({"train": 4500, "dev": 500, "test": 4927}, None),
  "SICK-E": ({"train": 4500, "dev": 500, "test": 4927}, 1414 + 2 * 2793),
  "SNLI": ({"dev": 9842, "test": 9824}, 3368 + 2 * 3219),
}


@pytest.mark.parametrize("name", REAL)
def test_the_real_files_row_by_row(name):
  """Reads the columns at the published places; the digests of SICK hold, so no difference is in the source."""
  folder, table = shared("data"), TABLES[name]
  data = _load(name, folder)
  sizes, total = REAL[name]
  assert {split: len(pairs) for split, pairs in data.splits.items()} == sizes
  for split, pairs in data.splits.items():
    file = table.files[split][0]
    with open(folder / table.name / file, encoding="utf-8-sig", newline="") as content:
      _, *lines = csv.reader(content, delimiter="\t", quoting=csv.QUOTE_NONE)
    places = table.hidden.get(file, table.places)
    golds = [table.gold.labels.get(line[table.places[2]]) for line in lines] if table.gold.labels else []
    with_gold = [line for i, line in enumerate(lines) if file in table.hidden or not golds or golds[i] == golds[i]]
    assert pairs.sentences_a == tuple(line[places[0]] for line in with_gold)
    assert pairs.sentences_b == tuple(line[places[1]] for line in with_gold)
    if file in table.hidden:
      assert np.isnan(pairs.scores).all()
    elif golds:
      assert pairs.scores.tolist() == [gold for gold in golds if gold == gold]
    else:
      assert pairs.scores.tolist() == [float(line[places[2]]) for line in with_gold]
  assert total is None or data.splits[data.spec.eval_split].scores.sum() == total
  assert "expected" not in data.source


@pytest.mark.parametrize("name", ["SICK-R", "SICK-E"])
@pytest.mark.parametrize("place", [1, 3])
def test_another_word_or_score_is_noticed(tmp_path, caplog, name, place):
  """Reads the real files, with one field of one line changed."""
  table = TABLES[name]
  for names in table.files.values():
    (tmp_path / names[0]).write_bytes((shared("data/SICK") / names[0]).read_bytes())
  path = tmp_path / table.files["dev"][0]
  lines = path.read_text(encoding="utf-8").split("\n")
  fields = lines[7].split("\t")
  fields[place] = {1: fields[1] + "s", 3: "1.234"}[place]
  fields[4] = "NEUTRAL" if fields[4].strip() != "NEUTRAL" else "ENTAILMENT"
  path.write_text("\n".join([*lines[:7], "\t".join(fields), *lines[8:]]), encoding="utf-8")
  data = _load(name, tmp_path)
  (warning,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
  assert "SICK_trial.txt" in warning and "other sentences or gold" in warning
  assert data.source.count("other sentences or gold") == 1 and ", dev (" in data.source


def test_mrpc_in_glues_layout_is_evaluated_on_test_if_it_has_labels(tmp_path):
  table = TABLES["MRPC"]
  for split in SIZES:
    (tmp_path / f"{split}.tsv").write_text(text(table, split), encoding="utf-8")
  data = load_task("mrpc-regression", data_dir=tmp_path)
  check_pairs(data.splits["test"], table, "test")
  assert data.spec.eval_split == "test"
  (tmp_path / "test.tsv").write_text(text(table, "test", hidden=True), encoding="utf-8")
  data = load_task("MRPC", data_dir=tmp_path)
  check_pairs(data.splits["test"], table, "test", gold=False)
  assert data.spec.eval_split == "dev" and data.source.endswith(", evaluated on dev, because test has no gold")
  # GLUE's script leaves this file in the folder.
  (tmp_path / "msr_paraphrase_test.txt").write_text(text(table, "test"), encoding="utf-8")
  data = load_task("MRPC", data_dir=tmp_path)
  check_pairs(data.splits["test"], table, "test")
  assert data.spec.eval_split == "test"
