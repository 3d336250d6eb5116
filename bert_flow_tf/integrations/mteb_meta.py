"""Name and revision of a model in mteb's tables and in its cache of results."""

import hashlib
import json
import pathlib
import re
import tempfile
from typing import Any

from bert_flow_tf.calibration.flow import calibration_sha256
from bert_flow_tf.model import SentenceModel


def model_meta(model: SentenceModel) -> Any:
  """Returns the `ModelMeta` of a `SentenceModel`, for mteb 1 or 2; None if mteb is not installed.

  mteb keeps results under name and revision, so the revision follows from everything that decides an embedding.
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
    "embed_dim": model.output_dim,
    "similarity_fn_name": "cosine",
    "n_parameters": int(model.encoder.bert.model.count_params()),
    "use_instructions": False,
  }
  return ModelMeta(**{**fields, **{name: value for name, value in ours.items() if name in ModelMeta.model_fields}})


def revision(model: SentenceModel) -> str:
  """Returns 40 hexadecimal digits that depend on encoder, pooling and calibration."""
  values = model.identity.deciding()
  if model.calibration is not None:
    with tempfile.TemporaryDirectory() as parent:
      folder = pathlib.Path(parent) / "calibration"
      model.calibration.save(folder)
      values["calibration_sha256"] = calibration_sha256(folder)
  return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:40]


def _plain(model):
  """Returns the model's name with the characters that a path may have; of a folder, its last part."""
  name = pathlib.PurePath(model.encoder.name).name
  parts = [name, *([] if model.calibration is None else [model.calibration.name])]
  return re.sub(r"[^A-Za-z0-9._+-]", "-", "+".join(parts)) or "model"
