"""data/stsb.py: STS-B from files and from TensorFlow Datasets."""

import hashlib
import io
import shutil
import tarfile
import zipfile

import pytest

from bert_flow_tf.data import stsb, tfds_source
from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.data.tasks import load_task
from bert_flow_tf.errors import ConfigError, DataError
from tests.data.tfds_cases import cut_network, need_preparation, serve, write_tfds
from tests.testing import shared

SIZES = {"train": 30, "validation": 20, "test": 200}


def _rows(split):
  """Returns (sentence1, sentence2, score) of an artificial STS-B; no score is a float32."""
  return [(f"{split} café no. {i}", f'a "second" one, {i}', 0.1 + i % 50 / 10) for i in range(SIZES[split])]


def _label(split, score):
  return -1.0 if split == "test" else score


def _csv(rows):
  return "".join(f"g\tf\ty\t1\t{score:.3f}\t{first}\t{second}\n" for first, second, score in rows)


def _write_tfds(root, label=_label):
  """Writes glue/stsb in the format of TFDS, with GLUE's -1 for test."""
  return write_tfds(
    root,
    "glue/stsb",
    "2.0.0",
    {
      split: [
        {"sentence1": first, "sentence2": second, "label": label(split, score), "idx": index}
        for index, (first, second, score) in enumerate(_rows(split))
      ]
      for split in SIZES
    },
  )


@pytest.fixture(autouse=True)
def published(monkeypatch):
  """Makes the artificial rows the published ones."""
  for name, split in (("train", "train"), ("dev", "validation"), ("test", "test")):
    digest = SentencePairs(*zip(*_rows(split), strict=True)).digest()
    monkeypatch.setitem(stsb.PUBLISHED, name, (SIZES[split], digest))


@pytest.fixture(scope="module")
def tfds_root(tmp_path_factory):
  return _write_tfds(tmp_path_factory.mktemp("tfds"))


def _gold(tmp_path, rows):
  path = tmp_path / "gold.csv"
  path.write_text(_csv(rows), encoding="utf-8")
  return path


def _write_layout(folder):
  folder = folder / "STS" / "STSBenchmark"
  folder.mkdir(parents=True)
  for name, split in (("train", "train"), ("dev", "validation"), ("test", "test")):
    (folder / f"sts-{name}.csv").write_text(_csv(_rows(split)), encoding="utf-8")
  return folder


@pytest.fixture
def no_network(monkeypatch):
  cut_network(monkeypatch)


def _error(**arguments):
  with pytest.raises(DataError) as raised:
    load_task("STS-B", **arguments)
  assert "\n" not in str(raised.value)
  return str(raised.value)


def test_tfds_returns_the_rows_of_glue_with_the_gold_of_the_benchmark(tfds_root, tmp_path, no_network):
  gold = _gold(tmp_path, _rows("test"))
  data = load_task("STS-B", tfds_data_dir=tfds_root, stsb_gold=gold)
  assert list(data.splits) == ["train", "dev", "test"]
  for name, split in (("train", "train"), ("dev", "validation"), ("test", "test")):
    pairs = data.splits[name]
    assert pairs.sentences_a == tuple(row[0] for row in _rows(split))
    assert pairs.sentences_b == tuple(row[1] for row in _rows(split))
    assert pairs.scores.tolist() == [round(row[2], 3) for row in _rows(split)]
  assert data.source == f"TensorFlow Datasets glue/stsb/2.0.0 in {tfds_root}, test gold from {gold}"


def test_gold_may_be_worded_differently_but_not_in_its_letters(tfds_root, tmp_path):
  rows = [
    (first.upper().replace(" ", "  "), second.replace('"', "``"), score) for first, second, score in _rows("test")
  ]
  rows[3] = ("another", rows[3][1], rows[3][2])
  rows[7] = (rows[7][0], "another", rows[7][2])
  data = load_task("STS-B", tfds_data_dir=tfds_root, stsb_gold=_gold(tmp_path, rows))
  assert data.splits["test"].sentences_a == tuple(row[0] for row in _rows("test"))
  assert ", test gold from " in data.source and "(2 of its 200 rows worded differently) (other sentences" in data.source
  rows[5] = ("a third", rows[5][1], rows[5][2])
  gold = _gold(tmp_path, rows)
  message = _error(tfds_data_dir=tfds_root, stsb_gold=gold)
  assert message.startswith(f"{gold} ") and "3 of 200 rows differ" in message
  assert "first line 4: 'another | " in message and "in GLUE 'test café no. 3 | " in message


def test_gold_of_other_rows_is_rejected(tfds_root, tmp_path):
  gold = _gold(tmp_path, _rows("test")[:-1])
  assert f"{gold} has 199 pairs; GLUE's test split of STS-B has 200" in _error(tfds_data_dir=tfds_root, stsb_gold=gold)
  shifted = _rows("test")[1:] + _rows("test")[:1]
  message = _error(tfds_data_dir=tfds_root, stsb_gold=_gold(tmp_path, shifted))
  assert "200 of 200 rows differ, first line 1:" in message


