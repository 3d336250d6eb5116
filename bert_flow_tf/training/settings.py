"""Settings of a flow's fit."""

import dataclasses
import functools
from typing import Any

from bert_flow_tf.calibration.names import ALLOWED
from bert_flow_tf.data.flow_corpus import LEARNING_RATE, FlowCorpus, default_epochs
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.flow.config import FlowConfig, packaged_configs
from bert_flow_tf.io.settings import Settings, check_positive, named_values, setting

DETERMINISTIC = (
  "Use slower operations of a GPU where the fast ones add in any order, so that a seed decides every bit there too. On "
  "a CPU it does so without this."
)

MEMORY_GROWTH = "Take the memory of a GPU as it is needed, not all of it at the start."

STRATEGIES = ("default", "mirrored", "multi_worker_mirrored")


@dataclasses.dataclass(frozen=True)
class FlowSettings(Settings):
  """How a flow is made and fitted. `None` leaves the choice to the corpus or to the length of the fit.

  Raises:
    ConfigError: a value outside its range.
  """

  # The flow.
  flow_model_config: str | FlowConfig = setting(  # noqa: RUF009
    "config_l2_d3_w32",
    f"One of {', '.join(packaged_configs())}, or a json file.",
    named=False,  # it has its own part in an experiment's name; a checkpoint holds its content
  )
  actnorm_init: str = setting(
    "data", "Initial actnorms: from data, or as the published runner.", choices=("data", "glorot")
  )
  permutation: str = setting("reverse", "As the published code, or as the paper.", choices=("reverse", "random"))
  # Its fit.
  flow_learning_rate: float | None = setting(
    None, "Constant learning rate of the flow; default 1e-3, 2e-5 for a flow alone on nli."
  )
  num_train_epochs: float | None = setting(
    None,
    "Passes over the pairs; default: 1 for the paper's tasks, 0.15 for a flow alone on nli, else as many as show 8000 "
    "pairs, 1 to 5.",
  )
  train_batch_size: int = setting(32, "Pairs per step, over all devices.", minimum=1)
  seed: int = setting(
    1234,
    "Seed of initial weights, order of the pairs, dropout, and the mixtures of calibration=auto.",
    minimum=0,
    maximum=2**31 - 1,
  )
  # Where it runs, and how fast; none of these but use_xla, by rounding, changes the result.
  distribution_strategy: str = setting(
    "default",
    "default: the first GPU, or the CPU; mirrored: all GPUs, through a MirroredStrategy; multi_worker_mirrored: the "
    "workers in TF_CONFIG.",
    named=False,
    choices=STRATEGIES,
  )
  worker_wait_seconds: int = setting(
    600, "Longest wait at the start for the other workers in TF_CONFIG, in seconds.", named=False, minimum=1
  )
  use_xla: bool | None = setting(
    None, "Compile the step with XLA; default: for long fits on a CPU, where it is faster."
  )
  save_checkpoints_steps: int = setting(100, "Steps between two checkpoints.", named=False, minimum=1)
  deterministic: bool = setting(False, DETERMINISTIC, named=False)
  gpu_memory_growth: bool = setting(True, MEMORY_GROWTH, named=False)

  def __post_init__(self) -> None:
    super().__post_init__()
    check_positive(self, "flow_learning_rate")

  def check(self) -> None:
    """Reads the configuration, so that an error comes before anything long."""
    self.config.to_dict()

  def check_start(self) -> None:
    """Raises a ConfigError if the actnorms start from data, and a batch has a single pair."""
    if self.actnorm_init == "data" and self.train_batch_size < 2:
      reason = "a flow starts from the different sentences of its first batch"
      raise ConfigError(
        f"train_batch_size={self.train_batch_size}: {reason}; expected 2 or more, or actnorm_init=glorot",
        argument="train_batch_size",
      )

  @functools.cached_property
  def config(self) -> FlowConfig:
    """Configuration of the flow, read from the package or the json file; a ConfigError if it is not allowed."""
    if isinstance(self.flow_model_config, FlowConfig):
      return self.flow_model_config
    return FlowConfig.from_json_file(self.flow_model_config)

  @property
  def rate(self) -> float:
    """Learning rate of the flow."""
    return self.flow_learning_rate or LEARNING_RATE

  @property
  def epochs(self) -> float:
    """Passes over the pairs; 1 before `for_pairs` or `for_corpus` has chosen them."""
    if self.num_train_epochs is None:
      return 1.0
    return self.num_train_epochs

  def for_corpus(self, corpus: FlowCorpus) -> "FlowSettings":
    """Returns the settings with the corpus's learning rate and number of epochs where none is given."""
    settings = self
    if self.flow_learning_rate is None:
      settings = dataclasses.replace(settings, flow_learning_rate=corpus.learning_rate)
    if self.num_train_epochs is None:
      settings = dataclasses.replace(settings, num_train_epochs=corpus.num_train_epochs)
    return settings.for_pairs(len(corpus.pairs))

  def for_pairs(self, num_pairs: int) -> "FlowSettings":
    """Returns the settings with the `default_epochs` of so many pairs where no number of epochs is given."""
    if self.num_train_epochs is not None:
      return self
    return dataclasses.replace(self, num_train_epochs=default_epochs(num_pairs))

  def identity(self) -> dict[str, Any]:
    """Returns the JSON values that must be equal for a fit to be resumed."""
    return {
      **named_values(self),
      "flow_learning_rate": self.rate,
      "num_train_epochs": self.epochs,
      "flow_model_config": self.config.to_dict(),
    }


@dataclasses.dataclass(frozen=True)
class RunSettings(Settings):
  """The calibrations of a run."""

  calibration: tuple[str, ...] = setting(
    ("flow",),
    f"Calibrations to fit on the embeddings, for one table: {ALLOWED}. The scores without any are always shown.",
  )
  name_as_published: bool = setting(
    False,
    "Name the experiment's folder as the published code, with a suffix for what that name leaves out.",
    named=False,
  )
  encoder_dropout: bool = setting(
    False, "Embed the sentences again in each step, with BERT's dropout, as the published code."
  )
