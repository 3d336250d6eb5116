"""LoadedModel, the model of an encoder with the files that it came from."""

import dataclasses
from typing import Any

from bert_flow_tf.encoder.checkpoints.declared import Declared
from bert_flow_tf.encoder.checkpoints.files import EncoderFiles


@dataclasses.dataclass(frozen=True)
class LoadedModel:
  """Model of an encoder and where it comes from.

  Attributes:
    model: the `Transformer`, or word rows alone, or weights of which nothing is made yet.
    name: the user's name for it.
    files: the files of its tokenizer.
    declared: pooling, length and letter case that its files declare.
    declared_in: the files of the folder that declares them; None without a declaration.
    revision: commit of a model of the hub; None for others.
    is_user_model: whether it shares its variables with a model object of the user's.
    weights_checksum: SHA-256 of the weights, if it is known.
  """

  model: Any
  name: str
  files: EncoderFiles
  declared: Declared = dataclasses.field(default_factory=Declared)
  declared_in: EncoderFiles | None = None
  revision: str | None = None
  is_user_model: bool = False
  weights_checksum: str | None = None
