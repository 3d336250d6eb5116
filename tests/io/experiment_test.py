"""io/experiment.py: names of encoders, seconds that are counted once."""

import types

import pytest

from bert_flow_tf.io import experiment


def test_seconds_of_a_block_inside_another_are_its_own(monkeypatch):
  clock = iter([0.0, 1.0, 4.0, 10.0, 20.0, 21.5])
  monkeypatch.setattr(experiment, "time", types.SimpleNamespace(monotonic=lambda: next(clock)))
  watch = experiment.Stopwatch()
  with watch.timing("fitting"), watch.timing("embedding"):
    pass
  with watch.timing("embedding"):
    pass
  assert watch.seconds == pytest.approx({"embedding": 3.0 + 1.5, "fitting": 7.0})


def test_encoders_of_two_experiments_have_two_names(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  for folder in ("exp/nli/encoder", "exp/snli/encoder", "my_bert/model"):
    (tmp_path / folder).mkdir(parents=True)
  names = ["exp/nli/encoder", "exp/snli/encoder/", f"{tmp_path}/my_bert/model", "mini", "org/bert-base", "encoder"]
  found = [experiment.encoder_label(name) for name in names]
  assert found == ["nli-encoder", "snli-encoder", "my_bert-model", "mini", "bert-base", "encoder"]
  monkeypatch.chdir(tmp_path / "exp/nli")
  assert experiment.encoder_label("encoder") == "nli-encoder"


def test_a_public_name_has_no_folder_of_this_machine(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  (tmp_path / "models" / "mine").mkdir(parents=True)
  (tmp_path / "bert.ckpt.index").touch()
  names = {f"{tmp_path}/models/mine": "mine", "models/mine": "mine", f"static:{tmp_path}/models/mine": "static-mine"}
  names |= {"bert.ckpt": "bert.ckpt", f"{tmp_path}/bert.ckpt": "bert.ckpt", "/gone/model": "gone-model"}
  names |= {name: name for name in ("mini", "static:mini", "google-bert/bert-base-uncased")}
  assert {name: experiment.public_name(name) for name in names} == names
