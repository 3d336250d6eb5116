"""Loading of a BERT, or of its word rows alone, with fixed weights."""

import hashlib
import os
import pathlib
from typing import Any

import numpy as np
import tensorflow as tf

from bert_flow_tf.encoder import checkpoints, google_folder, hub, tf1_names, tf1_reader
from bert_flow_tf.encoder import precision as precision_lib
from bert_flow_tf.encoder import static as static_lib
from bert_flow_tf.encoder.declared import Declared, read_declared
from bert_flow_tf.encoder.seeded_dropout import SeededDropout
from bert_flow_tf.encoder.settings import WORD_ROWS
from bert_flow_tf.errors import ConfigError, EncoderError
from bert_flow_tf.io.checks import is_integer
from bert_flow_tf.io.experiment import STATIC


class BertEncoder:
  """BERT with fixed weights.

  Attributes:
    model: the transformers.TFBertModel, `trainable` False; of a static encoder, its `WordRows`.
    config: its transformers.BertConfig, with num_hidden_layers 0 for a static encoder.
    name: name or folder that it was loaded from.
    folder: path of its files.
    has_pooler: True if the checkpoint has the pooled output's weights, which the pooling `cls` needs.
    precision: number format of its matrix products, see `precision`; its weights are always float32.
    declared: pooling and length of sentence embeddings where the user gives none.
    revision: commit of a model of the hub, else None.
  """

  def __init__(
    self,
    model: Any,
    name: str,
    folder: pathlib.Path,
    has_pooler: bool,
    precision: str = precision_lib.FLOAT32,
    declared: Declared = Declared(),  # noqa: B008, as it is frozen
    revision: str | None = None,
  ) -> None:
    self.model = model
    self.config = model.config
    self.name = name
    self.folder = folder
    self.has_pooler = has_pooler
    self.precision = precision
    self.declared = declared
    self.revision = revision
    self._dropout = SeededDropout(model)

  def __call__(
    self, ids: tf.Tensor, mask: tf.Tensor, dropout_seed: tf.Tensor | None = None
  ) -> tuple[tuple[tf.Tensor, ...], tf.Tensor | None]:
    """Runs BERT with segment ids 0, as the original does (docs/original.md, "Encoder and pooling").

    Args:
      ids: int32 Tensor of shape [batch, seq_len].
      mask: int32 Tensor of shape [batch, seq_len], 1 for tokens, 0 for padding.
      dropout_seed: int32 Tensor of shape [2] that determines the dropout masks; None for no dropout.

    Returns:
      Tuple of num_hidden_layers + 1 float32 Tensors of shape [batch, seq_len, hidden] (0 is the embedding
      layer, i the output of the i-th block), and the pooled output, float32 [batch, hidden], or None. Of a static
      encoder, () and None.
    """
    if self.is_static:
      return (), None
    with self._dropout.on(dropout_seed):
      output = self.model(
        input_ids=ids,
        attention_mask=mask,
        token_type_ids=tf.zeros_like(ids),
        output_hidden_states=True,
        return_dict=True,
        training=dropout_seed is not None,
      )
    return output.hidden_states, output.pooler_output

  @property
  def is_static(self) -> bool:
    """True if it has word rows and no transformer."""
    return isinstance(self.model, static_lib.WordRows)

  def check_max_seq_length(self, max_seq_length: int | None) -> int:
    """Returns the number of tokens, the declared one for None.

    Raises:
      EncoderError: [CLS], a token and [SEP] do not fit, or a position has no embedding.
    """
    limit = self.config.max_position_embeddings
    if max_seq_length is None:
      max_seq_length = min(self.declared.max_seq_length, limit)
    if not is_integer(max_seq_length, 3) or max_seq_length > limit:
      raise EncoderError(
        f"max_seq_length={max_seq_length}: expected an integer from 3 (a token between [CLS] and [SEP]) to {limit}, "
        f"the number of positions of the model '{self.name}'",
        argument="max_seq_length",
      )
    return int(max_seq_length)

  def word_rows(self, ids: tf.Tensor) -> tf.Tensor:
    """Returns the word embeddings of token ids, each divided by its length, float32 [batch, seq_len, hidden]."""
    return tf.math.l2_normalize(tf.gather(self.model.get_input_embeddings().weight, ids), axis=-1)

  def word_embeddings(self) -> np.ndarray:
    """Returns the word embeddings, float32 array of shape [vocab, hidden], before position and normalization."""
    return self.model.get_input_embeddings().weight.numpy()

  @property
  def weights_checksum(self) -> str:
    """Hexadecimal SHA-256 of the names, shapes and bytes of all variables, sorted by name."""
    digest = hashlib.sha256()
    for weight in sorted(self.model.weights, key=checkpoints.bare_name):
      value = np.ascontiguousarray(weight.numpy())
      digest.update(f"{checkpoints.bare_name(weight)} {value.dtype} {value.shape} ".encode())
      digest.update(value.data)
    return digest.hexdigest()

  def tf1_variables(self) -> dict[str, np.ndarray]:
    """Returns {name in Google's checkpoints: float32 array} of every weight.

    Raises:
      EncoderError: a static encoder, whose word rows alone are no BERT.
    """
    self.check_has_transformer("be saved or converted as a BERT")
    return {tf1_names.of_keras(checkpoints.bare_name(weight)): weight.numpy() for weight in self.model.weights}

  def check_has_transformer(self, purpose: str) -> None:
    """Raises EncoderError for a static encoder; `purpose`: what it cannot do, "be trained"."""
    if self.is_static:
      full = self.name.removeprefix(STATIC)
      raise EncoderError(f"model={self.name}: word rows without a transformer cannot {purpose}; use {full}", "model")

  @property
  def architecture(self) -> dict[str, Any]:
    """Settings that change the output and no weight, for cache keys."""
    config = self.config
    if self.is_static:
      return {}
    return {
      "num_attention_heads": config.num_attention_heads,
      "hidden_act": str(config.hidden_act),
      "layer_norm_eps": config.layer_norm_eps,
    }


