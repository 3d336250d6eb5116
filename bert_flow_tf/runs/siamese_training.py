"""Training of a siamese run: through BERT, or of a flow alone on embeddings."""

import pathlib
from typing import Any

from absl import logging

from bert_flow_tf.calibration.names import FLOW, parse_calibration
from bert_flow_tf.data.siamese_task import TrainingPairs
from bert_flow_tf.encoder import saving
from bert_flow_tf.encoder.embeddings import Embeddings
from bert_flow_tf.io.experiment import Stopwatch
from bert_flow_tf.runs import siamese_scores
from bert_flow_tf.runs.run_folder import RunFolder
from bert_flow_tf.runs.siamese_parts import CLASSIFIER, ENCODER, SiameseParts
from bert_flow_tf.tf1.flow import without_scale
from bert_flow_tf.training.devices import log_devices
from bert_flow_tf.training.fitter import Fitter
from bert_flow_tf.training.flow_fit import check_flow
from bert_flow_tf.training.optimizer import num_steps
from bert_flow_tf.training.siamese.early_stopping import EarlyStopping
from bert_flow_tf.training.siamese.labeled_pairs import LabeledPairs
from bert_flow_tf.training.siamese.losses import SiameseLosses
from bert_flow_tf.training.siamese.trainer import SiameseTrainer
from bert_flow_tf.training.strategies import peak_memory


