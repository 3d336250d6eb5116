"""run_scripts/text_flags.py: what --output may be, besides a file, and what is said of a model without steps."""

import os

import pytest
from absl import flags

from bert_flow_tf import SentenceModel
from bert_flow_tf.errors import ConfigError
from run_scripts import common_flags, text_flags
from tests.encoder.other.static_model_test import save
from tests.testing import edit_json, rejected


@pytest.fixture
def write(monkeypatch):
  """Returns a function that checks --output and writes bytes to it."""

  def written(output, content, kind="text"):
    values = flags.FlagValues()
    flags.DEFINE_string("output", output, "", flag_values=values)
    values.mark_as_parsed()
    monkeypatch.setattr(text_flags, "FLAGS", values)
    text_flags.check_output_file()
    text_flags.check_output_kind(kind)
    text_flags.write_output(content)

  return written


@pytest.mark.parametrize("output", [None, "-", "/dev/stdout", "/dev/fd/1"])
def test_standard_output(write, tmp_path, monkeypatch, capsys, output):
  monkeypatch.chdir(tmp_path)
  with pytest.raises(SystemExit) as end:
    write(output, b"a\nb\n")
  assert end.value.code == 0 and capsys.readouterr().out == "a\nb\n" and not any(tmp_path.iterdir())
  with rejected(ConfigError, "output", match="Parquet"):
    write(output, b"", "parquet")


def test_a_pipe_and_an_open_file_are_written_and_not_replaced(write, tmp_path):
  pipe, file = tmp_path / "pipe", tmp_path / "file"
  os.mkfifo(pipe)
  reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
  write(str(pipe), b"a\n")
  assert os.read(reading, 9) == b"a\n" and pipe.is_fifo()
  os.close(reading)
  with file.open("wb") as opened:
    opened.write(b"before\n")
    opened.flush()
    write(f"/dev/fd/{opened.fileno()}", b"a\n")
    assert os.path.samestat(os.fstat(opened.fileno()), file.stat())
  assert file.read_bytes() == b"before\na\n"


def test_a_folder_is_no_file(write, tmp_path):
  with rejected(ConfigError, "output"):
    write(str(tmp_path), b"a\n")


@pytest.mark.parametrize("calibration", [None, "soft-whitening"])
def test_a_table_with_a_calibration_is_calibrated(tmp_path, monkeypatch, caplog, calibration):
  folder = save(tmp_path / "table")
  edit_json(folder / "config.json", calibration=calibration)
  values = flags.FlagValues()
  for name in ("flow_folder", "calibration", "allow_other_encoder"):
    flags.DEFINE_string(name, None, "", flag_values=values)
  values.mark_as_parsed()
  monkeypatch.setattr(text_flags, "FLAGS", values)
  loaded = SentenceModel.from_pretrained(f"static:{folder}")
  monkeypatch.setattr(common_flags, "load_model", lambda *_: loaded)
  with caplog.at_level("INFO", logger="absl"):
    text_flags.load_text_model(["A.", "B."])
  assert ("the similarity is not calibrated" in caplog.text) == (calibration is None)
