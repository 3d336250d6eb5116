"""Settings of a siamese training, with the defaults of the published runner."""

import dataclasses
import pathlib
from typing import Any

from bert_flow_tf.encoder.pooling import ALLOWED as ALLOWED_POOLINGS
from bert_flow_tf.encoder.settings import (
  LOADING,
  NAME,
  NO_GRADIENTS,
  POOLING,
  TENSORFLOW,
  EncoderSettings,
  Role,
  reject_openvino,
)
from bert_flow_tf.encoder.transformer.number_formats import reject_int8
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.io.settings import check_positive, setting
from bert_flow_tf.training.settings import FlowSettings

# The published runner trains only above this number of epochs; its commands turn a training off by 1e-10.
NO_EPOCHS = 1e-6


@dataclasses.dataclass(frozen=True)
class SiameseEmbedding(EncoderSettings):
  """Encoder and pooling of a siamese training, with the published ways to name an encoder."""

  init_checkpoint: str | None = setting(
    None,
    "TF1 checkpoint, such as .../bert_model.ckpt or exp/NAME/model.ckpt-40, or folder of an encoder; used in place of "
    "model. Variables of flow and classifier that are in a checkpoint are restored too.",
    part=NAME,
  )
  bert_config_file: str | None = setting(
    None, "Configuration of init_checkpoint; default: the one in its folder.", part=LOADING, role=Role.LOCAL
  )
  vocab_file: str | None = setting(
    None, "vocab.txt of init_checkpoint; default: the one in its folder.", part=LOADING, role=Role.LOCAL
  )
  do_lower_case: bool | None = setting(
    None, "Whether text is lower-cased. The vocabulary decides it; a flag that contradicts it is an error."
  )
  sentence_embedding_type: str = setting("avg", f"{ALLOWED_POOLINGS}.", part=POOLING)
  max_seq_length: int = setting(128, "Largest number of tokens of a sentence, [CLS] and [SEP] included.", part=POOLING)
  predict_batch_size: int = setting(8, "Pairs whose sentences are embedded at once.", minimum=1)

  def check_lower_case(self, tokenizer: Any) -> None:
    """Raises a ConfigError if do_lower_case contradicts a `SentenceTokenizer`."""
    if self.do_lower_case not in (None, tokenizer.do_lower_case):
      raise ConfigError(
        f"do_lower_case={self.do_lower_case}: the encoder's vocabulary is {'un' * tokenizer.do_lower_case}cased; leave "
        "the flag out, or choose another encoder",
        argument="do_lower_case",
      )


