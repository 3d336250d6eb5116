"""data/semeval.py and data/loading.py: STS-12 to STS-16 and the builders, from files, archives and downloads."""

import dataclasses
import io
import shutil
import zipfile

import numpy as np
import pytest

from bert_flow_tf.data import semeval
from bert_flow_tf.data.loading import load_years
from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.data.task import Paths
from bert_flow_tf.data.tasks import find_task, load_task
from bert_flow_tf.errors import DataError
from tests.data.table_cases import TABLES, check_pairs, rows, text, write
from tests.data.tfds_cases import cut_network, need_preparation, serve
from tests.testing import shared

STS15 = semeval.YEARS[3]


def _files(year, prefix="STS"):
  """Returns {name: content} of an artificial task: subset k has k + 2 pairs, the second without gold."""
  files = {}
  for k, subset in enumerate(year.subsets):
    rows = range(k + 2)
    files[f"{prefix}.input.{subset}.txt"] = "".join(f'{subset} "{i}\tother {i}\thttp://source\n' for i in rows)
    files[f"{prefix}.gs.{subset}.txt"] = "".join("\n" if i == 1 else f"{i % 5}.{k}33333\n" for i in rows)
  return files


def _write(folder, year, prefix="STS"):
  folder.mkdir(parents=True)
  for name, content in _files(year, prefix).items():
    (folder / name).write_text(content, encoding="utf-8")


def _zip(year, prefix="STS"):
  file = io.BytesIO()
  with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
    archive.writestr(f"{year.inside}/00-readme.txt", "hello")
    for name, content in _files(year, prefix).items():
      archive.writestr(f"{year.inside}/{name}", content)
  return file.getvalue()


def _assert_artificial(pairs, year):
  assert [subset.name for subset in pairs.subsets] == list(year.subsets)
  for k, subset in enumerate(pairs.subsets):
    scored = [i for i in range(k + 2) if i != 1]
    place = slice(subset.start, subset.stop)
    assert pairs.sentences_a[place] == tuple(f'{subset.name} "{i}' for i in scored)
    assert pairs.sentences_b[place] == tuple(f"other {i}" for i in scored)
    assert pairs.scores[place].tolist() == [float(f"{i % 5}.{k}33333") for i in scored]


@pytest.mark.parametrize("year", semeval.YEARS, ids=lambda year: year.name)
def test_the_real_tasks(year):
  folder = shared("data")
  data = load_task(year.name, data_dir=folder)
  pairs = data.splits["test"]
  # Pairs, gold and order have the published digest; else the source says so.
  assert data.source.startswith(f"{year.name}'s files in {folder / year.folder}") and "expected" not in data.source
  assert [subset.name for subset in pairs.subsets] == list(year.subsets)
  assert (len(pairs), data.spec.eval_split) == (year.size, "test") and not np.isnan(pairs.scores).any()


@pytest.mark.parametrize("year", semeval.YEARS, ids=lambda year: year.name)
@pytest.mark.parametrize(("place", "prefix"), [(0, "STS"), (1, "STS2016"), (2, "STS")])
def test_searched_folders(tmp_path, year, place, prefix):
  folder = tmp_path / year.places[place]
  _write(folder, year, prefix)
  data = load_task(year.name, data_dir=tmp_path)
  _assert_artificial(data.splits["test"], year)
  size, unannotated = len(data.splits["test"]), len(year.subsets)
  assert data.source == (
    f"{year.name}'s files in {folder}: {size} pairs, {unannotated} without gold left out "
    f"({size} pairs, expected the {year.size} of {year.name}'s test split)"
  )


@pytest.mark.parametrize("folder", ["", "STS"])
def test_the_organizers_archive_is_read_without_unpacking(tmp_path, folder):
  (tmp_path / folder).mkdir(exist_ok=True)
  archive = tmp_path / folder / "STS2015-en-test.zip"
  archive.write_bytes(_zip(STS15))
  data = load_task("STS-15", data_dir=tmp_path)
  _assert_artificial(data.splits["test"], STS15)
  assert data.source.startswith(f"STS-15's files in {archive}/test_evaluation_task2a/: 15 pairs")
  archive.write_bytes(_zip(STS15)[:-30])
  with pytest.raises(DataError, match=str(archive)):
    load_task("STS-15", data_dir=tmp_path)


