"""data/stsb.py: the benchmark's files, and the gold of GLUE's test split, given, next to it or downloaded."""

import hashlib
import io
import shutil
import tarfile
import zipfile

import pytest

from bert_flow_tf.data import stsb
from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.data.tasks import load_task
from bert_flow_tf.errors import ConfigError, DataError
from tests.data import table_cases
from tests.data.table_cases import TABLES, rows, write, write_to_tfds
from tests.data.tfds_cases import cut_network, need_preparation, serve
from tests.testing import rejected, shared

TABLE = TABLES["STS-B"]
SPLITS = ("train", "dev", "test")


@pytest.fixture(autouse=True, scope="module")
def _many_rows_of_test():
  with pytest.MonkeyPatch.context() as patch:
    patch.setitem(table_cases.SIZES, "test", 200)
    yield


@pytest.fixture(autouse=True)
def published(monkeypatch):
  """Makes the artificial rows the published ones."""
  for split in SPLITS:
    pairs = SentencePairs(*zip(*rows(TABLE, split), strict=True))
    monkeypatch.setitem(stsb.PUBLISHED, split, (len(pairs), pairs.digest()))


@pytest.fixture(scope="module")
def prepared(tmp_path_factory, _many_rows_of_test):
  root = tmp_path_factory.mktemp("tfds")
  write_to_tfds(root, TABLE)
  return root


@pytest.fixture
def tfds_root(prepared, tmp_path):
  return shutil.copytree(prepared, tmp_path / "tfds")


def _csv(rows):
  return "".join(f"g\tf\ty\t1\t{gold:.3f}\t{first}\t{second}\n" for first, second, gold in rows)


def _gold(tmp_path, rows):
  path = tmp_path / "gold.csv"
  path.write_text(_csv(rows), encoding="utf-8")
  return path


def _check(data):
  """Asserts that all splits are the artificial rows, and that the test split has the benchmark's gold."""
  for split in SPLITS:
    table_cases.check_pairs(data.splits[split], TABLE, split)
  assert list(data.splits) == list(SPLITS) and data.spec.eval_split == "test"


def _error(**arguments):
  with pytest.raises(DataError) as raised:
    load_task("STS-B", **arguments)
  assert "\n" not in str(raised.value)
  return str(raised.value)


def test_the_benchmarks_files(tmp_path, monkeypatch):
  folder = tmp_path / "STS" / "STSBenchmark"
  folder.mkdir(parents=True)
  for split in SPLITS:
    (folder / f"sts-{split}.csv").write_text(_csv(rows(TABLE, split)), encoding="utf-8")
  _check(load_task("STS-B", data_dir=tmp_path))
  (folder / "sts-dev.csv").unlink()
  assert f"{folder / 'sts-dev.csv'} does not exist" in _error(data_dir=tmp_path)
  (folder / "sts-dev.csv").mkdir()
  assert _error(data_dir=tmp_path) == f"{folder / 'sts-dev.csv'} is a folder; expected a file"
  with rejected(ConfigError, "stsb_gold"):
    load_task("STS-B", data_dir=tmp_path, stsb_gold="x.csv")
  monkeypatch.undo()
  real = shared("data/STS/STSBenchmark")
  assert load_task("STS-B", data_dir=real).source == f"the STS benchmark's files in {real}"


@pytest.mark.parametrize("gold", ["sts-test.csv", "original/sts-test.csv", None])
def test_glues_files(tmp_path, gold):
  folder = write(tmp_path / "STS-B", TABLE)
  if gold is None:
    data = load_task("STS-B", data_dir=tmp_path)
    assert data.source == f"GLUE's files in {folder}, test without gold, because sts-test.csv is missing"
    assert data.splits_with_gold(("dev", "test")) == ["dev"] and data.spec.eval_split is None
    return
  path = folder / gold
  path.parent.mkdir(exist_ok=True)
  path.write_text(_csv(rows(TABLE, "test")), encoding="utf-8")
  data = load_task("STS-B", data_dir=tmp_path)
  _check(data)
  assert data.source == f"GLUE's files in {folder}, test gold from {path}"


def test_tfds_returns_the_rows_of_glue_with_the_gold_of_the_benchmark(tfds_root, tmp_path, monkeypatch):
  cut_network(monkeypatch)
  gold = _gold(tmp_path, rows(TABLE, "test"))
  data = load_task("STS-B", tfds_data_dir=tfds_root, stsb_gold=gold)
  _check(data)
  assert data.source == f"TensorFlow Datasets glue/stsb/2.0.0 in {tfds_root}, test gold from {gold}"
  before = sorted(tfds_root.rglob("*"))
  message = _error(tfds_data_dir=tfds_root)
  assert f"{stsb.GOLD_URL} (no connection to " in message and "data_dir" in message
  assert sorted(tfds_root.rglob("*")) == before
  record = next(tfds_root.glob("glue/stsb/2.0.0/glue-validation*"))
  record.write_bytes(record.read_bytes()[:-5])
  message = _error(tfds_data_dir=tfds_root, stsb_gold=gold)
  assert (
    f"validation split of TensorFlow Datasets glue/stsb/2.0.0 in {tfds_root} " in message and "DataLossError" in message
  )