@dataclasses.dataclass(frozen=True)
class SiameseSettings(FlowSettings):
  """How an encoder is fine-tuned on pairs, with a flow or without; a ConfigError names a value outside its range."""

  flow_model_config: str = setting("config_l3_d3_w32", "Name of a packaged configuration, or a json file.")
  flow_learning_rate: float = setting(1e-3, "Constant learning rate of the flow's own loss.")
  num_train_epochs: float = setting(3.0, "Passes over the pairs; up to 1e-6: no training.", minimum=0.0)
  distribution_strategy: str = setting(
    "default",
    "default: all GPUs, or the CPU; mirrored: the same, always through a MirroredStrategy.",
    named=False,
    choices=("default", "mirrored"),
  )
  use_xla: bool = setting(False, "Compile the step with XLA.", named=False)
  save_checkpoints_steps: int = setting(1000, "Steps between two checkpoints.", named=False, minimum=1)
  train_splits: tuple[str, ...] | None = setting(
    None, "Splits whose labels are used; default: train, and dev with use_full_for_training."
  )
  use_full_for_training: bool = setting(False, "1: train on the pairs of train, dev and test.")
  num_examples: int = setting(
    -1, "Pairs whose labels are used: -1 all; 0 none, so that only a flow is fitted; n pairs drawn by seed.", minimum=-1
  )
  dupe_factor: int = setting(
    1, "Copies of each pair; all but the first have a random word piece of each sentence masked.", minimum=1
  )
  flow: bool = setting(False, "1: compare latents of a flow on the embeddings, instead of embeddings.")
  flow_loss: bool = setting(False, "1: the flow learns from its own loss, in bits per dimension. Needs flow.")
  learning_rate: float = setting(5e-5, "Highest learning rate of BERT and the classifier.")
  warmup_proportion: float = setting(
    0.1, "Part of the steps in which that rate rises; it then falls to 0.", minimum=0.0, maximum=1.0
  )
  l2_penalty: float = setting(
    -1.0, "Factor of the norms of the two embeddings in the loss; active above 0.", minimum=-1.0
  )
  early_stopping: bool = setting(False, "Evaluate dev after each epoch, and end with the weights that are best there.")
  early_stopping_patience: int = setting(
    1, "Evaluations in a row without a better score that end the training.", minimum=1
  )
  as_published: bool = setting(
    False,
    "Compute with the faults of the published code that its figures need: actnorm starts from Glorot's values "
    "instead of data and 1x1 convolutions from uniform numbers, BERT's dropout is on while only a flow is fitted, test "
    "splits are trained on with one label, copies of dupe_factor are read next to one another, and early_stopping ends "
    "when Pearson's r did not fall.",
  )

  def __post_init__(self) -> None:
    super().__post_init__()
    check_positive(self, "learning_rate")
    # The published runner never calls the data-dependent initialization.
    if self.as_published and self.flow:
      object.__setattr__(self, "actnorm_init", "glorot")

  @property
  def frozen(self) -> bool:
    """True if nothing trains the encoder: only the flow is fitted."""
    return self.num_examples == 0 and self.l2_penalty <= 0

  @property
  def trains(self) -> bool:
    """True if the number of epochs asks for a training."""
    return self.num_train_epochs > NO_EPOCHS

  def check_training(self, precision: str = "float32", engine: str = TENSORFLOW) -> None:
    """Raises a ConfigError if settings that only a training uses contradict each other, the precision or the engine."""
    if precision == "float16" and not self.frozen:
      raise ConfigError(
        "precision=float16: small gradients underflow; use bfloat16, which has float32's range, or float32",
        argument="precision",
      )
    if not self.frozen:
      reject_int8(precision, "it has no gradients")
      reject_openvino(engine, NO_GRADIENTS)
    if self.as_published:
      reject_openvino(engine, "each step of as_published embeds with dropout")
    trains_on_dev = "dev" in (self.train_splits or ()) and not self.as_published
    if self.early_stopping and (self.num_examples == 0 or trains_on_dev):
      raise ConfigError(
        "early_stopping: needs labels of train to train on, and of dev to stop by; leave out num_examples=0 and dev in "
        "train_splits",
        argument="early_stopping",
      )
    if self.frozen and not self.flow_loss:
      raise ConfigError("num_examples=0: without labels only a flow is fitted; add flow and flow_loss", "num_examples")

  def check_flow(self) -> None:
    """Raises a ConfigError if `flow_loss` comes without `flow`, or a flow cannot start."""
    if self.flow_loss and not self.flow:
      raise ConfigError("flow_loss: is the loss of a flow; add flow=1", argument="flow_loss")
    if self.flow:
      self.check_start()


def siamese_name(prefix: str, task: str, embedding: EncoderSettings, settings: SiameseSettings) -> str:
  """Returns the published name of an experiment, with the task's name as the user typed it."""
  parts = [f"{prefix}_t_{task}_ep_{settings.num_train_epochs:.2f}_lr_{settings.learning_rate:.2e}"]
  # Each part appears only if its setting is not the published default, in the published order.
  if settings.train_batch_size != 32:
    parts.append(f"bsz_{settings.train_batch_size}")
  if embedding.sentence_embedding_type != "avg":
    parts.append(f"e_{embedding.sentence_embedding_type}")
  if settings.flow:
    parts.append(f"f_1{int(settings.flow_loss)}")
    if settings.flow_loss:
      parts.append(f"{settings.flow_learning_rate:.2e}")
    if settings.use_full_for_training:
      parts.append("allsplits")
    config = pathlib.Path(settings.flow_model_config).stem
    if config != "config_l3_d3_w32":
      parts.append(config)
  if settings.num_examples > 0:
    parts.append(f"n_{settings.num_examples}")
  if embedding.low_dim > -1:
    parts.append(f"ld_{embedding.low_dim}")
  if settings.l2_penalty > 0:
    parts.append(f"l2_{settings.l2_penalty:.2e}")
  return "_".join(parts)
