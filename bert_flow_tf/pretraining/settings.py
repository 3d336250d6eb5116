"""Settings of a BERT that is trained from scratch."""

import dataclasses
import math

from bert_flow_tf.errors import ConfigError
from bert_flow_tf.io.settings import Settings, check_positive, setting
from bert_flow_tf.training.settings import DETERMINISTIC

PRECISIONS = ("float32", "mixed_bfloat16", "mixed_float16")
WEIGHTS_DTYPES = ("float16", "float32")


@dataclasses.dataclass(frozen=True)
class PretrainingSettings(Settings):
  """Text, vocabulary, sizes and training of a BERT by masked-language modeling.

  Raises:
    ConfigError: a value outside its range, or values that contradict each other.
  """

  # A resumed training compares the content of the text and of the vocabulary.
  corpus: str | None = setting(None, "Text file, one sentence a line, optionally gzipped.", named=False)
  vocab_file: str | None = setting(
    None,
    "vocab.txt, of which the text's most frequent vocab_size pieces are kept; default: a new vocabulary.",
    named=False,
  )
  vocab_size: int = setting(8192, "Largest number of word pieces.", minimum=1)
  do_lower_case: bool = setting(True, "Lower-case text and strip accents.")
  hidden_size: int = setting(256, "Width of the hidden states.", minimum=1)
  num_hidden_layers: int = setting(4, "Transformer blocks.", minimum=1)
  num_attention_heads: int = setting(4, "Attention heads of a block; must divide hidden_size.", minimum=1)
  intermediate_size: int | None = setting(
    None, "Width of the feed-forward layers; default: 4 times hidden_size.", minimum=1
  )
  max_seq_length: int = setting(128, "Largest number of tokens of a sentence; positions of the model.", minimum=3)
  train_batch_size: int = setting(96, "Sentences of a step, over all devices.", minimum=1)
  num_train_steps: int = setting(4200, "Steps.", minimum=1)
  num_warmup_steps: int = setting(500, "Steps over which the learning rate rises.", minimum=0)
  # At 1e-3, with Adam's moments not corrected, mini is still at 6.5 nats after 1,400 steps, near its words' entropy.
  learning_rate: float = setting(3e-4, "Highest learning rate; it falls linearly to 0.")
  weight_decay: float = setting(0.01, "Weight decay of all weights except biases and layer normalizations.")
  dropout: float = setting(
    0.0, "Rate of dropout; 0.1 is BERT's, useful if the text is seen many times.", minimum=0.0, maximum=0.9
  )
  seed: int = setting(
    0, "Seed of initial weights, order of the sentences, masked pieces and dropout.", minimum=0, maximum=2**31 - 1
  )
  precision: str = setting(
    "float32",
    "Number format of the computation; weights and optimizer are float32. The 16-bit formats are for GPUs.",
    choices=PRECISIONS,
  )
  distribution_strategy: str = setting(
    "default",
    "default: all GPUs, or the CPU; mirrored: the same, always through a MirroredStrategy; multi_worker_mirrored: the "
    "workers in TF_CONFIG.",
    named=False,
  )
  worker_wait_seconds: int = setting(
    600, "Longest wait at the start for the other workers in TF_CONFIG, in seconds.", named=False, minimum=1
  )
  save_checkpoints_steps: int = setting(100, "Steps between two checkpoints.", named=False, minimum=1)
  deterministic: bool = setting(False, DETERMINISTIC, named=False)
  weights_dtype: str = setting(
    "float16", "Number format of the model's file; it is loaded as float32.", named=False, choices=WEIGHTS_DTYPES
  )

  def __post_init__(self) -> None:
    super().__post_init__()
    check_positive(self, "learning_rate")
    if not 0 <= self.weight_decay < math.inf:
      raise ConfigError(f"weight_decay={self.weight_decay}: expected 0 or a positive number", argument="weight_decay")
    if self.num_warmup_steps >= self.num_train_steps:
      raise ConfigError(
        f"num_warmup_steps={self.num_warmup_steps}: expected fewer than num_train_steps={self.num_train_steps}",
        argument="num_warmup_steps",
      )
    if self.hidden_size % self.num_attention_heads:
      raise ConfigError(
        f"num_attention_heads={self.num_attention_heads}: expected a divisor of hidden_size={self.hidden_size}",
        argument="num_attention_heads",
      )

  def sizes(self, vocab_size: int) -> dict[str, int]:
    """Returns the sizes that transformers.BertConfig takes.

    Args:
      vocab_size: number of pieces in the vocabulary, at most the setting's.
    """
    return {
      "vocab_size": vocab_size,
      "hidden_size": self.hidden_size,
      "num_hidden_layers": self.num_hidden_layers,
      "num_attention_heads": self.num_attention_heads,
      "intermediate_size": self.intermediate_size or 4 * self.hidden_size,
      "max_position_embeddings": self.max_seq_length,
    }
