"""encoder/kinds.py: names of encoders in tables, and without folders of this machine."""

from bert_flow_tf.encoder.kinds import encoder_label, public_name


def test_encoders_of_two_experiments_have_two_names(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  for folder in ("exp/nli/encoder", "exp/snli/encoder", "my_bert/model"):
    (tmp_path / folder).mkdir(parents=True)
  names = ["exp/nli/encoder", "exp/snli/encoder/", f"{tmp_path}/my_bert/model", "mini", "org/bert-base", "encoder"]
  found = [encoder_label(name) for name in names]
  assert found == ["nli-encoder", "snli-encoder", "my_bert-model", "mini", "bert-base", "encoder"]
  monkeypatch.chdir(tmp_path / "exp/nli")
  assert encoder_label("encoder") == "nli-encoder"


def test_a_public_name_has_no_folder_of_this_machine(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  (tmp_path / "models" / "mine").mkdir(parents=True)
  (tmp_path / "bert.ckpt.index").touch()
  names = {f"{tmp_path}/models/mine": "mine", "models/mine": "mine", f"static:{tmp_path}/models/mine": "static-mine"}
  names |= {"bert.ckpt": "bert.ckpt", f"{tmp_path}/bert.ckpt": "bert.ckpt", "/gone/model": "gone-model"}
  names |= {f"saved_model:{tmp_path}/models/mine": "mine", f"glove:{tmp_path}/models/mine": "mine"}
  names |= {name: name for name in ("mini", "static:mini", "google-bert/bert-base-uncased")}
  assert {name: public_name(name) for name in names} == names
