"""Run of run_siamese: trains an encoder, a classifier and a flow in a folder, or loads them; evaluates and predicts."""

import contextlib
import json
import os
import pathlib
from collections.abc import Mapping
from typing import Any

from absl import logging

from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.data.siamese_task import TrainingPairs, predicted_pairs
from bert_flow_tf.data.task import TaskData
from bert_flow_tf.encoder import fine_tuning, google_folder, saving, tf1_reader
from bert_flow_tf.encoder.pooling import check_low_dim
from bert_flow_tf.encoder.sentence_encoder import SentenceEncoder
from bert_flow_tf.encoder.source import MODEL_NAMES
from bert_flow_tf.errors import BertFlowError, ConfigError
from bert_flow_tf.evaluation import report
from bert_flow_tf.evaluation.result import TaskResult
from bert_flow_tf.evaluation.task_scores import WITH_FLOW, WITHOUT_FLOW, Embeddings
from bert_flow_tf.flow.glow import Glow
from bert_flow_tf.io import checksums, files
from bert_flow_tf.io.experiment import Stopwatch
from bert_flow_tf.model import SentenceModel
from bert_flow_tf.runs import siamese_scores
from bert_flow_tf.runs.run_folder import RunFolder, print_results
from bert_flow_tf.tf1.checkpoint import step_of
from bert_flow_tf.tf1.training import restore, write_training_checkpoint
from bert_flow_tf.training.calibrate import check_flow
from bert_flow_tf.training.distribution import make_strategy, peak_memory
from bert_flow_tf.training.labelled_pairs import LabelledPairs
from bert_flow_tf.training.objectives import Classifier, CosineObjective
from bert_flow_tf.training.optimizer import num_steps
from bert_flow_tf.training.siamese_settings import SiameseEmbedding, SiameseSettings
from bert_flow_tf.training.siamese_trainer import EarlyStopping, SiameseTrainer

# Names of folders and of a file in the run's folder.
ENCODER, CLASSIFIER, FLOW, FACTS = "encoder", "classifier", "flow", "training.json"


