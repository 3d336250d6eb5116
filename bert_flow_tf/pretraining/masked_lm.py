"""A BERT with a masked-language-model head, trained from scratch and written to a folder."""

import contextlib
import os
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf
import tf_keras
import transformers
from transformers.modeling_tf_pytorch_utils import apply_transpose, convert_tf_weight_name_to_pt_weight_name

from bert_flow_tf.encoder.saving import write_folder
from bert_flow_tf.encoder.seeded_dropout import SeededDropout

# As in BERT's own configurations; fine-tuning, and the argument encoder_dropout, read it from config.json.
_DROPOUT_OF_CONFIG = 0.1


class MaskedLanguageModel:
  """A TFBertForMaskedLM with random weights; dropout is a function of a seed.

  Args:
    sizes: vocab_size, hidden_size, num_hidden_layers, num_attention_heads, intermediate_size and
      max_position_embeddings.
    dropout: rate for hidden states and attention.
    precision: one of `settings.PRECISIONS`; weights are always float32.
    seed: seed of the initial weights.

  Attributes:
    model: the transformers.TFBertForMaskedLM.
  """

  def __init__(self, sizes: Mapping[str, int], dropout: float = 0.0, precision: str = "float32", seed: int = 0) -> None:
    rates = {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    tf_keras.utils.set_random_seed(seed)
    with _policy(precision):
      self.model = transformers.TFBertForMaskedLM(transformers.BertConfig(**sizes, **rates))
      self.model.build_in_name_scope()
    self._dropout = SeededDropout(self.model)

  @property
  def trainable_variables(self) -> list[tf.Variable]:
    """All weights."""
    return self.model.trainable_variables

  def losses(
    self,
    ids: tf.Tensor,
    mask: tf.Tensor,
    positions: tf.Tensor,
    labels: tf.Tensor,
    dropout_seed: tf.Tensor | None = None,
  ) -> tf.Tensor:
    """Returns the cross entropy of the masked pieces, in nats.

    Args:
      ids: int32 Tensor [batch, seq_len].
      mask: int32 Tensor [batch, seq_len].
      positions: int32 Tensor [masked, 2], row and column.
      labels: int32 Tensor [masked].
      dropout_seed: int32 Tensor [2]; None for no dropout.

    Returns:
      float32 Tensor [masked].
    """
    with self._dropout.on(dropout_seed):
      output = self.model.bert(input_ids=ids, attention_mask=mask, training=dropout_seed is not None)
    # The product with the vocabulary is half of a small model's work: only the masked pieces need it.
    states = tf.gather_nd(output.last_hidden_state, positions)[tf.newaxis]
    scores = tf.cast(self.model.mlm(sequence_output=states)[0], tf.float32)
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=scores)

  def save(
    self,
    folder: str | os.PathLike,
    pieces: Sequence[str],
    do_lower_case: bool,
    card: str,
    weights_dtype: str = "float16",
  ) -> None:
    """Writes a Hugging Face folder, which `SentenceEncoder.from_pretrained` loads, atomically.

    Args:
      folder: the folder; an older model in it is replaced.
      pieces: the vocabulary.
      do_lower_case: setting of the tokenizer.
      card: text of README.md.
      weights_dtype: one of `settings.WEIGHTS_DTYPES`, the format of the file, which has the names of transformers'
        PyTorch models.

    Raises:
      EncoderError: the folder holds something else, or a weight is not finite in this type.
    """
    vocabulary = "".join(f"{piece}\n" for piece in pieces).encode()
    write_folder(
      folder, self._config(), self._tensors(weights_dtype), vocabulary, {"do_lower_case": do_lower_case}, card
    )

  def _tensors(self, weights_dtype):
    tensors = {}
    for weight in self.model.weights:
      name, transpose = convert_tf_weight_name_to_pt_weight_name(weight.name, tf_weight_shape=weight.shape)
      with np.errstate(over="ignore"):
        value = tf.convert_to_tensor(weight).numpy().astype(weights_dtype)
      tensors[name] = np.ascontiguousarray(apply_transpose(transpose, value, pt_to_tf=False))
    return tensors

  def _config(self):
    values = self.model.config.to_diff_dict()
    values |= {"architectures": ["BertForMaskedLM"], "model_type": "bert"}
    values |= {"hidden_dropout_prob": _DROPOUT_OF_CONFIG, "attention_probs_dropout_prob": _DROPOUT_OF_CONFIG}
    sizes = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
    values |= {name: getattr(self.model.config, name) for name in (*sizes, "max_position_embeddings")}
    return values


@contextlib.contextmanager
def _policy(precision):
  before = tf_keras.mixed_precision.global_policy()
  tf_keras.mixed_precision.set_global_policy(precision)
  try:
    yield
  finally:
    tf_keras.mixed_precision.set_global_policy(before)
