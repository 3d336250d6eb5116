"""How mteb names a model in its tables and its cache of results."""

import hashlib
import json
import pathlib
import re
import tempfile

import numpy as np


def model_meta(model):
  """The `ModelMeta` for mteb of a `SentenceModel`, of mteb 1 or 2; None where it is not installed.

  mteb keeps results under name and revision: the revision follows from all that decides an embedding.
  """
  try:
    from mteb.models.model_meta import ModelMeta
  except ImportError:
    try:
      from mteb.model_meta import ModelMeta
    except ImportError:
      return None
  fields = {name: None for name, field in ModelMeta.model_fields.items() if field.is_required()}
  ours = {
    "name": f"bert-flow-tf/{_plain(model)}",
    "revision": revision(model),
    "framework": [],
    "max_tokens": model.max_seq_length,
    "embed_dim": model.get_sentence_embedding_dimension(),
    "similarity_fn_name": model.similarity_fn_name,
    "n_parameters": int(model.encoder.bert.model.count_params()),
    "use_instructions": False,
  }
  return ModelMeta(**{**fields, **{name: value for name, value in ours.items() if name in ModelMeta.model_fields}})


def revision(model):
  """Hexadecimal checksum, of 40 digits, of encoder, pooling and calibration."""
  identity = {key: value for key, value in model.identity.items() if key != "name"}
  digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode())
  if model.calibration is not None:
    with tempfile.TemporaryDirectory() as parent:
      folder = pathlib.Path(parent) / "calibration"
      model.calibration.save(folder)
      for path in sorted(folder.iterdir()):
        digest.update(_content(path))
  return digest.hexdigest()[:40]


def _content(path):
  """Bytes of a saved file that depend on what it holds alone: an archive's dates and order may differ."""
  if path.suffix != ".npz":
    return path.read_bytes()
  with np.load(path, allow_pickle=False) as archive:
    parts = [
      f"{name} {archive[name].dtype} {archive[name].shape}".encode() + archive[name].tobytes()
      for name in sorted(archive.files)
    ]
  return b"".join(parts)


def _plain(model):
  """The model's name without what a path must not have, a folder's by its last part."""
  name = pathlib.PurePath(model.encoder.name).name
  parts = [name, *([] if model.calibration is None else [model.calibration.name])]
  return re.sub(r"[^A-Za-z0-9._+-]", "-", "+".join(parts)) or "model"