@pytest.mark.parametrize(
  ("content", "message"), [("\n" * 4, ""), ("1\n", r"has 1 line, .*STS\.input\.belief\.txt 4 pairs"), (None, "")]
)
def test_each_subset_and_its_gold_are_required(tmp_path, content, message):
  folder = tmp_path / STS15.folder
  _write(folder, STS15)
  gold = folder / "STS.gs.belief.txt"
  gold.unlink()
  if content is not None:
    gold.write_text(content)
  with pytest.raises(DataError, match=rf"^{gold} {message}"):
    load_task("STS-15", data_dir=tmp_path)


FULL = 'a "x\tb\t0.5\nc\td\t\ne\tf\t5\n'


@pytest.mark.parametrize("folder", ["STS/STS15-en-test", "STS/STS15", "STS15", "STS-15", "STS/STS-15", ""])
def test_the_published_file_of_all_pairs(tmp_path, folder):
  path = tmp_path / folder / "full.txt"
  path.parent.mkdir(parents=True, exist_ok=True)
  path.write_text(FULL)
  data = load_task("sts-15", data_dir=tmp_path)
  for split in ("train", "dev", "test"):
    pairs = data.split(split)
    assert (pairs.sentences_a, pairs.sentences_b, pairs.subsets) == (('a "x', "c", "e"), ("b", "d", "f"), ())
    np.testing.assert_array_equal(pairs.scores, [0.5, np.nan, 5.0])
  assert data.source == f"{path}: 3 pairs, 1 without gold"
  path.write_text("a\tb\thttp://one\nc\td\n")
  without = load_task("STS-15", data_dir=tmp_path)
  assert without.source == f"{path}: 2 pairs, 2 without gold" and without.spec.eval_split is None
  for content, message in (("a\tb\t1\nc\td\tx\n", "the score is 'x'"), ("a\tb\nc\n", "1 column, expected 2 sentences")):
    path.write_text(content)
    with pytest.raises(DataError, match=f"^{path}, line 2: {message}"):
      load_task("STS-15", data_dir=tmp_path)


def test_a_union_reads_one_file_or_that_of_each_year(tmp_path):
  for year in semeval.YEARS:
    (tmp_path / year.name).mkdir()
    (tmp_path / year.name / "full.txt").write_text(FULL)
  pairs = load_task("sts-12-16", data_dir=tmp_path).splits["test"]
  assert [subset.name for subset in pairs.subsets] == [year.name for year in semeval.YEARS] and len(pairs) == 15
  (tmp_path / "STS-12-16").mkdir()
  (tmp_path / "STS-12-16/full.txt").write_text(FULL)
  for folder in (tmp_path, tmp_path / "STS-12-16"):
    data = load_task("STS-12-16", data_dir=folder)
    assert len(data.splits["test"]) == 3 and data.source.startswith(f"{tmp_path}/STS-12-16/full.txt: ")


def test_full_txt_of_data_dir_comes_before_the_organizers_files(tmp_path):
  _write(tmp_path / STS15.folder, STS15)
  (tmp_path / STS15.folder / "full.txt").write_text(FULL)
  assert len(load_task("STS-15", data_dir=tmp_path).splits["test"].subsets) == 5
  assert len(load_task("STS-15", data_dir=tmp_path / STS15.folder).splits["test"]) == 3


@pytest.fixture
def years(tmp_path_factory, monkeypatch):
  """Sets sizes and digests of the artificial tasks, and addresses without a server."""
  need_preparation()
  years = []
  for year in semeval.YEARS:
    folder = tmp_path_factory.mktemp("year")
    _write(folder / year.folder, year)
    pairs = year.pairs_in(str(folder))
    _assert_artificial(pairs, year)
    url = f"http://127.0.0.1:9/{year.url.rsplit('/', 1)[1]}"
    years.append(dataclasses.replace(year, size=len(pairs), digest=pairs.digest(), url=url))
  monkeypatch.setattr(semeval, "YEARS", tuple(years))
  return years


