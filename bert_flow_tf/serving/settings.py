"""Settings of an export, and the files of a version."""

import dataclasses
import importlib.util
import os
import re

from bert_flow_tf.encoder.settings import check_graph_engine
from bert_flow_tf.encoder.transformer.number_formats import INT8
from bert_flow_tf.errors import BertFlowError, ConfigError, install_command
from bert_flow_tf.io.settings import Settings, setting

_LAST_VERSION = 2**63 - 1  # TF Serving stores versions as int64
_MODEL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")  # part of a URL
_PRECISIONS = ("float32", INT8)
SAVED_MODEL, OPENVINO, ONNX = FORMATS = ("saved_model", "openvino", "onnx")
# {format: (extra, packages that an export needs)}
_PACKAGES = {
  SAVED_MODEL: ("serving", ("tensorflow_text", "tensorflow_serving")),
  OPENVINO: ("openvino", ("openvino",)),
  ONNX: ("onnx", ("tf2onnx", "onnx", "onnxruntime")),
}

# Files of a version, as paths in its folder. The server expects the names of the first two, and reads no others.
BATCHING = "batching_params.pbtxt"
WARMUP = "assets.extra/tf_serving_warmup_requests"
METADATA = "assets.extra/metadata.json"
GOLDEN = "assets.extra/golden.json"
CARD = "assets.extra/README.md"
MODELS_CONFIG = "assets.extra/models.config"
MONITORING = "assets.extra/monitoring.config"
# Of other formats. OpenVINO Model Server takes the files directly in a version's folder by their endings: no other may
# end in .xml, .bin, .onnx, .pb, .tflite or .pdmodel.
MODEL_FILES = {OPENVINO: "model.xml", ONNX: "model.onnx"}
TOKENIZER = "tokenizer.json"
OVMS_CONFIG = "assets.extra/config.json"


class ExportError(BertFlowError):
  """A version cannot be written, or its answers differ from the model's."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportSettings(Settings):
  """Settings of `export_model`."""

  version: int | None = setting(
    None,
    "Version of the served model; the next free number by default.",
    named=False,
    minimum=1,
    maximum=_LAST_VERSION,
  )
  model_name: str = setting("bert_flow", "Name of the model on the server.", named=False)
  normalize: bool = setting(False, "Scale served embeddings to unit length.", named=False)
  format: str = setting(
    SAVED_MODEL,
    "Kind of the version: saved_model, from text to embeddings, for TensorFlow Serving; or, from ids of tokens to "
    "embeddings, openvino (pip install 'bert-flow-tf[openvino]') or onnx (pip install 'bert-flow-tf[onnx]').",
    named=False,
    choices=FORMATS,
  )

  def __post_init__(self) -> None:
    super().__post_init__()
    if not _MODEL_NAME.fullmatch(self.model_name):
      expected = "expected letters, digits, '_', '.' and '-', starting with a letter or digit"
      raise ConfigError(f"model_name={self.model_name}: {expected}", argument="model_name")


def check_precision(precision: str, engine: str, format: str) -> None:
  """Raises ConfigError unless a served model of a format can compute in a precision, as the engine does."""
  if precision not in _PRECISIONS:
    message = f"precision={precision}: a served model computes in {' or '.join(_PRECISIONS)}"
    raise ConfigError(message, argument="precision")
  if format == SAVED_MODEL:
    check_graph_engine(engine, precision)


def check_installed(export_dir: str | os.PathLike, format: str) -> None:
  """Raises ConfigError if a package that an export needs is not installed; imports none of them."""
  extra, packages = _PACKAGES[format]
  missing = [name for name in packages if importlib.util.find_spec(name) is None]
  if missing:
    message = f"an export needs {' and '.join(missing)}: {install_command(extra)}"
    raise ConfigError(f"export_dir={export_dir}: {message}", argument="export_dir")
