import csv
import io
import zipfile

import pytest

from bert_flow_tf.data import sick_files
from bert_flow_tf.data.tasks import load_task
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
  for split, name in sick_files.FILES.items():
    (folder / name).write_text(_text(split))


def _zip(split):
  file = io.BytesIO()
  with zipfile.ZipFile(file, "w") as archive:
    archive.writestr(sick_files.FILES[split], _text(split))
    archive.writestr("readme.txt", "hello")
  return file.getvalue()


def _are_the_made_up_splits(splits):
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
  for split, name in sick_files.FILES.items():
    with open(folder / "SICK" / name, encoding="utf-8", newline="") as file:
      _, *rows = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
    pairs = data.splits[split]
    assert pairs.sentences_a == tuple(row[1] for row in rows) and pairs.sentences_b == tuple(row[2] for row in rows)
    assert pairs.scores.tolist() == [float(row[3]) for row in rows]
    assert pairs.scores.min() == 1 and pairs.scores.max() == 5
  assert len(data.fitting_pairs(use_full=True)) == 9927


@pytest.mark.parametrize("folder", ["SICK", "."])
def test_folders_that_are_found(tmp_path, folder):
  _write(tmp_path / folder)
  data = load_task("sick", data_dir=tmp_path)
  _are_the_made_up_splits(data.splits)
  assert data.source.endswith(
    ", 4 pairs in train (SICK has 4500), 2 pairs in dev (SICK has 500), 3 pairs in test (SICK has 4927)"
  )


@pytest.mark.parametrize("folder", ["SICK", "."])
def test_the_organisers_archives_need_not_be_unpacked(tmp_path, folder):
  (tmp_path / folder).mkdir(exist_ok=True)
  for split in SIZES:
    (tmp_path / folder / sick_files.URLS[split].rsplit("/", 1)[1]).write_bytes(_zip(split))
  _are_the_made_up_splits(load_task("SICK-R", data_dir=tmp_path).splits)


@pytest.mark.parametrize(
  ("old", "new", "message"),
  [
    ("\t1.9\t", "\t0.9\t", ", line 3: the score 0.9 is outside the scale, expected a number from 1 to 5"),
    ("\t1.9\t", "\t\t", ", line 3: the score is '', expected a number from 1 to 5"),
    ("\tB 1\t", "\t", ", line 3: 4 columns, expected 5"),
    ("sentence_A", "sentenceA", ", line 1: the column 'sentence_A' is not among 'pair_ID, sentenceA,"),
    (HEADER, "", ", line 1: the column 'sentence_A' is not among '0, A"),
  ],
)
def test_refuses_malformed_files(tmp_path, old, new, message):
  _write(tmp_path / "SICK")
  path = tmp_path / "SICK" / "SICK_trial.txt"
  path.write_text(path.read_text().replace(old, new))
  with pytest.raises(DataError) as caught:
    load_task("SICK-R", data_dir=tmp_path)
  assert str(caught.value).startswith(f"{path}{message}")


def test_each_file_is_needed(tmp_path):
  _write(tmp_path / "top" / "SICK")
  with pytest.raises(DataError) as caught:
    load_task("SICK-R", data_dir=tmp_path)
  assert str(caught.value) == (
    f"{tmp_path}/SICK/SICK_train.txt does not exist; --data_dir={tmp_path} must hold "
    f"SICK/SICK_{{train,trial,test_annotated}}.txt; did you mean --data_dir={tmp_path}/top?"
  )
  (tmp_path / "top" / "SICK" / "SICK_trial.txt").unlink()
  with pytest.raises(DataError, match=r"^.*/top/SICK/SICK_trial\.txt does not exist"):
    load_task("SICK-R", data_dir=tmp_path / "top")


def test_without_files_or_network(tmp_path, monkeypatch):
  cut_network(monkeypatch)
  with pytest.raises(DataError) as caught:
    load_task("SICK-R", tfds_data_dir=tmp_path / "tfds")
  assert "SICK-R cannot be had from TensorFlow Datasets: looked for sick_r in" in str(caught.value)
  assert str(caught.value).endswith(
    "(ConnectionError: no route to http://alt.qcri.org/semeval2014/task1/data/uploads/sick_train.zip); "
    "offline, pass --data_dir=FOLDER that holds SICK/SICK_{train,trial,test_annotated}.txt"
  )
  assert not (tmp_path / "tfds").exists()


def test_tfds_builds_from_the_web_and_from_files_laid_down_by_hand(tmp_path, monkeypatch):
  need_preparation()
  monkeypatch.setattr(sick_files, "SIZES", SIZES)
  manual = tmp_path / "downloads" / "manual"
  manual.mkdir(parents=True)
  (manual / "SICK_trial.txt").write_text(_text("dev"))
  with serve(monkeypatch) as server:
    urls = {split: f"{server.address}/{url.rsplit('/', 1)[1]}" for split, url in sick_files.URLS.items()}
    monkeypatch.setattr(sick_files, "URLS", urls)
    for split in ("train", "test"):
      server.content[f"/{urls[split].rsplit('/', 1)[1]}"] = _zip(split)
    for _ in range(2):
      data = load_task("SICK-R", tfds_data_dir=tmp_path)
      _are_the_made_up_splits(data.splits)
    assert data.source == f"TensorFlow Datasets sick_r/1.0.0 in {tmp_path}"
    assert sorted(server.requested) == ["/sick_test_annotated.zip"] * 2 + ["/sick_train.zip"] * 2


def test_tfds_asserts_the_sizes(tmp_path, monkeypatch):
  need_preparation()
  cut_network(monkeypatch)
  _write(tmp_path / "downloads" / "manual" / "SICK")
  with pytest.raises(DataError, match="SICK's train split: found 4 pairs, expected 4500"):
    load_task("SICK-R", tfds_data_dir=tmp_path)
  assert not (tmp_path / "sick_r" / "1.0.0").exists()