def _from_tfds(years, root):
  return load_years(tuple(years), find_task("STS-12-16"), Paths(tfds_data_dir=str(root)))


def test_tfds_builds_from_manual_files(tmp_path, years, monkeypatch):
  cut_network(monkeypatch)
  manual = tmp_path / "downloads" / "manual"
  _write(manual / years[0].folder, years[0])
  (manual / "STS2016-en-test.zip").write_bytes(_zip(years[4], "STS2016"))
  loaded = _from_tfds((years[0], years[4]), tmp_path)
  pairs = loaded.splits["test"]
  assert loaded.source == "; ".join(
    f"TensorFlow Datasets semeval_sts/{c}/1.0.0 in {tmp_path}" for c in ("sts12", "sts16")
  )
  assert list(pairs.groups()) == ["STS-12", "STS-16"] and len(pairs) == 30
  shutil.rmtree(manual)  # Prepared by now.
  for year in (years[0], years[4]):
    _assert_artificial(_from_tfds([year], tmp_path).splits["test"], year)


def test_tfds_downloads(tmp_path, years, monkeypatch):
  with serve(monkeypatch) as server:
    year = dataclasses.replace(years[2], url=f"{server.address}/STS2014-en-test.zip")
    monkeypatch.setattr(semeval, "YEARS", (year,))
    server.content["/STS2014-en-test.zip"] = _zip(year)
    for _ in range(2):
      _assert_artificial(_from_tfds([year], tmp_path).splits["test"], year)
    assert server.requested == ["/STS2014-en-test.zip"] * 2  # The first tries the address.


@pytest.mark.parametrize("kind", ["another size", "other content", "no archive"])
def test_another_download_is_rejected(tmp_path, years, monkeypatch, kind):
  with serve(monkeypatch) as server:
    year = dataclasses.replace(years[2], url=f"{server.address}/STS2014-en-test.zip", size=years[2].size + 1)
    monkeypatch.setattr(semeval, "YEARS", (year,))
    archives = {"another size": _zip(year), "other content": _zip(years[3]), "no archive": b"<html>moved</html>"}
    server.content["/STS2014-en-test.zip"] = archives[kind]
    with pytest.raises(DataError) as raised:
      _from_tfds([year], tmp_path)
    expected = {
      "another size": "21 pairs, expected the 22 of STS-14",
      "other content": "has not the files of STS-14",
      "no archive": "STS-14 cannot be loaded from TensorFlow Datasets",
    }
    assert expected[kind] in str(raised.value) and "\n" not in str(raised.value)
  assert not list(tmp_path.glob("semeval_sts/sts14/1.0.0"))


@pytest.fixture
def sick(monkeypatch):
  """Makes the artificial rows of SICK the published ones."""
  need_preparation()
  table, published = TABLES["SICK-R"], {}
  for split in table.files:
    pairs = SentencePairs(*zip(*rows(table, split), strict=True))
    published[split] = (len(pairs), pairs.digest())
  table = dataclasses.replace(table, published=published)
  monkeypatch.setattr(semeval, "SICK_R", table)
  return table


def test_sick_builds_from_downloads_and_manual_files(tmp_path, sick, monkeypatch):
  write(tmp_path / "downloads/manual", sick, splits=["dev"])
  with serve(monkeypatch) as server:
    archives = {}
    for split, url in sick.archives.items():
      archives[split] = f"{server.address}/{url.rsplit('/', 1)[1]}"
      file = io.BytesIO()
      with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(sick.files[split][0], text(sick, split))
      server.content[archives[split].removeprefix(server.address)] = file.getvalue()
    monkeypatch.setattr(semeval, "SICK_R", dataclasses.replace(sick, archives=archives))
    for _ in range(2):
      data = load_task("SICK-R", tfds_data_dir=tmp_path)
      for split, pairs in data.splits.items():
        check_pairs(pairs, sick, split)
    assert data.source == f"TensorFlow Datasets sick_r/1.0.0 in {tmp_path}"
    assert sorted(server.requested) == ["/sick_test_annotated.zip"] * 2 + ["/sick_train.zip"] * 2