class SiameseTraining:
  """Training of a run's parts on chosen pairs, in its folder, to a `step`; `embedded` if the encoder was frozen."""

  def __init__(self, parts: SiameseParts, selection: TrainingPairs, folder: pathlib.Path, watch: Stopwatch) -> None:
    self._parts, self._selection, self._folder, self._watch = parts, selection, folder, watch
    self._settings = parts.settings
    self.step = 0
    self.embedded: list[Embeddings] = []

  def run(self) -> dict[str, Any]:
    """Trains, writes checkpoints, encoder, classifier and flow, and returns the content of training.json."""
    settings, folder, parts = self._settings, self._folder, self._parts
    # An error comes before any work.
    num_steps(len(self._selection.pairs), settings.train_batch_size, settings.num_train_epochs)
    parts.load(parts.embedding.encoder_name, to_be_trained=True)
    encoder = parts.encoder
    before, devices = encoder.weights_checksum, log_devices(parts.strategy)
    pairs = f"{self._selection.labeled} labeled and {self._selection.unlabeled} other pairs"
    logging.info("training on %s (%s); results in %s", pairs, parts.task.source, folder)
    if not encoder.is_bert:
      logging.info(
        "no model.ckpt-N: the published format holds a BERT alone, and %s is a %s",
        encoder.name,
        encoder.config.architecture.name,
      )
    fit = self._fine_tune
    if self._can_embed_once():
      fit = self._fit_flow
    facts = fit()
    RunFolder(folder).begin({"task": parts.task.name, "data": parts.task.source})
    if not settings.frozen:
      # The trained encoder has a folder, and thereby an identity, of its own.
      saving.save_encoder(encoder, folder / ENCODER)
      encoder.is_saved_in(folder / ENCODER)
      calibration = parts.model.flow
      parts.use(encoder, calibration and calibration.flow)
    if parts.classifier is not None:
      parts.classifier.encoder = parts.model.identity.to_dict()
      parts.classifier.save(folder / CLASSIFIER)
    if parts.model.calibration is not None:
      parts.model.save(folder / FLOW)
    parts.write_checkpoint(folder, self.step)
    checksums = {"encoder_sha256_before": before, "encoder_sha256": encoder.weights_checksum}
    return {**self._describe(), "devices": devices, **facts, "step": self.step, **checksums}

  def _can_embed_once(self):
    """Returns whether a fit on embeddings made once means the same as steps through BERT."""
    settings = self._settings
    # The published code has BERT's dropout on. Copies of a pair have masked word pieces. A flow of init_checkpoint is
    # trained further, where a fitter makes a new one.
    continues_flow = self._parts.restored.get("flow", (0, 0))[0] > 0
    return settings.frozen and not settings.as_published and self._selection.dupe_factor == 1 and not continues_flow

  def _fit_flow(self):
    """Fits a new flow on embeddings of a frozen encoder; returns facts of the fit."""
    settings, parts, pairs = self._settings, self._parts, self._selection.pairs
    parts.use(parts.encoder, None)  # the fitter makes a flow of the same seed
    model = parts.model
    check_flow(settings, model.dim, len(pairs))
    with self._watch.timing("embedding"):
      self.embedded = [parts.embed(model.encoder, [pairs], parts.embedding.cached_dir)]

    def on_checkpoint(flow, step):
      parts.write_checkpoint(self._folder, step, without_scale(flow))
      return {}

    fitter = Fitter(strategy=parts.strategy, folder=self._folder, flow_scores=on_checkpoint)
    rows = model.fit_sentences(pairs, cached=self.embedded)
    with self._watch.timing("training"):
      (calibration,) = fitter.fit([parse_calibration(FLOW)], rows, settings)
    parts.use(model.encoder, without_scale(calibration))
    fit: Any = fitter.flow_fit
    self.step = fit.steps
    return {"steps": fit.steps, "planned_steps": fit.steps, "seconds_per_step": fit.seconds_per_step}

  def _fine_tune(self):
    """Trains encoder, classifier and flow step by step through BERT; returns facts of the training."""
    settings, parts, selection = self._settings, self._parts, self._selection
    encoder, calibration = parts.encoder, parts.model.calibration
    if not settings.frozen:
      encoder.compute_in(parts.embedding.precision, frozen=False)
    losses = SiameseLosses(
      encoder,
      encoder.identity(**parts.embedding.model_arguments()),
      parts.classifier,
      calibration and calibration.flow,
      settings,
    )
    trainer = SiameseTrainer(
      losses,
      settings,
      parts.strategy,
      self._folder / "checkpoints",
      self._folder / "tensorboard",
      on_checkpoint=lambda step: parts.write_checkpoint(self._folder, step),
    )
    early_stopping = None
    if settings.early_stopping:
      early_stopping = EarlyStopping(self._dev_score, settings.early_stopping_patience, settings.as_published)
    with self._watch.timing("tokenizing"):
      source = LabeledPairs(
        encoder,
        selection.pairs.sentences_a,
        selection.pairs.sentences_b,
        selection.targets,
        parts.embedding.max_seq_length,
        pad_to_max=bool(settings.use_xla),
        dupe_factor=selection.dupe_factor,
        random=selection.random,
      )
    with self._watch.timing("training"):
      result = trainer.fit(source, settings.num_train_epochs, early_stopping)
    self.step, best = result.steps, None
    # The weights are those that were best on dev, except as published.
    if result.best:
      best = {"score": result.best[0], "step": result.best[1]}
      if not settings.as_published:
        self.step = result.best[1]
    return {
      "steps": result.steps,
      "planned_steps": result.planned_steps,
      "best_on_dev": best,
      "seconds_per_step": result.seconds_per_step,
    }

  def _dev_score(self):
    """Returns the score of the weights in training; they are not cached, as they do not occur again."""
    parts = self._parts
    embeddings = parts.embed(parts.encoder, [parts.task.splits["dev"]])
    return siamese_scores.dev_score(parts.task, parts.model, embeddings, parts.classifier, self._settings.as_published)

  def _describe(self):
    settings, parts, selection = self._settings, self._parts, self._selection
    return {
      "frozen": settings.frozen,
      "epochs": settings.num_train_epochs,
      "batch_size": settings.train_batch_size,
      "learning_rate": settings.learning_rate,
      "peak_memory_bytes": peak_memory(),
      "embedding": parts.embedding.model_arguments(),
      "task": parts.task.name,
      "data": parts.task.source,
      "splits": list(selection.splits),
      "labelled": selection.labeled,
      "unlabelled": selection.unlabeled,
      "dupe_factor": settings.dupe_factor,
      "dropped_without_label": parts.task.dropped,
    }
