"""Job of run_siamese: trains an encoder, a classifier and a flow in an experiment's folder, or loads them from it."""

import contextlib
import dataclasses
import os
import pathlib

import numpy as np
import tensorflow as tf
from absl import logging

from bert_flow_tf.calibration.flow import FlowCalibration
from bert_flow_tf.data.siamese_task import TrainingPairs
from bert_flow_tf.data.task import TaskData
from bert_flow_tf.encoder import fine_tuning, saving
from bert_flow_tf.encoder.sentence_encoder import SentenceEncoder
from bert_flow_tf.encoder.settings import EmbeddingSettings
from bert_flow_tf.errors import TrainingError
from bert_flow_tf.evaluation.siamese_scores import dev_score
from bert_flow_tf.evaluation.task_scores import Embeddings
from bert_flow_tf.flow.glow import Glow
from bert_flow_tf.io.experiment import Stopwatch, make_folder
from bert_flow_tf.training.calibrate import make_flow
from bert_flow_tf.training.distribution import make_strategy, peak_memory
from bert_flow_tf.training.early_stopping import EarlyStopping
from bert_flow_tf.training.labelled_pairs import LabelledPairs
from bert_flow_tf.training.objectives import CosineObjective, SoftmaxObjective
from bert_flow_tf.training.schedule import num_steps
from bert_flow_tf.training.siamese_folder import (
  ENCODER,
  Trained,
  load_trained,
  save_trained,
  tuned_encoder,
  write_facts,
)
from bert_flow_tf.training.siamese_settings import SiameseSettings
from bert_flow_tf.training.siamese_trainer import SiameseTrainer
from bert_flow_tf.training.sources import embedding_pairs


