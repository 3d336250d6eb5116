"""Where everything of an export lies."""

import dataclasses
import pathlib

from bert_flow_tf.errors import BertFlowError


class ExportError(BertFlowError):
  """A SavedModel cannot be written, or does not compute what it should."""


@dataclasses.dataclass(frozen=True)
class ExportLayout:
  """Every path of one version of a served model.

  Attributes:
    base: pathlib.Path, the `base_path` of the server's configuration, with a folder a version.
    version: int, at least 1.
    folder: pathlib.Path of what is described: `base`/`version`, or a place beside it while it is written.
  """

  base: pathlib.Path
  version: int
  folder: pathlib.Path

  @classmethod
  def of(cls, base, version):
    """The layout of a finished version."""
    base = pathlib.Path(base)
    return cls(base, version, base / str(version))

  @property
  def beside(self):
    """The same while it is written, under a name that is no version to the server."""
    return dataclasses.replace(self, folder=self.base / f".{self.version}.writing")

  @property
  def saved_model(self):
    """The graphs."""
    return self.folder / "saved_model.pb"

  @property
  def variables(self):
    """Folder of the weights."""
    return self.folder / "variables"

  @property
  def vocabulary(self):
    """The word pieces, one a line, in the order of their ids."""
    return self.folder / "assets" / "vocab.txt"

  @property
  def batching(self):
    """The server's batching parameters of this model (`--enable_per_model_batching_parameters`)."""
    return self.folder / "batching_params.pbtxt"

  @property
  def extra(self):
    """Folder of what the server does not need, warm-up apart."""
    return self.folder / "assets.extra"

  @property
  def warmup(self):
    """Requests that the server answers before it calls the version available; the name is the server's."""
    return self.extra / "tf_serving_warmup_requests"

  @property
  def metadata(self):
    """What was exported, from what and by what."""
    return self.extra / "metadata.json"

  @property
  def golden(self):
    """A few sentences with what every signature answered for them here."""
    return self.extra / "golden.json"

  @property
  def card(self):
    """The model card."""
    return self.extra / "README.md"

  @property
  def models_config(self):
    """A sample of the server's `--model_config_file`."""
    return self.extra / "models.config"


def versions(base):
  """The versions in a base folder, in rising order; [] where there is none."""
  try:
    names = [path.name for path in pathlib.Path(base).iterdir()]
  except FileNotFoundError:
    return []
  except OSError as error:
    raise ExportError(f"--export_dir={base}: cannot be read ({error.strerror}), expected a folder") from error
  return sorted(int(name) for name in names if name.isascii() and name.isdigit())