def test_gold_may_be_worded_differently_but_not_in_its_letters(tfds_root, tmp_path):
  other = [(first.upper().replace(" ", "  "), second + " .", gold) for first, second, gold in rows(TABLE, "test")]
  other[3] = ("another", *other[3][1:])
  other[7] = (other[7][0], "another", other[7][2])
  data = load_task("STS-B", tfds_data_dir=tfds_root, stsb_gold=_gold(tmp_path, other))
  assert data.splits["test"].sentences_a == tuple(row[0] for row in rows(TABLE, "test"))
  assert "(2 of its 200 rows worded differently) (other sentences" in data.source
  other[5] = ("a third", *other[5][1:])
  gold = _gold(tmp_path, other)
  message = _error(tfds_data_dir=tfds_root, stsb_gold=gold)
  assert message.startswith(f"{gold} ") and message.endswith("3 of 200 rows differ, first line 4")


@pytest.mark.parametrize("source", ["files", "TFDS"])
def test_gold_of_other_rows_is_rejected(tfds_root, tmp_path, source):
  gold = write(tmp_path / "STS-B", TABLE) / "sts-test.csv"
  arguments = {"data_dir": tmp_path} if source == "files" else {"tfds_data_dir": tfds_root, "stsb_gold": gold}
  test = rows(TABLE, "test")
  gold.write_text(_csv(test[:-1]), encoding="utf-8")
  assert f"{gold} has 199 pairs; GLUE's test split of STS-B has 200" in _error(**arguments)
  gold.write_text(_csv(test[1:] + test[:1]), encoding="utf-8")
  assert "200 of 200 rows differ, first line 1" in _error(**arguments)


@pytest.fixture
def server(monkeypatch):
  """Returns a local HTTP server that replaces the servers of GLUE and of the benchmark."""
  import tensorflow_datasets as tfds

  with serve(monkeypatch) as server:
    monkeypatch.setattr(stsb, "GOLD_URL", f"{server.address}/gold.tar.gz")
    config = tfds.builder_cls("glue").builder_configs["stsb"]
    monkeypatch.setattr(config, "data_url", f"{server.address}/STS-B.zip")
    yield server


def _serve_gold(server, monkeypatch, rows, name="stsbenchmark/sts-test.csv"):
  content = _csv(rows).encode()
  member = tarfile.TarInfo(name)
  member.size = len(content)
  file = io.BytesIO()
  with tarfile.open(fileobj=file, mode="w:gz") as archive:
    archive.addfile(member, io.BytesIO(content))
  server.content["/gold.tar.gz"] = file.getvalue()
  monkeypatch.setattr(stsb, "GOLD_MD5", hashlib.md5(file.getvalue()).hexdigest())


def test_download_and_preparation_by_tfds(tmp_path, server, monkeypatch):
  need_preparation()
  file = io.BytesIO()
  with zipfile.ZipFile(file, "w") as archive:
    for split in SPLITS:
      lines = ["index\tsentence1\tsentence2\tscore"]
      for index, (first, second, gold) in enumerate(rows(TABLE, split)):
        lines.append(f"{index}\t{first}\t{second}\t{gold}")
      if split == "test":  # GLUE hides its scores
        lines = [line.rpartition("\t")[0] for line in lines]
      archive.writestr(f"STS-B/{split}.tsv", "\n".join(lines) + "\n")
  _serve_gold(server, monkeypatch, rows(TABLE, "test"))
  server.content["/STS-B.zip"] = file.getvalue()[:500]
  half = tmp_path / "half"
  assert "STS-B cannot be loaded from TensorFlow Datasets" in _error(tfds_data_dir=half)
  assert not [path for path in half.rglob("*") if "stsb" in path.parts and "2.0.0" in path.name]
  server.content["/STS-B.zip"] = file.getvalue()
  server.requested.clear()
  root = tmp_path / "tfds"
  for _ in range(2):
    data = load_task("STS-B", tfds_data_dir=root)
    _check(data)
  folder = root / "downloads" / "stsbenchmark"
  assert [path.name for path in folder.iterdir()] == ["sts-test.csv"]
  assert data.source.endswith(f"test gold from {folder / 'sts-test.csv'}")
  assert server.requested == ["/STS-B.zip", "/STS-B.zip", "/gold.tar.gz"]  # The first tries the address.


def test_a_wrong_download_is_rejected_and_leaves_no_file(tfds_root, server, monkeypatch):
  assert "HTTPError: 404" in _error(tfds_data_dir=tfds_root)
  md5 = stsb.GOLD_MD5
  _serve_gold(server, monkeypatch, rows(TABLE, "test"), name="elsewhere.csv")
  assert "KeyError" in _error(tfds_data_dir=tfds_root)
  monkeypatch.setattr(stsb, "GOLD_MD5", md5)
  assert f"expected {md5}" in _error(tfds_data_dir=tfds_root)
  server.content["/gold.tar.gz"] = b"<html>moved</html>"
  monkeypatch.setattr(stsb, "GOLD_MD5", hashlib.md5(b"<html>moved</html>").hexdigest())
  assert "ReadError" in _error(tfds_data_dir=tfds_root)
  assert not (tfds_root / "downloads").exists()