def load_bert(
  name: str | os.PathLike,
  cache_dir: str | os.PathLike | None = None,
  precision: str = precision_lib.FLOAT32,
  hidden_act: str | None = None,
  bert_config_file: str | os.PathLike | None = None,
  vocab_file: str | os.PathLike | None = None,
  revision: str | None = None,
) -> BertEncoder:
  """Loads a BERT; no weight stays random.

  Args:
    name: see `hub.resolve`; also Google's folder, see `google_folder`, or the prefix of a checkpoint in such a folder;
      or "static:" and one of these, for its word rows without the transformer.
    cache_dir: folder of the hub's cache; None for its default.
    precision: see `BertEncoder`.
    hidden_act: transformers' name of an activation; None for the configuration's, whose "gelu" is "gelu_new" if it is a
      bert_config.json, as in Google's code.
    bert_config_file: configuration of a TensorFlow 1 checkpoint; None for the one in its folder.
    vocab_file: vocab.txt of a TensorFlow 1 checkpoint, whose folder becomes the attribute `folder`; None for the one in
      its folder.
    revision: commit, branch or tag of a hub model; None for main.

  Raises:
    ConfigError: unknown precision or activation, or one for a static encoder; or files for a model that is no
      TensorFlow 1 checkpoint.
    EncoderError: the model does not exist, or a file of its folder is missing, damaged or does not match another file.
  """
  precision_lib.check_precision(precision)
  checkpoints.check_activation(hidden_act)
  base = static_lib.base_name(name)
  static = base is not None
  if static:
    static_lib.check_settings(str(name), precision, hidden_act)
  base = base if static else name
  try:
    folder, checkpoint = _find(base, cache_dir, revision)
  except EncoderError as error:
    if not static or error.argument != "model":
      raise
    raise EncoderError(str(error).replace(f"model={base}", f"model={name}", 1), "model") from error
  commit = hub.commit_of(base, folder)
  declared, folder = (Declared(), folder) if checkpoint is not None else read_declared(folder)
  changes = {} if hidden_act is None else {"hidden_act": hidden_act}
  if checkpoint is not None:
    config_path = pathlib.Path(bert_config_file or google_folder.config_file(folder)).expanduser()
    if bert_config_file and not config_path.is_file():
      raise ConfigError(f"bert_config_file={bert_config_file}: no such file; expected a json file", "bert_config_file")
    folder = folder if vocab_file is None else _folder_of_vocabulary(vocab_file)
    model, has_pooler = checkpoints.load_tf1(config_path, folder, checkpoint, changes, static)
  elif bert_config_file or vocab_file:
    argument = "bert_config_file" if bert_config_file else "vocab_file"
    raise ConfigError(
      f"{argument}: belongs to a TensorFlow 1 checkpoint, and {name} is none; give the prefix of one, such as "
      "FOLDER/bert_model.ckpt, or leave the file out",
      argument,
    )
  else:
    model, has_pooler = checkpoints.load_hugging_face(folder, changes, static)
  if static:
    declared = Declared(WORD_ROWS, declared.max_seq_length, token_weights=static_lib.TOKEN_WEIGHTS)
    return BertEncoder(model, str(name), folder, has_pooler, precision, declared, commit)
  if not has_pooler:
    model.bert.pooler = None  # its weights are random and must not be read or change the checksum
  model.trainable = False
  precision_lib.fuse_activations(model)
  precision_lib.compute_in(model, precision)
  return BertEncoder(model, str(name), folder, has_pooler, precision, declared, commit)


def _find(name, cache_dir, revision):
  """Returns the folder of a model, and its TensorFlow 1 checkpoint: a prefix, the folder, or None."""
  path = os.path.expanduser(name) if isinstance(name, str | os.PathLike) else None
  if path is not None and name not in hub.MODEL_NAMES and not os.path.isdir(path) and tf1_reader.is_prefix(path):
    if revision is not None:
      raise EncoderError(
        f"revision={revision}: {name} is a checkpoint; only models of the hub have revisions", "revision"
      )
    return pathlib.Path(path).parent, path
  folder = hub.resolve(name, cache_dir, revision)
  return folder, folder if google_folder.is_tf1(folder) else None


def _folder_of_vocabulary(vocab_file):
  """Returns the folder of a vocab.txt.

  Raises:
    ConfigError: the file does not exist or has another name.
  """
  path = pathlib.Path(vocab_file).expanduser()
  if path.name != "vocab.txt" or not path.is_file():
    problem = "its name must be vocab.txt" if path.is_file() else "no such file; expected a vocab.txt"
    raise ConfigError(f"vocab_file={vocab_file}: {problem}", argument="vocab_file")
  return path.parent
