"""Encoder, flow and classifier of a siamese run: loaded from what the settings name, or from a checkpoint."""

import os
import pathlib
from typing import Any

from absl import logging

from bert_flow_tf.calibration.names import FLOW
from bert_flow_tf.calibration.saving import load_flow
from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.data.task import TaskData
from bert_flow_tf.encoder.checkpoints import tf1
from bert_flow_tf.encoder.checkpoints.files import is_checkpoint_folder, is_checkpoint_prefix
from bert_flow_tf.encoder.checkpoints.source import MODEL_NAMES
from bert_flow_tf.encoder.embeddings import Embeddings
from bert_flow_tf.encoder.identity import EncoderIdentity, read_identity
from bert_flow_tf.encoder.pooling import check_trainable
from bert_flow_tf.encoder.sentence_encoder import SentenceEncoder
from bert_flow_tf.encoder.settings import EncoderSettings
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.flow.glow import Glow
from bert_flow_tf.model import SentenceModel
from bert_flow_tf.tf1.flow import start_as_published
from bert_flow_tf.tf1.training import restore, write_training_checkpoint
from bert_flow_tf.training.siamese.objectives import Classifier
from bert_flow_tf.training.siamese.settings import SiameseEmbedding, SiameseSettings
from bert_flow_tf.training.strategies import make_strategy

# Names of folders in the run's folder.
ENCODER, CLASSIFIER = "encoder", "classifier"