def test_gold_is_read_before_anything_is_downloaded(tmp_path, monkeypatch):
  monkeypatch.setattr(tfds_source, "prepared", lambda *_, **__: pytest.fail("asked TFDS first"))
  assert _error(stsb_gold=tmp_path / "no.csv").startswith(f"{tmp_path / 'no.csv'} ")
  gold = _gold(tmp_path, [("a", "b", -1.0)])
  assert _error(stsb_gold=gold).startswith(f"{gold}, line 1: ")


def test_a_hidden_label_is_not_a_score(tmp_path):
  root = _write_tfds(tmp_path / "tfds", label=lambda split, score: -1.0 if split != "train" else score)
  message = _error(tfds_data_dir=root, stsb_gold=_gold(tmp_path, _rows("test")))
  assert message.startswith("glue/stsb, dev split, row 1: ")


def test_damaged_records_are_named(tfds_root, tmp_path):
  root = shutil.copytree(tfds_root, tmp_path / "tfds")
  record = next(root.glob("glue/stsb/2.0.0/glue-validation*"))
  record.write_bytes(record.read_bytes()[:-5])
  message = _error(tfds_data_dir=root, stsb_gold=_gold(tmp_path, _rows("test")))
  assert f"validation split of glue/stsb in {root}/glue/stsb/2.0.0" in message and "DataLossError" in message


def test_offline_without_gold(tfds_root, no_network):
  before = sorted(tfds_root.rglob("*"))
  message = _error(tfds_data_dir=tfds_root)
  assert f"{stsb.GOLD_URL} (ConnectionError: no route to" in message and "data_dir" in message
  assert sorted(tfds_root.rglob("*")) == before


def test_gold_is_not_fetched_into_a_bucket(no_network):
  with pytest.raises(DataError, match="gs://bucket") as raised:
    stsb._downloaded_gold("gs://bucket")
  assert raised.value.argument == "stsb_gold"


@pytest.fixture
def server(monkeypatch):
  """Returns a local HTTP server that replaces those of GLUE and of the benchmark."""
  import tensorflow_datasets as tfds

  with serve(monkeypatch) as server:
    monkeypatch.setattr(stsb, "GOLD_URL", f"{server.address}/gold.tar.gz")
    config = tfds.builder_cls("glue").builder_configs["stsb"]
    monkeypatch.setattr(config, "data_url", f"{server.address}/STS-B.zip")
    yield server


def _archive(rows, name="stsbenchmark/sts-test.csv"):
  content = _csv(rows).encode()
  member = tarfile.TarInfo(name)
  member.size = len(content)
  file = io.BytesIO()
  with tarfile.open(fileobj=file, mode="w:gz") as archive:
    archive.addfile(member, io.BytesIO(content))
  return file.getvalue()


def _serve_gold(server, monkeypatch, archive):
  server.content["/gold.tar.gz"] = archive
  monkeypatch.setattr(stsb, "GOLD_MD5", hashlib.md5(archive).hexdigest())


def test_gold_is_fetched_once(tfds_root, tmp_path, server, monkeypatch):
  root = shutil.copytree(tfds_root, tmp_path / "tfds")
  _serve_gold(server, monkeypatch, _archive(_rows("test")))
  for _ in range(2):
    data = load_task("STS-B", tfds_data_dir=root)
    assert data.splits["test"].scores.tolist() == [round(row[2], 3) for row in _rows("test")]
  assert server.requested == ["/gold.tar.gz"]
  folder = root / "downloads" / "stsbenchmark"
  assert [path.name for path in folder.iterdir()] == ["sts-test.csv"]
  assert data.source.endswith(f"test gold from {folder / 'sts-test.csv'}")


def test_a_wrong_archive_is_rejected_and_leaves_no_file(tfds_root, tmp_path, server, monkeypatch):
  root = shutil.copytree(tfds_root, tmp_path / "tfds")
  assert "HTTPError: 404" in _error(tfds_data_dir=root)
  server.content["/gold.tar.gz"] = _archive(_rows("test"))
  assert f"expected {stsb.GOLD_MD5}" in _error(tfds_data_dir=root)
  _serve_gold(server, monkeypatch, _archive(_rows("test"), name="elsewhere.csv"))
  assert "KeyError" in _error(tfds_data_dir=root)
  _serve_gold(server, monkeypatch, b"<html>moved</html>")
  assert "ReadError" in _error(tfds_data_dir=root)
  assert not (root / "downloads").exists()


def test_a_download_with_other_gold_is_rejected(tfds_root, tmp_path, server, monkeypatch):
  root = shutil.copytree(tfds_root, tmp_path / "tfds")
  (first, second, _), *others = _rows("test")
  _serve_gold(server, monkeypatch, _archive([(first, second, 4.9), *others]))
  message = _error(tfds_data_dir=root)
  assert "sts-test.csv: other sentences or gold than the STS benchmark's test split" in message