class SiameseRun:
  """Run in a folder: `train` or `load` first, then `evaluate` and `predict`, and `write` at last.

  `model` is then the encoder with its flow, if there is one, `classifier` that of a task with labels. `facts` is the
  content of training.json, empty if nothing was trained, `step` the number of steps made, the published global_step.
  """

  def __init__(
    self,
    task: TaskData,
    embedding: SiameseEmbedding,
    settings: SiameseSettings,
    folder: str | os.PathLike,
    about: Mapping[str, Any],
  ) -> None:
    if settings.flow:
      settings.check()
    self._task, self._embedding, self._settings = task, embedding, settings
    self._folder, self._about = pathlib.Path(folder), about
    self._files = RunFolder(self._folder)
    self._pooling = embedding.model_arguments()
    self._strategy = make_strategy(settings.distribution_strategy, deterministic=settings.deterministic)
    self.watch = Stopwatch()
    self.model: SentenceModel  # after `train` or `load`
    self.classifier: Any = None
    self.facts: dict[str, Any] = {}
    self.step = 0
    self._embedded: list[Embeddings] = []
    self._restored: dict[str, tuple[int, int]] = {}
    self._results: list[TaskResult] = []
    self._is_loaded = self._is_trained = False
    self._checkpoint: str | None = None

  # Training.

  def train(self, chosen: TrainingPairs) -> None:
    """Trains on the chosen pairs, and writes checkpoints, encoder, classifier, flow and training.json."""
    settings, folder = self._settings, self._folder
    # An error comes before any work.
    num_steps(len(chosen.pairs), settings.train_batch_size, settings.num_train_epochs)
    encoder, flow, self.classifier = self._load_parts(self._embedding.encoder_name, to_be_trained=True)
    before = encoder.weights_checksum
    pairs = f"{chosen.labeled} labeled and {chosen.unlabeled} other pairs"
    logging.info("training on %s (%s); results in %s", pairs, self._task.source, folder)
    fit = self._fine_tune
    if self._can_embed_once(chosen):
      fit = self._fit_flow
    facts = fit(chosen, encoder, flow)
    if not settings.frozen:
      # The trained encoder has a folder, and thereby an identity, of its own.
      saving.save_encoder(encoder, folder / ENCODER)
      encoder.bert.name, encoder.bert.folder = str(folder / ENCODER), folder / ENCODER
      self._use(encoder, flow)
    if self.classifier is not None:
      self.classifier.encoder = self.model.identity.to_dict()
      self.classifier.save(folder / CLASSIFIER)
    if self.model.calibration is not None:
      self.model.save(folder / FLOW)
    self._write_checkpoint(self.step)
    facts |= {"encoder_sha256_before": before, "encoder_sha256": encoder.weights_checksum}
    self.facts = {**self._describe_training(chosen), **facts}
    write_facts(folder, self.facts)
    self._is_trained = True

  def _can_embed_once(self, chosen):
    """Returns whether a fit on embeddings made once means the same as steps through BERT."""
    settings = self._settings
    # The published code has BERT's dropout on. Copies of a pair have masked word pieces. A flow of init_checkpoint is
    # trained further, where `SentenceModel.fit` makes a new one.
    continues_flow = self._restored.get(FLOW, (0, 0))[0] > 0
    return settings.frozen and not settings.as_published and chosen.dupe_factor == 1 and not continues_flow

  def _fit_flow(self, chosen, encoder, flow):
    """Fits a new flow on embeddings of a frozen encoder, as run_flow; returns facts of the fit."""
    del flow  # `SentenceModel.fit` makes one of the same seed
    settings = self._settings
    self._use(encoder, None)
    model = self.model
    check_flow(settings, model.dim, len(chosen.pairs), self._strategy)
    self._files.make()  # after the check, so that a rejected command leaves no folder
    with self.watch.timing("embedding"):
      embeddings = self._embed(chosen.pairs)

    def on_checkpoint(flow, step):
      self._write_checkpoint(step, flow.flow)
      return {}

    with self.watch.timing("training"):
      model.fit(
        chosen.pairs,
        FLOW,
        strategy=self._strategy,
        folder=self._folder,
        embeddings=[embeddings],
        flow_settings=settings,
        scores=on_checkpoint,
      )
    fit = model.flow_fit
    self.step = fit.steps
    return {"steps": fit.steps, "planned_steps": fit.steps, "seconds_per_step": fit.seconds_per_step}

  def _fine_tune(self, chosen, encoder, flow):
    """Trains encoder, classifier and flow step by step through BERT; returns facts of the training."""
    settings, folder = self._settings, self._folder
    if not settings.frozen:
      fine_tuning.use_mixed_precision(encoder.bert, self._embedding.precision)
    # The trained weights are in these objects: the model changes while they are trained.
    self._use(encoder, flow)
    trainer = SiameseTrainer(
      encoder,
      encoder.pooling(self._embedding.sentence_embedding_type),
      self.classifier or CosineObjective(),
      flow,
      settings,
      self._strategy,
      self._pooling["low_dim"],
      folder / "checkpoints",
      folder / "tensorboard",
      on_checkpoint=self._write_checkpoint,
    )
    early_stopping = None
    if settings.early_stopping:
      early_stopping = EarlyStopping(self._dev_score, settings.early_stopping_patience, settings.as_published)
    self._files.make()  # after the checks above, so that a rejected command leaves no folder
    with self.watch.timing("tokenizing"):
      source = LabelledPairs(
        encoder,
        chosen.pairs.sentences_a,
        chosen.pairs.sentences_b,
        chosen.targets,
        self._embedding.max_seq_length,
        pad_to_max=bool(settings.use_xla),
        dupe_factor=chosen.dupe_factor,
        random=chosen.random,
      )
    with self.watch.timing("training"):
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
    model = self._make_model(self.model.encoder, self.model.calibration)
    embeddings = self._embeddings_of(model, [self._task.splits["dev"]], None)
    return siamese_scores.dev_score(self._task, model, embeddings, self.classifier, self._settings.as_published)

  def _describe_training(self, chosen):
    settings = self._settings
    return {
      "frozen": settings.frozen,
      "epochs": settings.num_train_epochs,
      "batch_size": settings.train_batch_size,
      "learning_rate": settings.learning_rate,
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

  def _write_checkpoint(self, step, flow=None):
    if flow is None and self.model.calibration is not None:
      flow = self.model.calibration.flow
    write_training_checkpoint(self._folder, step, self.model.encoder, flow, self.classifier)

  # Loading.

  def load(self, checkpoint: str | None = None) -> None:
    """Loads a checkpoint of the folder, the latest by default; without any, what a training would start from."""
    prefix = self._find_checkpoint(checkpoint)
    if prefix is None:
      logging.info("%s has no checkpoint: %s is used as it is", self._folder, self._embedding.encoder_name)
      self.load_initial()
      return
    self.facts = read_facts(self._folder)
    if self._settings.flow or self._task.labels:
      self._check_pooling()
    self._load_whole(prefix)
    self.step, self._checkpoint = step_of(prefix) or 0, checkpoint
    logging.info("%s is used", prefix)

  def load_initial(self) -> None:
    """Loads the weights that a training would start from."""
    self._load_whole(self._embedding.encoder_name)

  def _load_whole(self, name):
    """Loads an encoder, with flow and classifier, which must be in its checkpoint."""
    encoder, flow, self.classifier = self._load_parts(name)
    needs = {}
    if flow is not None:
      needs[FLOW] = "flow", 1
    if self.classifier is not None:
      needs[CLASSIFIER] = "task", self._task.name
    for part, (argument, value) in needs.items():
      count, total = self._restored.get(part, (0, 1))
      if count < total:
        lacking = f"{count} of the {total} variables of this {part}" if count else f"no {part}"
        raise ConfigError(f"{argument}={value}: {name} has {lacking}; train first (do_train)", argument)
    self._use(encoder, flow)

  def _find_checkpoint(self, name):
    """Returns the prefix of a checkpoint in the folder, by default of the latest; None if the folder has none."""
    names = tf1_reader.prefixes_in(self._folder)
    if name is None and not names:
      return None
    if name is None:
      return tf1_reader.find_prefix(self._folder)
    if name not in names:
      available = ", ".join(names) or "no checkpoint"
      raise ConfigError(f"eval_checkpoint_name={name}: {self._folder} has {available}", "eval_checkpoint_name")
    return str(self._folder / name)

  def _check_pooling(self):
    """Checks that flow and classifier get the embeddings that they were trained on; max_seq_length may differ."""
    for name, value in self.facts.get("embedding", {}).items():
      now = self._pooling[name]
      if name != "max_seq_length" and now != value:
        raise ConfigError(f"{name}={now}: {self._folder} was trained with {name}={value}", argument=name)

  def _load_parts(self, name, to_be_trained=False):
    """Returns encoder, flow and classifier, with the variables that are in the encoder's checkpoint."""
    settings, labels = self._settings, self._task.labels
    name = checkpoint_of(name)
    encoder = self._load_encoder(name, to_be_trained and not settings.frozen)
    width = encoder.dim(self._embedding.sentence_embedding_type)
    flow = classifier = None
    with self._scope(to_be_trained):
      if labels:
        classifier = Classifier.initial(self._pooling["low_dim"] or width, labels, settings.seed)
      if settings.flow:
        flow = Glow(settings.config, width, settings.actnorm_init, settings.permutation, settings.seed)
    # As in the published code, variables that a checkpoint has by name are restored, the others keep their values.
    self._restored = {}
    if tf1_reader.is_prefix(name):
      self._restored = restore(name, flow, classifier)
    for part, (count, total) in self._restored.items():
      logging.info("%s: %d of %d variables of the %s restored", name, count, total, part)
    return encoder, flow, classifier

  def _load_encoder(self, name, to_be_trained):
    embedding = self._embedding
    if name == embedding.init_checkpoint and not (os.path.isdir(name) or tf1_reader.is_prefix(name)):
      raise ConfigError(
        f"init_checkpoint={name}: no such folder, and no {os.path.basename(name)}.index; expected the prefix of a "
        "TensorFlow 1 checkpoint, such as FOLDER/bert_model.ckpt, or an encoder's folder",
        argument="init_checkpoint",
      )
    arguments = embedding.loading_arguments()
    if to_be_trained:
      # Mixed precision rounds the float32 weights in each call.
      arguments["precision"] = "float32"
    with self._scope(to_be_trained):
      encoder = SentenceEncoder.from_pretrained(name, **arguments)
    encoder.bert.check_max_seq_length(embedding.max_seq_length)
    embedding.check_lower_case(encoder.tokenizer)
    encoder.bert.check_has_transformer("be trained")
    pooling = encoder.pooling(embedding.sentence_embedding_type)
    fine_tuning.check_pooling(pooling, encoder.token_weights)
    dim, low_dim = encoder.dim(pooling), self._pooling["low_dim"]
    check_low_dim(dim, low_dim)
    encoder.bert.declared.log(pooling.name, embedding.max_seq_length)
    logging.info("%s: %d dimensions, %s", encoder.name, low_dim or dim, pooling.describe())
    return encoder

  def _scope(self, to_be_trained):
    """Returns the context in which variables are made: those that are trained have a copy on every device."""
    return self._strategy.scope() if to_be_trained else contextlib.nullcontext()

  def _use(self, encoder, flow):
    """Makes encoder and flow the run's model."""
    self.model = self._make_model(encoder, flow)
    self._embedded = []
    self._is_loaded = True

  def _make_model(self, encoder, flow):
    return SentenceModel(encoder, flow, cache=self._embedding.cached_dir, **self._pooling)

  # Embedding.

  def _embed(self, *sets):
    """Returns the embeddings of pairs, without flow and low_dim; those of an earlier call if it had all of them."""
    for embeddings in self._embedded:
      if all(embeddings.have(pairs) for pairs in sets):
        return embeddings
    self._embedded.append(self._embeddings_of(self.model, sets, self._embedding.cached_dir))
    return self._embedded[-1]

  def _embeddings_of(self, model, sets, cache):
    batch_size = 2 * self._embedding.predict_batch_size  # a pair has two sentences
    return Embeddings(model.encoder, sets, batch_size, cache, **model.identity.pooling_arguments())

  def _embed_untrained(self, sets: list[SentencePairs]) -> Embeddings | None:
    """Embeds the sentences of pairs with the encoder that the training started from.

    None if no encoder was trained, if the encoder of the settings is another one or cannot be loaded, or for a task
    with labels, which a classifier without training cannot predict.
    """
    before = self.facts.get("encoder_sha256_before")
    if self._task.labels or before in (None, self.model.encoder.weights_checksum):
      return None
    try:
      encoder = self._load_encoder(checkpoint_of(self._embedding.encoder_name), False)
    except BertFlowError as error:  # an evaluation later on, for which the trained encoder is enough
      logging.warning("no scores before the training: %s", error)
      return None
    if encoder.weights_checksum != before:
      logging.info("%s is not what the training started from: no scores before it", encoder.name)
      return None
    return self._embeddings_of(self._make_model(encoder, None), sets, self._embedding.cached_dir)

  # Results.

  def methods(self) -> dict[str, SentenceModel]:
    """Returns {method: model}: without the flow, and with it if there is one; the last one is that of the loss."""
    methods = {WITHOUT_FLOW: self.model.uncalibrated()}
    if self.model.calibration is not None:
      methods[WITH_FLOW] = self.model
    return methods

  def evaluate(self, splits: list[str], batch_size: int) -> None:
    """Evaluates splits with gold, and writes eval_results.txt of the first one, which is dev if the task has it."""
    if not self._is_loaded:
      self.load()
    task, model = self._task, self.model
    with self.watch.timing("evaluating"):
      sets = [task.splits[split] for split in splits]
      embeddings = self._embed(*sets)
      if task.labels:
        result = siamese_scores.classification(task, model, embeddings, self.classifier, splits)
      else:
        untrained = self._embed_untrained(sets)
        result = siamese_scores.agreement(task, self.methods(), embeddings, splits, untrained)
      self._results = [result]
      pairs, bits = task.splits[splits[0]], None
      if model.calibration is not None:
        first, second = embeddings.of(pairs.sentences_a), embeddings.of(pairs.sentences_b)
        bits = (model.calibration.bits_per_dim(first) + model.calibration.bits_per_dim(second)).numpy()
      values: dict[str, Any] = siamese_scores.eval_results(
        task.targets(pairs),
        siamese_scores.final(model, embeddings, pairs),
        self.classifier,
        bits,
        uses_labels=self._settings.num_examples != 0,
        l2_penalty=self._settings.l2_penalty,
        batch_size=batch_size,
      )
    self._files.write_eval_results({**values, "global_step": self.step})

  def predict(self, name: str, checkpoint: str | None, pool: bool) -> None:
    """Writes the cosines of a split "test", "dev" or "full", or its embeddings, by default of the latest checkpoint."""
    if not self._is_loaded or checkpoint not in (None, self._checkpoint):
      self.load(checkpoint)
    pairs = predicted_pairs(self._task, name)
    with self.watch.timing("predicting"):
      sides = siamese_scores.final(self.model, self._embed(pairs), pairs)
    self._files.make()
    kind = "pooled" if pool else "results"
    path = self._folder / f"{name}_{kind}.tsv"
    if checkpoint:
      path = path.with_name(f"{checkpoint}.{path.name}")
    if pool:
      siamese_scores.write_pooled(path, sides)
    elif self._task.labels:
      siamese_scores.write_labels(path, self._task, pairs, self.classifier.probabilities(*sides))
    else:
      siamese_scores.write_cosines(path, sides)
      if name == self._task.spec.eval_split:
        logging.info("its scores: run_eval.py --task=%s --predictions=%s, and the same data_dir", self._task.name, path)
    logging.info("%s pairs predicted in %s", name, path)

  def write(self) -> None:
    """Writes results.json and the page, and prints the table; a prediction alone keeps earlier results."""
    if not self._is_loaded:
      return
    about = {
      "task": self._task.name,
      "data": self._task.source,
      "dropped_without_label": self._task.dropped,
      "encoder": self.model.identity.to_dict(),
      "training": self.facts,
      "seconds": self.watch.seconds,
      **self._about,
    }
    if self._results or self._is_trained or not (self._folder / report.RESULTS_FILE).exists():
      self._files.write_results(self._results, about)
    if self._results:
      path = self._files.write_page(f"{self._task.name}, {self.model.identity.name}", self._results, about)
      print_results(self._results, self.watch.seconds, path)
    else:
      print(f"seconds: {report.spent(self.watch.seconds)}")


def checkpoint_of(name: str) -> str:
  """Returns the prefix of the checkpoint that is used if an encoder's name is a TensorFlow 1 folder, else the name."""
  folder = pathlib.Path(name)
  is_folder = name not in MODEL_NAMES and folder.is_dir() and google_folder.is_tf1(folder)
  return tf1_reader.find_prefix(name) if is_folder else name


def write_facts(folder: pathlib.Path, facts: Mapping[str, Any]) -> None:
  """Writes training.json."""
  files.write_text(folder / FACTS, json.dumps(checksums.sealed(report.plain(facts)), indent=2) + "\n")


def read_facts(folder: pathlib.Path) -> dict[str, Any]:
  """Returns the content of training.json; empty if nothing was trained in the folder."""
  path = folder / FACTS
  if not path.exists():
    return {}
  try:
    return checksums.opened(files.read_json(path))
  except (OSError, ValueError, TypeError) as error:
    raise ConfigError(f"{path} cannot be read ({error}); remove it, or train again") from error