class SiameseJob:
  """Trains in a folder, or loads from it.

  Args:
    task: the task.
    embedding: encoder and pooling.
    settings: settings of the training, without None.
    folder: the experiment's folder.
    watch: counts the seconds.

  Raises:
    ConfigError: the flow's configuration or the strategy cannot be used.
  """

  def __init__(
    self,
    task: TaskData,
    embedding: EmbeddingSettings,
    settings: SiameseSettings,
    folder: str | os.PathLike,
    watch: Stopwatch,
  ) -> None:
    if settings.flow:
      settings.check()
    self._task, self._embedding, self._settings = task, embedding, settings
    self._folder, self._watch = pathlib.Path(folder), watch
    self._pooling = embedding.pooling_arguments()
    if settings.deterministic:
      tf.random.set_seed(settings.seed)  # without a seed, TensorFlow rejects random operations
      tf.config.experimental.enable_op_determinism()
    self._strategy = make_strategy(settings.distribution_strategy)

  def train(self, chosen: TrainingPairs) -> Trained:
    """Trains on the chosen pairs, and writes encoder, classifier, flow and training.json.

    Raises:
      BertFlowError: the training would make no step, cannot be resumed, or stopped because a loss is not finite.
    """
    settings = self._settings
    num_steps(len(chosen.pairs), settings.train_batch_size, settings.epochs)  # an error comes before any work
    encoder = self._load_encoder(self._embedding.encoder_name, to_be_trained=not settings.frozen)
    pairs = f"{chosen.labeled} labeled and {chosen.unlabeled} other pairs"
    logging.info("training on %s (%s); results in %s", pairs, self._task.source, self._folder)
    trained = (self._fit_flow if settings.frozen else self._fine_tune)(chosen, encoder)
    facts = trained.facts | {
      "task": self._task.name,
      "data": self._task.source,
      "splits": list(chosen.splits),
      "labelled": chosen.labeled,
      "unlabelled": chosen.unlabeled,
      "dupe_factor": settings.dupe_factor,
      "dropped_without_label": self._task.dropped,
    }
    write_facts(self._folder, facts)
    return dataclasses.replace(trained, facts=facts)

  def load(self) -> Trained:
    """Loads what `train` left in the folder; the encoder is that of the settings if none was trained.

    Raises:
      ConfigError: a flow or classifier is needed that is not in the folder.
      BertFlowError: a file is damaged, or belongs to another encoder.
    """
    name = tuned_encoder(self._folder) or self._embedding.encoder_name
    encoder = self._load_encoder(name)
    trained = load_trained(self._folder, encoder, self._pooling, self._settings.flow, self._task)
    make_folder(self._folder)
    return trained

  def _load_encoder(self, name, to_be_trained=False):
    # Mixed precision rounds the float32 weights in each call, so an encoder to be trained is loaded in float32; its
    # variables are created under the strategy.
    arguments = self._embedding.loading_arguments() | ({"precision": "float32"} if to_be_trained else {})
    with self._strategy.scope() if to_be_trained else contextlib.nullcontext():
      encoder = SentenceEncoder.from_pretrained(name, **arguments)
    encoder.bert.check_max_seq_length(self._embedding.max_seq_length)
    description = encoder.pooling(self._embedding.sentence_embedding_type).describe()
    logging.info("%s: %d dimensions, %s", encoder.name, self._dim(encoder), description)
    return encoder

  def _dim(self, encoder):
    return encoder.dim(self._pooling["sentence_embedding_type"], self._pooling["low_dim"])

  def _embed(self, encoder, sets, cached=True):
    cache = self._embedding.cached_dir if cached else None
    return Embeddings(encoder, sets, self._embedding.predict_batch_size, cache, **self._pooling)

  def _fit_flow(self, chosen, encoder):
    """Fits the flow on the embeddings of the frozen encoder.

    The published code has BERT's dropout on here, and its weight decay shrinks BERT's weights.
    """
    settings, before = self._settings, encoder.weights_checksum
    flow, trainer = make_flow(settings, self._dim(encoder), self._strategy, self._folder)
    steps = trainer.num_steps(len(chosen.pairs), settings.epochs)
    numbers = trainer.pairs_seen(len(chosen.pairs), settings.epochs)
    used = chosen.pairs.take(numbers)
    make_folder(self._folder)  # after the checks above, so that a rejected command leaves no folder
    with self._watch.timing("embedding"):
      embeddings = self._embed(encoder, [used])
    with self._watch.timing("training"):
      flow.fit_source(embedding_pairs(embeddings, used, numbers, len(chosen.pairs)))
    if encoder.weights_checksum != before:
      raise TrainingError("the encoder's weights changed while the flow was fitted: this is a bug")
    facts = {"frozen": True, "steps": steps, "epochs": settings.epochs, "flow_learning_rate": settings.rate}
    trained = Trained(encoder, flow, None, {**facts, "encoder_sha256": before})
    save_trained(self._folder, trained, self._pooling)
    return trained

  def _fine_tune(self, chosen, encoder):
    """Fine-tunes the encoder, together with a classifier for labels and optionally a flow."""
    settings, task, folder, before = self._settings, self._task, self._folder, encoder.weights_checksum
    fine_tuning.use_mixed_precision(encoder.bert, self._embedding.precision)
    dim = self._dim(encoder)
    with self._strategy.scope():
      objective = SoftmaxObjective(dim, task.labels, settings.seed) if task.labels else CosineObjective()
      glow = None
      if settings.flow:
        width = encoder.dim(self._embedding.sentence_embedding_type)
        glow = Glow(settings.config, width, settings.actnorm_init, settings.permutation, settings.seed)
    flow = glow and FlowCalibration(glow)
    trained = Trained(encoder, flow, objective if task.labels else None, {})
    trainer = SiameseTrainer(
      encoder,
      encoder.pooling(self._embedding.sentence_embedding_type),
      objective,
      glow,
      settings,
      self._strategy,
      self._pooling["low_dim"],
      folder / "checkpoints",
      folder / "tensorboard",
    )
    early_stopping = None
    if settings.early_stopping:
      early_stopping = EarlyStopping(lambda: self._dev_score(trained), settings.early_stopping_patience)
    make_folder(folder)  # after the checks above, so that a rejected command leaves no folder
    with self._watch.timing("tokenizing"):
      sides = (chosen.pairs.sentences_a, chosen.pairs.sentences_b)
      length = self._embedding.max_seq_length
      copies = {"dupe_factor": chosen.dupe_factor, "random": chosen.random}
      source = LabelledPairs(encoder, *sides, chosen.targets, length, bool(settings.use_xla), **copies)
    with self._watch.timing("training"):
      result = trainer.fit(source, settings.epochs, early_stopping)
    saving.save_encoder(encoder, folder / ENCODER)
    encoder.bert.name, encoder.bert.folder = str(folder / ENCODER), folder / ENCODER
    save_trained(folder, trained, self._pooling)
    return dataclasses.replace(trained, facts=self._facts(result, before, encoder.weights_checksum))

  def _dev_score(self, trained):
    # Not cached: these weights do not occur again.
    embeddings = self._embed(trained.encoder, [self._task.splits["dev"]], cached=False)
    return dev_score(self._task, embeddings, trained.flow, trained.classifier)

  def _facts(self, result, before, after):
    return {
      "frozen": False,
      "steps": result.steps,
      "planned_steps": result.planned_steps,
      "epochs": self._settings.epochs,
      "batch_size": self._settings.train_batch_size,
      "learning_rate": self._settings.learning_rate,
      "best_on_dev": result.best and {"figure": result.best[0], "step": result.best[1]},
      "seconds_per_step": None if np.isnan(result.seconds_per_step) else result.seconds_per_step,
      "peak_memory_bytes": peak_memory(),
      "encoder_sha256_before": before,
      "encoder_sha256": after,
    }
