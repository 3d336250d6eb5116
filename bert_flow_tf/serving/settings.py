"""Settings of an export, and the files of a version."""

import dataclasses
import importlib.util
import re

from bert_flow_tf.encoder.settings import check_graph_engine
from bert_flow_tf.encoder.transformer.number_formats import INT8
from bert_flow_tf.errors import BertFlowError, ConfigError, install_command
from bert_flow_tf.io.settings import Settings, setting

_LAST_VERSION = 2**63 - 1  # TF Serving stores versions as int64
_MODEL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")  # part of a URL
_PRECISIONS = ("float32", INT8)
SAVED_MODEL, OPENVINO, ONNX, MODEL2VEC = FORMATS = ("saved_model", "openvino", "onnx", "model2vec")
# Types of the vectors of model2vec.
DTYPES = ("float32", "float16", INT8)
# {format: (extra, packages that an export needs)}
_PACKAGES = {
  SAVED_MODEL: ("serving", ("tensorflow_text", "tensorflow_serving")),
  OPENVINO: ("openvino", ("openvino",)),
  ONNX: ("onnx", ("tf2onnx", "onnx", "onnxruntime")),
  MODEL2VEC: ("", ()),
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
  """An export cannot be written, or its answers differ from the model's."""


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
    "What is written: saved_model, from text to embeddings, for TensorFlow Serving; from ids of tokens to embeddings, "
    "openvino (pip install 'bert-flow-tf[openvino]') or onnx (pip install 'bert-flow-tf[onnx]'); or model2vec, the "
    "table of vectors of a static encoder with its calibration, for model2vec and sentence-transformers, into "
    "export_dir itself.",
    named=False,
    choices=FORMATS,
  )
  dtype: str = setting(
    DTYPES[0],
    "Type of the vectors of model2vec: float32, float16 or int8, which has a scale per token and which "
    "sentence-transformers cannot read.",
    named=False,
    choices=DTYPES,
  )

  def __post_init__(self) -> None:
    super().__post_init__()
    self._check_format()
    if not _MODEL_NAME.fullmatch(self.model_name):
      expected = "expected letters, digits, '_', '.' and '-', starting with a letter or digit"
      raise ConfigError(f"model_name={self.model_name}: {expected}", argument="model_name")

  def _check_format(self):
    """Raises a ConfigError for a setting that the format has no use for."""
    useless = {"dtype": "is the type of the vectors of format=model2vec"}
    if self.format == MODEL2VEC:
      useless = dict.fromkeys(("version", "model_name"), "a folder of model2vec has none")
    for field in dataclasses.fields(self):
      value = getattr(self, field.name)
      if field.name in useless and value != field.default:
        raise ConfigError(f"{field.name}={value}: {useless[field.name]}; leave it out", field.name)


def check_precision(precision: str, engine: str, format: str) -> None:
  """Raises ConfigError unless a served model of a format can compute in a precision, as the engine does."""
  if precision not in _PRECISIONS:
    message = f"precision={precision}: a served model computes in {' or '.join(_PRECISIONS)}"
    raise ConfigError(message, argument="precision")
  if format == SAVED_MODEL:
    check_graph_engine(engine, precision)


def check_installed(format: str) -> None:
  """Raises ConfigError if a package that an export needs is not installed; imports none of them."""
  extra, packages = _PACKAGES[format]
  missing = [name for name in packages if importlib.util.find_spec(name) is None]
  if missing:
    message = f"an export needs {' and '.join(missing)}: {install_command(extra)}"
    raise ConfigError(f"format={format}: {message}", argument="format")
