"""data/sick.py: SICK from files, archives and TensorFlow Datasets."""

import csv
import io
import zipfile

import pytest

from bert_flow_tf.data import sick
from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.data.tasks import KINDS, load_task
from bert_flow_tf.errors import DataError
from tests.data.tfds_cases import cut_network, need_preparation, serve
from tests.testing import shared

HEADER = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"
SIZES = {"train": 4, "dev": 2, "test": 3}


def _rows(split):
  return [(f'A "{split}', f"B {i}", 1 + i % 5 * 0.9) for i in range(SIZES[split])]


def _text(split):
  rows = (f"{i}\t{a}\t{b}\t{score:.1f}\tNEUTRAL\n" for i, (a, b, score) in enumerate(_rows(split)))
  return HEADER + "".join(rows)


def _write(folder):
  folder.mkdir(parents=True, exist_ok=True)
  for split, name in sick.FILES.items():
    (folder / name).write_text(_text(split))


def _zip(split):
  file = io.BytesIO()
  with zipfile.ZipFile(file, "w") as archive:
    archive.writestr(sick.FILES[split], _text(split))
    archive.writestr("readme.txt", "hello")
  return file.getvalue()


def _assert_artificial(splits):
  assert list(splits) == ["train", "dev", "test"]
  for split, pairs in splits.items():
    assert list(zip(pairs.sentences_a, pairs.sentences_b, pairs.scores, strict=True)) == [
      (a, b, round(score, 1)) for a, b, score in _rows(split)
    ]


def test_the_real_files_row_by_row():
  folder = shared("data")
  data = load_task("SICK-R", data_dir=folder)
  assert {split: len(pairs) for split, pairs in data.splits.items()} == {"train": 4500, "dev": 500, "test": 4927}
  assert data.source == f"SICK's files in {folder}"
  for split, name in sick.FILES.items():
    with open(folder / "SICK" / name, encoding="utf-8", newline="") as file:
      _, *rows = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
    pairs = data.splits[split]
    assert pairs.sentences_a == tuple(row[1] for row in rows) and pairs.sentences_b == tuple(row[2] for row in rows)
    assert pairs.scores.tolist() == [float(row[3]) for row in rows]
    assert pairs.scores.min() == 1 and pairs.scores.max() == 5
  assert len(data.fitting_pairs(use_full=True)) == 9927


@pytest.mark.parametrize("folder", ["SICK", "."])
def test_searched_folders(tmp_path, folder):
  _write(tmp_path / folder)
  data = load_task("sick", data_dir=tmp_path)
  _assert_artificial(data.splits)
  assert data.source.endswith(
    ", train (4 pairs, expected the 4500 of SICK's train split), dev (2 pairs, expected the 500 of SICK's dev split), "
    "test (3 pairs, expected the 4927 of SICK's test split)"
  )


@pytest.mark.parametrize("folder", ["SICK", "."])
def test_the_organizers_archives_are_read_without_unpacking(tmp_path, folder):
  (tmp_path / folder).mkdir(exist_ok=True)
  for split in SIZES:
    (tmp_path / folder / sick.URLS[split].rsplit("/", 1)[1]).write_bytes(_zip(split))
  _assert_artificial(load_task("SICK-R", data_dir=tmp_path).splits)


@pytest.mark.parametrize(
  ("old", "new", "line"),
  [
    ("\t1.9\t", "\t5.9\t", 3),
    ("\t1.9\t", "\t\t", 3),
    ("\tB 1\t", "\t", 3),
    ("sentence_A", "sentenceA", 1),
    (HEADER, "", 1),
  ],
)
def test_rejects_malformed_files(tmp_path, old, new, line):
  _write(tmp_path / "SICK")
  path = tmp_path / "SICK" / "SICK_trial.txt"
  path.write_text(path.read_text().replace(old, new))
  with pytest.raises(DataError) as raised:
    load_task("SICK-R", data_dir=tmp_path)
  assert str(raised.value).startswith(f"{path}, line {line}: ")


@pytest.mark.parametrize("place", [1, 3])
@pytest.mark.parametrize("task", ["SICK-R", "SICK-E"])
def test_another_word_or_score_is_noticed(tmp_path, monkeypatch, caplog, task, place):
  """The real files, with one field of one line changed."""
  for name in sick.FILES.values():
    (tmp_path / name).write_bytes((shared("data/SICK") / name).read_bytes())
  path = tmp_path / sick.FILES["dev"]
  lines = path.read_text(encoding="utf-8").split("\n")
  fields = lines[7].split("\t")
  fields[place] = {1: fields[1] + "s", 3: "1.234"}[place]
  fields[4] = "NEUTRAL" if fields[4].strip() != "NEUTRAL" else "ENTAILMENT"
  path.write_text("\n".join([*lines[:7], "\t".join(fields), *lines[8:]]), encoding="utf-8")
  data = load_task(task, data_dir=tmp_path, kinds=KINDS)
  (warning,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
  assert "SICK_trial.txt" in warning and "other sentences or gold" in warning
  assert data.source.count("other sentences or gold") == 1 and ", dev (" in data.source
  if task == "SICK-R":
    need_preparation()
    cut_network(monkeypatch)
    (tmp_path / "tfds/downloads").mkdir(parents=True)
    (tmp_path / "tfds/downloads/manual").symlink_to(tmp_path)
    with pytest.raises(DataError, match=r"^SICK_trial\.txt: other sentences or gold .* data_dir"):
      load_task("SICK-R", tfds_data_dir=tmp_path / "tfds")


def test_tfds_builds_from_downloads_and_manual_files(tmp_path, monkeypatch):
  need_preparation()
  monkeypatch.setattr(sick, "SIZES", SIZES)
  digests = {split: SentencePairs(*zip(*_rows(split), strict=True)).digest() for split in SIZES}
  monkeypatch.setitem(sick.DIGESTS, "relatedness_score", digests)
  manual = tmp_path / "downloads" / "manual"
  manual.mkdir(parents=True)
  (manual / "SICK_trial.txt").write_text(_text("dev"))
  with serve(monkeypatch) as server:
    urls = {split: f"{server.address}/{url.rsplit('/', 1)[1]}" for split, url in sick.URLS.items()}
    monkeypatch.setattr(sick, "URLS", urls)
    for split in ("train", "test"):
      server.content[f"/{urls[split].rsplit('/', 1)[1]}"] = _zip(split)
    for _ in range(2):
      data = load_task("SICK-R", tfds_data_dir=tmp_path)
      _assert_artificial(data.splits)
    assert data.source == f"TensorFlow Datasets sick_r/1.0.0 in {tmp_path}"
    assert sorted(server.requested) == ["/sick_test_annotated.zip"] * 2 + ["/sick_train.zip"] * 2


def test_tfds_checks_the_sizes(tmp_path, monkeypatch):
  need_preparation()
  cut_network(monkeypatch)
  _write(tmp_path / "downloads" / "manual" / "SICK")
  with pytest.raises(DataError, match=r"4 pairs, expected the 4500 of SICK's train split"):
    load_task("SICK-R", tfds_data_dir=tmp_path)
  assert not (tmp_path / "sick_r" / "1.0.0").exists()
