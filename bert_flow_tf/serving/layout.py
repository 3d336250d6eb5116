"""Paths of an exported model."""

import dataclasses
import pathlib

from bert_flow_tf.errors import BertFlowError


class ExportError(BertFlowError):
  """A SavedModel cannot be written, or does not compute what it should."""


@dataclasses.dataclass(frozen=True)
class ExportLayout:
  """Paths of one version of a served model.

  Attributes:
    base: folder of the model, the server's `base_path`, with one folder per version.
    version: number of the version, at least 1.
    folder: folder of the version.
  """

  base: pathlib.Path
  version: int
  folder: pathlib.Path

  @classmethod
  def of(cls, base: str | pathlib.Path, version: int) -> "ExportLayout":
    """Returns the layout of a finished version."""
    base = pathlib.Path(base)
    return cls(base, version, base / str(version))

  @property
  def saved_model(self) -> pathlib.Path:
    """Graphs."""
    return self.folder / "saved_model.pb"

  @property
  def variables(self) -> pathlib.Path:
    """Folder of the weights."""
    return self.folder / "variables"

  @property
  def vocabulary(self) -> pathlib.Path:
    """Word pieces, one per line, in the order of their ids."""
    return self.folder / "assets" / "vocab.txt"

  @property
  def batching(self) -> pathlib.Path:
    """Batching parameters, for the server's --enable_per_model_batching_parameters."""
    return self.folder / "batching_params.pbtxt"

  @property
  def extra(self) -> pathlib.Path:
    """Folder of the files below; the server reads only the warm-up requests."""
    return self.folder / "assets.extra"

  @property
  def warmup(self) -> pathlib.Path:
    """Warm-up requests; the server expects this name."""
    return self.extra / "tf_serving_warmup_requests"

  @property
  def metadata(self) -> pathlib.Path:
    """Contents, origin, checksums and package versions."""
    return self.extra / "metadata.json"

  @property
  def golden(self) -> pathlib.Path:
    """Sentences with the answers of every signature that takes text."""
    return self.extra / "golden.json"

  @property
  def card(self) -> pathlib.Path:
    """Model card."""
    return self.extra / "README.md"

  @property
  def models_config(self) -> pathlib.Path:
    """Example of the server's --model_config_file."""
    return self.extra / "models.config"


def versions(base: str | pathlib.Path) -> list[int]:
  """Returns the versions in a model's folder, sorted; [] if the folder does not exist."""
  base = pathlib.Path(base)
  names = [path.name for path in base.iterdir()] if base.exists() else []
  return sorted(int(name) for name in names if name.isascii() and name.isdigit())