def _glue_zip():
  """Returns a zip in GLUE's format: `STS-B/{train,dev,test}.tsv` with a header, no score column in test."""
  file = io.BytesIO()
  with zipfile.ZipFile(file, "w") as archive:
    for name, split in (("train", "train"), ("dev", "validation"), ("test", "test")):
      columns = ["index", "sentence1", "sentence2"] + ([] if split == "test" else ["score"])
      lines = ["\t".join(columns)]
      for index, (first, second, score) in enumerate(_rows(split)):
        lines.append("\t".join([str(index), first, second] + ([] if split == "test" else [f"{score:.3f}"])))
      archive.writestr(f"STS-B/{name}.tsv", "\n".join(lines) + "\n")
  return file.getvalue()


def test_download_and_preparation_by_tfds(tmp_path, server, monkeypatch):
  need_preparation()
  server.content["/STS-B.zip"] = _glue_zip()
  _serve_gold(server, monkeypatch, _archive(_rows("test")))
  for _ in range(2):
    data = load_task("STS-B", tfds_data_dir=tmp_path / "tfds")
    for name, split in (("train", "train"), ("dev", "validation"), ("test", "test")):
      assert data.splits[name].sentences_a == tuple(row[0] for row in _rows(split))
      assert data.splits[name].scores.tolist() == [round(row[2], 3) for row in _rows(split)]
  assert server.requested == ["/STS-B.zip", "/STS-B.zip", "/gold.tar.gz"]  # The first tries the address.


def test_a_download_that_fails_half_way_leaves_no_data_set(tmp_path, server, monkeypatch):
  need_preparation()
  server.content["/STS-B.zip"] = _glue_zip()[:2000]
  root = tmp_path / "tfds"
  assert "STS-B cannot be loaded from TensorFlow Datasets" in _error(tfds_data_dir=root)
  assert not [path for path in root.rglob("*") if "stsb" in path.parts and "2.0.0" in path.name]


def test_each_file_of_the_layout_is_required(tmp_path):
  folder = _write_layout(tmp_path)
  (folder / "sts-dev.csv").unlink()
  assert f"{folder / 'sts-dev.csv'} does not exist" in _error(data_dir=tmp_path)
  (folder / "sts-dev.csv").mkdir()
  assert _error(data_dir=tmp_path) == f"{folder / 'sts-dev.csv'} is a folder; expected a text file"


def test_files_and_separate_gold_exclude_each_other(tmp_path):
  with pytest.raises(ConfigError) as raised:
    load_task("STS-B", data_dir=tmp_path, stsb_gold="x.csv")
  assert raised.value.argument == "stsb_gold"


def _write_glue(folder):
  """Writes GLUE's files, whose columns have GLUE's positions, without a score in test."""
  folder.mkdir(parents=True)
  for name, split in (("train", "train"), ("dev", "validation"), ("test", "test")):
    score = [] if split == "test" else ["score"]
    lines = ["\t".join(["index", "genre", "filename", "year", "old_index", "source1", "source2", *FIELDS, *score])]
    for i, (first, second, gold) in enumerate(_rows(split)):
      lines.append("\t".join([str(i), *"gfyiss", first, second, *([f"{gold:.3f}"] if score else [])]))
    (folder / f"{name}.tsv").write_text("\n".join([*lines, "cut\tline", ""]) + "\n", encoding="utf-8")


FIELDS = ("sentence1", "sentence2")


@pytest.mark.parametrize("gold", ["sts-test.csv", "original/sts-test.csv", None])
@pytest.mark.parametrize("inside", [True, False])
def test_glues_files(tmp_path, gold, inside):
  folder = tmp_path / "STS-B"
  _write_glue(folder)
  if gold is not None:
    (folder / gold).parent.mkdir(exist_ok=True)
    (folder / gold).write_text(_csv(_rows("test")), encoding="utf-8")
  data = load_task("STS-B", data_dir=f"{folder}/" if inside else tmp_path)
  for name, split in (("train", "train"), ("dev", "validation"), ("test", "test")):
    pairs = data.splits[name]
    assert pairs.sentences_a == tuple(row[0] for row in _rows(split))
    assert pairs.sentences_b == tuple(row[1] for row in _rows(split))
    if name != "test" or gold is not None:
      assert pairs.scores.tolist() == [round(row[2], 3) for row in _rows(split)]
  notes = ", ".join(f"1 malformed line of STS-B/{name}.tsv left out" for name in ("train", "dev", "test"))
  end = "test without gold, because sts-test.csv is missing" if gold is None else f"test gold from {folder / gold}"
  assert data.source == f"GLUE's files in {folder}, {notes}, {end}"
  assert data.splits_with_gold(("dev", "test")) == (["dev"] if gold is None else ["dev", "test"])
  assert data.spec.eval_split == ("test" if gold else None)


def test_gold_of_glues_test_must_be_of_the_same_rows(tmp_path):
  _write_glue(tmp_path / "STS-B")
  (tmp_path / "STS-B/sts-test.csv").write_text(_csv(_rows("test")[1:] + _rows("test")[:1]), encoding="utf-8")
  assert "200 of 200 rows differ, first line 1:" in _error(data_dir=tmp_path)


def test_the_real_files_are_the_published_ones(monkeypatch):
  monkeypatch.undo()
  folder = shared("data/STS/STSBenchmark")
  assert load_task("STS-B", data_dir=folder).source == f"the STS benchmark's files in {folder}"
