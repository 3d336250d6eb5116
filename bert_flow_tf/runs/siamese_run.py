"""Job of run_siamese: trains an encoder, a classifier and a flow in an experiment's folder, or loads them."""

import contextlib
import dataclasses
import functools
import os
import pathlib
from collections.abc import Callable

import numpy as np
from absl import logging

from bert_flow_tf.calibration.flow import FlowCalibration
from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.data.siamese_task import TrainingPairs
from bert_flow_tf.data.task import TaskData
from bert_flow_tf.encoder import fine_tuning, saving, tf1_reader
from bert_flow_tf.encoder.pooling import check_low_dim
from bert_flow_tf.encoder.sentence_encoder import SentenceEncoder
from bert_flow_tf.errors import BertFlowError, ConfigError, TrainingError
from bert_flow_tf.evaluation.task_scores import Embeddings
from bert_flow_tf.flow.glow import Glow
from bert_flow_tf.io.experiment import Stopwatch, make_folder
from bert_flow_tf.runs import siamese_folder
from bert_flow_tf.runs.siamese_folder import CLASSIFIER, ENCODER, FLOW, Trained
from bert_flow_tf.runs.siamese_scores import dev_score
from bert_flow_tf.training.distribution import make_strategy, peak_memory
from bert_flow_tf.training.labelled_pairs import LabelledPairs
from bert_flow_tf.training.objectives import Classifier, CosineObjective
from bert_flow_tf.training.optimizer import num_steps
from bert_flow_tf.training.siamese_settings import SiameseEmbedding, SiameseSettings
from bert_flow_tf.training.siamese_trainer import EarlyStopping, SiameseTrainer