class SiameseParts:
  """The parts that a task and settings ask for, which `load` makes: the encoder with any flow, and any classifier."""

  def __init__(self, task: TaskData, embedding: SiameseEmbedding, settings: SiameseSettings) -> None:
    self.task, self.embedding, self.settings = task, embedding, settings
    self.strategy = make_strategy(
      settings.distribution_strategy,
      deterministic=settings.deterministic,
      memory_growth=settings.gpu_memory_growth,
      all_gpus=True,
    )
    self.encoder: SentenceEncoder
    self.model: SentenceModel
    self.classifier: Any = None
    # {part: (number of variables that came from the encoder's checkpoint, of all)}
    self.restored: dict[str, tuple[int, int]] = {}

  def load(self, name: str, to_be_trained: bool = False) -> None:
    """Loads the encoder, and makes flow and classifier, with the variables that are in the encoder's checkpoint."""
    settings, labels = self.settings, self.task.labels
    name = checkpoint_prefix(name)
    encoder = self.load_encoder(name, to_be_trained and not settings.frozen)
    width = encoder.dim(self.embedding.sentence_embedding_type)
    flow = None
    self.restored = {}
    with self.strategy.scope():  # a copy on every device, which train and embed
      if labels:
        self.restored["classifier"] = 0, 1
      if settings.flow:
        flow = Glow(settings.config, width, settings.actnorm_init, settings.permutation, settings.seed)
        self.restored["flow"] = 0, len(flow.weights)
        if settings.as_published:
          start_as_published(flow, settings.seed)
    self.use(encoder, flow)
    if labels:
      with self.strategy.scope():
        self.classifier = Classifier.initial(self.model.output_dim, labels, settings.seed)
    # As in the published code, variables that a checkpoint has by name are restored, the others keep their values.
    if is_checkpoint_prefix(name):
      self.restored = restore(name, flow, self.classifier)
      for part, (count, total) in self.restored.items():
        logging.info("%s: %d of %d variables of the %s restored", name, count, total, part)

  def load_whole(self, name: str) -> None:
    """Loads the parts of a checkpoint; a ConfigError names flow or classifier if the checkpoint does not have all."""
    self.load(name)
    arguments = {"flow": ("flow", 1), "classifier": ("task", self.task.name)}
    for part, (count, total) in self.restored.items():
      if count < total:
        argument, value = arguments[part]
        lacking = f"{count} of the {total} variables of this {part}" if count else f"no {part}"
        raise ConfigError(f"{argument}={value}: {name} has {lacking}; train first (do_train)", argument)

  def load_saved(self, folder: pathlib.Path) -> None:
    """Loads what a training wrote into a run's folder: encoder unless it was frozen, flow and classifier."""
    name = self.embedding.encoder_name
    if (folder / ENCODER).is_dir():
      name = str(folder / ENCODER)
    encoder, flow = self.load_encoder(name), None
    if self.settings.flow:
      calibration = load_flow(folder / FLOW)
      self._check_weights(calibration, encoder, folder / FLOW)
      flow = calibration.flow
    if self.task.labels:
      self.classifier = Classifier.load(folder / CLASSIFIER)
      self._check_weights(self.classifier, encoder, folder / CLASSIFIER)
    self.use(encoder, flow)

  def _check_weights(self, fitted, encoder, folder):
    """Raises a ConfigError if flow or classifier of a folder was trained on other weights; settings may differ."""
    identity = read_identity(fitted.encoder, f"folder={folder}")
    if isinstance(identity, EncoderIdentity) and identity.weights_sha256 != encoder.weights_checksum:
      message = f"{folder} was trained on {identity}, got the weights of {encoder.name!r}; give model={identity.name}"
      raise ConfigError(f"model={self.embedding.encoder_name}: {message}", argument="model")

  def load_encoder(self, name: str, to_be_trained: bool = False) -> SentenceEncoder:
    """Loads an encoder that can be trained."""
    embedding = self.embedding
    if name == embedding.init_checkpoint and not (os.path.isdir(name) or is_checkpoint_prefix(name)):
      raise ConfigError(
        f"init_checkpoint={name}: no such folder, and no {os.path.basename(name)}.index; expected the prefix of a "
        "TensorFlow 1 checkpoint, such as FOLDER/bert_model.ckpt, or an encoder's folder",
        argument="init_checkpoint",
      )
    arguments = embedding.loading_arguments()
    if to_be_trained:
      # Mixed precision rounds the float32 weights in each call.
      arguments["precision"] = "float32"
    with self.strategy.scope():
      encoder = SentenceEncoder.load(EncoderSettings.of(name, **arguments))
    encoder.check_has_transformer("be trained")
    encoder.check_max_seq_length(embedding.max_seq_length)
    embedding.check_lower_case(encoder.tokenizer)
    pooling = encoder.pooling(embedding.sentence_embedding_type)
    check_trainable(pooling, encoder.token_weights)
    encoder.declared.log(pooling.name, embedding.max_seq_length)
    logging.info("%s: %d dimensions, %s", encoder.name, encoder.dim(pooling), pooling.describe())
    return encoder

  def use(self, encoder: SentenceEncoder, flow: Any) -> None:
    """Makes `model` of an encoder and a flow, or None for no flow."""
    self.encoder = encoder
    self.model = SentenceModel(encoder, flow, cache=self.embedding.cached_dir, **self.embedding.model_arguments())

  def embed(self, encoder: SentenceEncoder, sets: list[SentencePairs], cache: str | None = None) -> Embeddings:
    """Embeds the sentences of pairs, without the steps."""
    batch_size = 2 * self.embedding.predict_batch_size  # a pair has two sentences
    return Embeddings(encoder, sets, batch_size, cache, **self.embedding.pooling_arguments())

  def write_checkpoint(self, folder: pathlib.Path, step: int, flow: Glow | None = None) -> None:
    """Writes a published checkpoint, of the model's flow unless a flow is given; none unless it is a BERT."""
    if not self.encoder.is_bert:
      return
    if flow is None and self.model.flow is not None:
      flow = self.model.flow.flow
    write_training_checkpoint(folder, step, self.encoder, flow, self.classifier)


def checkpoint_prefix(name: str) -> str:
  """Returns the prefix of the checkpoint that is used if an encoder's name is a TensorFlow 1 folder, else the name."""
  folder = pathlib.Path(name)
  is_folder = name not in MODEL_NAMES and folder.is_dir() and is_checkpoint_folder(folder)
  return tf1.find_prefix(name) if is_folder else name
