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
_PACKAGES = ("tensorflow_text", "tensorflow_serving")

# Files of a version, as paths in its folder. The server expects the names of the first two, and reads no others.
BATCHING = "batching_params.pbtxt"
WARMUP = "assets.extra/tf_serving_warmup_requests"
METADATA = "assets.extra/metadata.json"
GOLDEN = "assets.extra/golden.json"
CARD = "assets.extra/README.md"
MODELS_CONFIG = "assets.extra/models.config"
MONITORING = "assets.extra/monitoring.config"


class ExportError(BertFlowError):
  """A SavedModel cannot be written, or its answers differ from the model's."""


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

  def __post_init__(self) -> None:
    super().__post_init__()
    if not _MODEL_NAME.fullmatch(self.model_name):
      expected = "expected letters, digits, '_', '.' and '-', starting with a letter or digit"
      raise ConfigError(f"model_name={self.model_name}: {expected}", argument="model_name")


def check_precision(precision: str, engine: str) -> None:
  """Raises ConfigError unless a served model can compute in a precision, as the engine does."""
  if precision not in _PRECISIONS:
    message = f"precision={precision}: a served model computes in {' or '.join(_PRECISIONS)}"
    raise ConfigError(message, argument="precision")
  check_graph_engine(engine, precision)


def check_installed(export_dir: str | os.PathLike) -> None:
  """Raises ConfigError if a package that an export needs is not installed; imports none of them."""
  missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
  if missing:
    message = f"an export needs {' and '.join(missing)}: {install_command('serving')}"
    raise ConfigError(f"export_dir={export_dir}: {message}", argument="export_dir")