class SiameseJob:
  """Trains in a folder, or loads from it.

  Args:
    task: the task.
    embedding: encoder and pooling.
    settings: settings of the training.
    folder: the experiment's folder.
    watch: counts the seconds.
    write_checkpoint: (folder, step, trained) -> None; writes the published checkpoint model.ckpt-STEP.

  Raises:
    ConfigError: the flow's configuration or the strategy cannot be used.
  """

  def __init__(
    self,
    task: TaskData,
    embedding: SiameseEmbedding,
    settings: SiameseSettings,
    folder: str | os.PathLike,
    watch: Stopwatch,
    write_checkpoint: Callable[[pathlib.Path, int, Trained], None],
  ) -> None:
    if settings.flow:
      settings.check()
    self._task, self._embedding, self._settings = task, embedding, settings
    self._folder, self._watch, self._write = pathlib.Path(folder), watch, write_checkpoint
    self._pooling = embedding.model_arguments()
    self._strategy = make_strategy(settings.distribution_strategy, deterministic=settings.deterministic)

  def train(self, chosen: TrainingPairs) -> Trained:
    """Trains on the chosen pairs, and writes checkpoints, encoder, classifier, flow and training.json.

    Raises:
      BertFlowError: the training would make no step, cannot be resumed, or stopped because a loss is not finite.
    """
    settings, folder = self._settings, self._folder
    # An error comes before any work.
    num_steps(len(chosen.pairs), settings.train_batch_size, settings.num_train_epochs)
    trained = self._make(self._embedding.encoder_name, to_be_trained=True)
    before = trained.encoder.weights_checksum
    pairs = f"{chosen.labeled} labeled and {chosen.unlabeled} other pairs"
    logging.info("training on %s (%s); results in %s", pairs, self._task.source, folder)
    result = self._fit(chosen, trained)
    after = trained.encoder.weights_checksum
    if settings.frozen and after != before:
      raise TrainingError("the encoder's weights changed while the flow was fitted: this is a bug")
    if not settings.frozen:
      saving.save_encoder(trained.encoder, folder / ENCODER)
      trained.encoder.bert.name, trained.encoder.bert.folder = str(folder / ENCODER), folder / ENCODER
    step = result.best[1] if result.best and not settings.as_published else result.steps
    siamese_folder.save_parts(folder, trained, self._pooling)
    self._write(folder, step, trained)
    facts = self._facts(chosen, result) | {"encoder_sha256_before": before, "encoder_sha256": after}
    siamese_folder.write_facts(folder, facts)
    return dataclasses.replace(trained, facts=facts, step=step)

  def load(self, checkpoint: str | None = None) -> Trained:
    """Loads a checkpoint of the experiment's folder; without any, the weights that a training would start from.

    Args:
      checkpoint: its name in the folder; None for the latest.

    Raises:
      ConfigError: a flow or classifier is needed that the checkpoint does not have, or it has another pooling.
      BertFlowError: a file is damaged.
    """
    prefix = siamese_folder.find_checkpoint(self._folder, checkpoint)
    if prefix is None:
      logging.info("%s has no checkpoint: %s is used as it is", self._folder, self._embedding.encoder_name)
      return self.load_initial()
    facts = siamese_folder.read_facts(self._folder)
    if self._settings.flow or self._task.labels:
      siamese_folder.check_pooling(self._folder, facts, self._pooling)
    trained = self._make(prefix, needed=True)
    logging.info("%s is used", prefix)
    return dataclasses.replace(trained, facts=facts, step=siamese_folder.step_of(prefix))

  def load_initial(self) -> Trained:
    """Loads the weights that a training would start from, for an evaluation.

    Raises:
      BertFlowError: see `load`.
    """
    return self._make(self._embedding.encoder_name, needed=True)

  def embed(self, trained: Trained, sets: list[SentencePairs], cached: bool = True) -> Embeddings:
    """Embeds the sentences of pairs, without flow and low_dim."""
    arguments = self._encode_arguments()
    return Embeddings(trained.encoder, sets, cache=self._embedding.cached_dir if cached else None, **arguments)

  def embed_untrained(self, trained: Trained, sets: list[SentencePairs]) -> Embeddings | None:
    """Embeds the sentences of pairs with the encoder that the training of `trained` started from.

    Returns:
      The embeddings. None if no encoder was trained, if the encoder of the settings is another one or cannot be loaded,
      or for a task with labels, which a classifier without training cannot predict.
    """
    before = trained.facts.get("encoder_sha256_before")
    if self._task.labels or before in (None, trained.encoder.weights_checksum):
      return None
    try:
      encoder = self._load_encoder(siamese_folder.checkpoint_of(self._embedding.encoder_name), False)
    except BertFlowError as error:  # an evaluation later on, for which the trained encoder is enough
      logging.warning("no scores before the training: %s", error)
      return None
    if encoder.weights_checksum != before:
      logging.info("%s is not what the training started from: no scores before it", encoder.name)
      return None
    return self.embed(Trained(encoder, None, None, {}), sets)

  def embedder(self, trained: Trained) -> Callable[[list[str]], np.ndarray]:
    """Returns the function from n sentences to embeddings [n, dim], without flow and low_dim."""
    return functools.partial(trained.encoder.encode, **self._encode_arguments())

  def _encode_arguments(self):
    arguments = {name: self._pooling[name] for name in ("sentence_embedding_type", "max_seq_length")}
    return {**arguments, "batch_size": 2 * self._embedding.predict_batch_size}  # a pair has two sentences

  def _make(self, name, to_be_trained=False, needed=False):
    """Loads an encoder, and makes flow and classifier with the variables that are in its checkpoint.

    Args:
      name: name, folder or prefix of the encoder.
      to_be_trained: whether the variables are created for a training.
      needed: whether flow and classifier must be in the checkpoint.
    """
    settings, labels = self._settings, self._task.labels
    name = siamese_folder.checkpoint_of(name)
    encoder = self._load_encoder(name, to_be_trained and not settings.frozen)
    width = encoder.dim(self._embedding.sentence_embedding_type)
    with self._strategy.scope() if to_be_trained else contextlib.nullcontext():
      dim = self._pooling["low_dim"] or width
      classifier = Classifier.initial(dim, labels, settings.seed) if labels else None
      flow = None
      if settings.flow:
        flow = FlowCalibration(Glow(settings.config, width, settings.actnorm_init, settings.permutation, settings.seed))
    trained = Trained(encoder, flow, classifier, {})
    restored = trained.restore(name) if tf1_reader.is_prefix(name) else {}
    siamese_folder.log_restored(name, restored)
    if needed:
      needs = {FLOW: ("flow", int(settings.flow)), CLASSIFIER: ("task", self._task.name if labels else "")}
      siamese_folder.check_restored(name, restored, needs)
    return trained

  def _load_encoder(self, name, to_be_trained):
    if name == self._embedding.init_checkpoint and not (os.path.isdir(name) or tf1_reader.is_prefix(name)):
      raise ConfigError(
        f"init_checkpoint={name}: no such folder, and no {os.path.basename(name)}.index; expected the prefix of a "
        "TensorFlow 1 checkpoint, such as FOLDER/bert_model.ckpt, or an encoder's folder",
        argument="init_checkpoint",
      )
    # Mixed precision rounds the float32 weights in each call, so an encoder to be trained is loaded in float32; its
    # variables are created under the strategy.
    arguments = self._embedding.loading_arguments()
    arguments |= {"precision": "float32"} if to_be_trained else {}
    with self._strategy.scope() if to_be_trained else contextlib.nullcontext():
      encoder = SentenceEncoder.from_pretrained(name, **arguments)
    encoder.bert.check_max_seq_length(self._embedding.max_seq_length)
    self._embedding.check_lower_case(encoder.tokenizer)
    encoder.bert.check_has_transformer("be trained")
    pooling = encoder.pooling(self._embedding.sentence_embedding_type)
    fine_tuning.check_pooling(pooling, encoder.token_weights)
    dim, low_dim = encoder.dim(pooling), self._pooling["low_dim"]
    check_low_dim(dim, low_dim)
    encoder.bert.declared.log(pooling.name, self._embedding.max_seq_length)
    logging.info("%s: %d dimensions, %s", encoder.name, low_dim or dim, pooling.describe())
    return encoder

  def _fit(self, chosen, trained):
    """Fits encoder, classifier and flow."""
    settings, folder, encoder = self._settings, self._folder, trained.encoder
    if not settings.frozen:
      fine_tuning.use_mixed_precision(encoder.bert, self._embedding.precision)
    trainer = SiameseTrainer(
      encoder,
      encoder.pooling(self._embedding.sentence_embedding_type),
      trained.classifier or CosineObjective(),
      trained.flow and trained.flow.flow,
      settings,
      self._strategy,
      self._pooling["low_dim"],
      folder / "checkpoints",
      folder / "tensorboard",
      on_checkpoint=lambda step: self._write(folder, step, trained),
    )
    early_stopping = None
    if settings.early_stopping:
      early_stopping = EarlyStopping(
        lambda: self._dev_score(trained), settings.early_stopping_patience, settings.as_published
      )
    make_folder(folder)  # after the checks above, so that a rejected command leaves no folder
    with self._watch.timing("tokenizing"):
      sides = (chosen.pairs.sentences_a, chosen.pairs.sentences_b)
      length = self._embedding.max_seq_length
      copies = {"dupe_factor": chosen.dupe_factor, "random": chosen.random}
      source = LabelledPairs(encoder, *sides, chosen.targets, length, bool(settings.use_xla), **copies)
    with self._watch.timing("training"):
      return trainer.fit(source, settings.num_train_epochs, early_stopping)

  def _dev_score(self, trained):
    # Not cached: these weights do not occur again.
    embeddings = self.embed(trained, [self._task.splits["dev"]], cached=False)
    transforms = trained.transforms(self._pooling["low_dim"])
    return dev_score(self._task, embeddings, transforms, trained.classifier, self._settings.as_published)

  def _facts(self, chosen, result):
    settings = self._settings
    return {
      "frozen": settings.frozen,
      "steps": result.steps,
      "planned_steps": result.planned_steps,
      "epochs": settings.num_train_epochs,
      "batch_size": settings.train_batch_size,
      "learning_rate": settings.learning_rate,
      "best_on_dev": result.best and {"score": result.best[0], "step": result.best[1]},
      "seconds_per_step": None if np.isnan(result.seconds_per_step) else result.seconds_per_step,
      "peak_memory_bytes": peak_memory(),
      "embedding": self._pooling,
      "task": self._task.name,
      "data": self._task.source,
      "splits": list(chosen.splits),
      "labelled": chosen.labeled,
      "unlabelled": chosen.unlabeled,
      "dupe_factor": settings.dupe_factor,
      "dropped_without_label": self._task.dropped,
    }
