"""Settings of a siamese training."""

import dataclasses
import math
import os
from typing import Any

from bert_flow_tf.data import nli
from bert_flow_tf.data.flow_corpus import LEARNING_RATE
from bert_flow_tf.data.settings import DataSettings
from bert_flow_tf.data.task import TaskData
from bert_flow_tf.encoder.settings import EmbeddingSettings
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.io.experiment import OutputSettings, encoder_label, experiment_name
from bert_flow_tf.io.settings import check_positive, setting
from bert_flow_tf.training.settings import FlowSettings


@dataclasses.dataclass(frozen=True)
class SiameseSettings(FlowSettings):
  """How an encoder is fine-tuned on pairs, with a flow or without; the defaults are the published ones for NLI.

  Raises:
    ConfigError: a value outside its range.
  """

  flow_model_config: str = setting("config_l2_d3_w32", "Name of a packaged configuration, or a json file.")
  # These two are None until `resolved`.
  train_batch_size: int = setting(
    None, "Pairs of a step, over all devices; default: 16, or 32 if num_examples is 0.", minimum=1
  )
  use_xla: bool | None = setting(None, "Compile the step with XLA.", named=False)
  save_checkpoints_steps: int = setting(
    None, "Steps between two checkpoints; default: 1000, or 100 if num_examples is 0.", named=False, minimum=1
  )
  train_splits: tuple[str, ...] = setting(
    None, "Splits whose labels are used; default: train, with use_full_for_training train and dev."
  )
  use_full_for_training: bool = setting(
    False, "Train on the pairs of all splits; labels are those of train_splits, if it is given."
  )
  num_examples: int = setting(
    -1,
    "Labels that train the encoder: -1 all; 0 none (the encoder is frozen, and the flow is fitted on it); n those of n "
    "pairs drawn by seed.",
    minimum=-1,
  )
  dupe_factor: int = setting(1, "Number of copies of each pair in an epoch.", minimum=1)
  flow: bool = setting(False, "Compare latents of a flow on the embeddings, instead of embeddings.")
  flow_loss: bool = setting(False, "Add the flow's own loss, in bits per dimension. Needs flow.")
  learning_rate: float = setting(2e-5, "Highest learning rate of BERT and the classifier.")
  warmup_proportion: float = setting(
    0.1, "Part of the steps in which that rate rises; it then falls to 0.", minimum=0.0, maximum=1.0
  )
  l2_penalty: float = setting(-1.0, "Factor of the norms of the embeddings in the loss; active above 0.")
  early_stopping: bool = setting(
    False, "Evaluate dev after each pass over the pairs, and end with the weights that are best there."
  )
  early_stopping_patience: int = setting(
    1, "Evaluations in a row without a better score that end the training.", minimum=1
  )
  deterministic: bool = setting(
    False, "Make operations of a GPU deterministic, so that a resumed training is exact there too.", named=False
  )

  def __post_init__(self) -> None:
    super().__post_init__()
    check_positive(self, "learning_rate")
    if not math.isfinite(self.l2_penalty):
      raise ConfigError(f"l2_penalty={self.l2_penalty}: expected a number; it is active above 0", argument="l2_penalty")

  @property
  def frozen(self) -> bool:
    """True if no label trains the encoder: only the flow is fitted."""
    return self.num_examples == 0

  def check_training(self) -> None:
    """Checks the settings that only a training uses.

    Raises:
      ConfigError: they contradict each other.
    """
    if self.flow_loss and not self.flow:
      raise ConfigError("flow_loss: is the loss of a flow; needs flow", argument="flow_loss")
    if self.train_splits is not None and len(set(self.train_splits)) < max(1, len(self.train_splits)):
      raise ConfigError(
        f"train_splits={','.join(self.train_splits)}: expected one or more of train, dev, test, each once",
        argument="train_splits",
      )
    if self.early_stopping and (self.frozen or "dev" in (self.train_splits or ())):
      raise ConfigError(
        "early_stopping: needs dev's labels, which num_examples=0 does not use, and a training without them "
        f"(train_splits={','.join(self.train_splits or ('train',))})",
        argument="early_stopping",
      )
    if self.frozen and not self.flow_loss:
      raise ConfigError(
        "num_examples=0: without labels only a flow can be fitted; needs flow and flow_loss", argument="num_examples"
      )
    if self.use_full_for_training and not self.flow_loss:
      raise ConfigError(
        "use_full_for_training: adds sentences without their labels, which only the flow's loss uses; needs flow and "
        "flow_loss",
        argument="use_full_for_training",
      )

  def resolved(self, is_nli: bool = False, flow_epochs: float = 1.0) -> "SiameseSettings":
    """Returns settings without None, except `use_xla`.

    Args:
      is_nli: whether the labels are those of natural language inference, for which a flow alone has the paper's rate.
      flow_epochs: the task's number of epochs for a flow alone.
    """
    defaults: dict[str, Any]
    if self.frozen:
      rate, epochs = (nli.LEARNING_RATE, nli.NUM_TRAIN_EPOCHS) if is_nli else (LEARNING_RATE, flow_epochs)
      defaults = {"train_batch_size": 32, "save_checkpoints_steps": 100}
    else:
      rate, epochs = LEARNING_RATE, 1.0
      defaults = {"train_batch_size": 16, "save_checkpoints_steps": 1000}
    defaults |= {"flow_learning_rate": rate, "num_train_epochs": epochs}
    return dataclasses.replace(self, **{k: v for k, v in defaults.items() if getattr(self, k) is None})


def siamese_name(
  task: TaskData,
  data: DataSettings,
  embedding: EmbeddingSettings,
  settings: SiameseSettings,
  output: OutputSettings,
) -> str:
  """Returns the original's name of an experiment, then encoder, seed and a hash of the other fields.

  Args:
    task: the task.
    data: files of the task.
    embedding: encoder and pooling.
    settings: as the user gave them, not `resolved`.
    output: prefix of the name.
  """
  resolved = settings.resolved(bool(task.labels), task.spec.num_train_epochs)
  parts = {
    "task": f"{output.exp_name_prefix}_t_{task.name}",
    "num_train_epochs": f"ep_{resolved.epochs:.2f}",
    "learning_rate": f"lr_{settings.learning_rate:.2e}",
    "sentence_embedding_type": f"e_{embedding.sentence_embedding_type}",
    "flow": f"f_1{int(settings.flow_loss)}_{resolved.rate:.2e}" if settings.flow else "",
    "flow_loss": "",
    "flow_learning_rate": "",
    "use_full_for_training": "allsplits" if settings.use_full_for_training else "",
    "model": f"m_{encoder_label(embedding.encoder_name)}",
    "seed": f"s_{settings.seed}",
  }
  others = {"data_dir": os.path.abspath(data.data_dir or "")} if task.name == "custom" else {}
  return experiment_name(parts, embedding, settings, **others)
