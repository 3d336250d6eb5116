"""Settings of an export."""

import dataclasses
import importlib.util
import os
import re

from bert_flow_tf.errors import ConfigError, install_command
from bert_flow_tf.io.settings import Settings, setting

WEIGHTS_DTYPES = ("float32", "float16", "bfloat16")
_LAST_VERSION = 2**63 - 1  # TF Serving stores versions as int64
_MODEL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")  # part of a URL
_PACKAGES = ("tensorflow_text", "tensorflow_serving")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportSettings(Settings):
  """Settings of `export_model`.

  Raises:
    ConfigError: a value is not allowed.
  """

  version: int | None = setting(
    None,
    "Version of the served model; the next free number by default.",
    named=False,
    minimum=1,
    maximum=_LAST_VERSION,
  )
  model_name: str = setting("bert_flow", "Name of the model on the server.", named=False)
  normalize: bool = setting(False, "Scale served embeddings to unit length.", named=False)
  weights_dtype: str = setting(
    "float32", "Type of the encoder's matrices on disk.", named=False, choices=WEIGHTS_DTYPES
  )

  def __post_init__(self) -> None:
    super().__post_init__()
    if not _MODEL_NAME.fullmatch(self.model_name):
      raise ConfigError(
        f"model_name={self.model_name}: expected letters, digits, '_', '.' and '-', starting with a letter or digit",
        argument="model_name",
      )


def check_installed(export_dir: str | os.PathLike) -> None:
  """Raises ConfigError if a package that an export needs is not installed; imports none of them.

  Args:
    export_dir: the model's folder, for the message.
  """
  missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
  if missing:
    raise ConfigError(
      f"export_dir={export_dir}: an export needs {' and '.join(missing)}: {install_command('serving')}",
      argument="export_dir",
    )
