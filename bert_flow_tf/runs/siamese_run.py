"""Run of `bert-flow siamese`: trains an encoder, a classifier and a flow, or loads them; evaluates and predicts."""

import json
import os
import pathlib
from collections.abc import Mapping
from typing import Any

from absl import logging

from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.data.siamese_task import TrainingPairs, predicted_pairs
from bert_flow_tf.data.task import TaskData
from bert_flow_tf.encoder.checkpoints import tf1
from bert_flow_tf.encoder.checkpoints.files import checkpoint_prefixes_in
from bert_flow_tf.encoder.embeddings import Embeddings, find_embeddings
from bert_flow_tf.encoder.kinds import public_name
from bert_flow_tf.errors import BertFlowError, ConfigError
from bert_flow_tf.evaluation.metrics import correlation
from bert_flow_tf.evaluation.result import TaskResult
from bert_flow_tf.evaluation.task_scores import WITH_FLOW, WITHOUT_FLOW
from bert_flow_tf.io import checksums, files
from bert_flow_tf.io.checks import is_integer
from bert_flow_tf.io.experiment import Stopwatch
from bert_flow_tf.model import SentenceModel
from bert_flow_tf.report import result_files, sentences
from bert_flow_tf.report.record import TaskRecord
from bert_flow_tf.runs import siamese_scores
from bert_flow_tf.runs.run_folder import RunFolder, describe_measured, print_results
from bert_flow_tf.runs.siamese_parts import SiameseParts, checkpoint_prefix
from bert_flow_tf.runs.siamese_training import SiameseTraining
from bert_flow_tf.tf1.checkpoint import step_of
from bert_flow_tf.training.siamese.settings import SiameseEmbedding, SiameseSettings

# Name of a file in the run's folder.
FACTS = "training.json"


class SiameseRun:
  """Run in a folder: `train` or `load` first, then `evaluate` and `predict`, and `write` at last."""

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
    self.parts = SiameseParts(task, embedding, settings)
    self.watch = Stopwatch()
    self.facts: dict[str, Any] = {}  # content of training.json
    self.step = 0  # the published global_step
    self._embedded: list[Embeddings] = []
    self._results: list[TaskResult] = []
    self._measured: dict[str, Any] = {}  # entries of results.json about the models of the results
    self._is_loaded = self._is_trained = False
    self._checkpoint: str | None = None

  def train(self, selection: TrainingPairs) -> None:
    """Trains on the selected pairs, and writes checkpoints, encoder, classifier, flow and training.json."""
    training = SiameseTraining(self.parts, selection, self._folder, self.watch)
    self.facts = training.run()
    self.step, self._embedded = training.step, training.embedded
    write_facts(self._folder, self.facts)
    self._is_trained = self._is_loaded = True

  def load(self, checkpoint: str | None = None) -> None:
    """Loads a checkpoint of the folder, the latest by default; else what a training wrote, or would start from."""
    prefix, facts = self._find_checkpoint(checkpoint), read_facts(self._folder)
    if prefix is None and not facts:
      prefix = self._embedding.encoder_name
      logging.info("%s has no checkpoint", self._folder)
      self.parts.load_whole(prefix)
    else:
      self.facts = facts
      self._check_pooling()
      if prefix is None:
        # Published checkpoints hold a BERT alone.
        self.step = facts["step"]
        self.parts.load_saved(self._folder)
      else:
        self.step, self._checkpoint = step_of(prefix) or 0, checkpoint
        self.parts.load_whole(prefix)
    self._embedded = []
    self._is_loaded = True
    logging.info("%s is used", prefix or self._folder)

  def _find_checkpoint(self, name):
    """Returns the prefix of a checkpoint in the folder, by default of the latest; None if the folder has none."""
    names = checkpoint_prefixes_in(self._folder)
    if name is None:
      return tf1.find_prefix(self._folder) if names else None
    if name not in names:
      available = ", ".join(names) or "no checkpoint"
      raise ConfigError(f"eval_checkpoint_name={name}: {self._folder} has {available}", "eval_checkpoint_name")
    return str(self._folder / name)

  def _check_pooling(self):
    """Checks that flow and classifier get the embeddings that they were trained on; max_seq_length may differ."""
    if not self._settings.flow and not self._task.labels:
      return
    pooling = self._embedding.model_arguments()
    for name, value in self.facts.get("embedding", {}).items():
      if name != "max_seq_length" and pooling.get(name) != value:
        raise ConfigError(f"{name}={pooling.get(name)}: {self._folder} was trained with {name}={value}", argument=name)

  def _embed(self, *sets):
    """Returns the embeddings of pairs, without the steps; from an earlier call if it had all sentences."""
    embeddings = find_embeddings(SentencePairs.concatenate(sets), self._embedded)
    if embeddings is None:
      embeddings = self.parts.embed(self.parts.encoder, sets, self._embedding.cached_dir)
      self._embedded.append(embeddings)
    return embeddings

  def _embed_untrained(self, sets):
    """Embeds the sentences of pairs with the encoder that the training started from; None if that has no score."""
    before = self.facts.get("encoder_sha256_before")
    if self._task.labels or before in (None, self.parts.encoder.weights_checksum):
      return None
    try:
      encoder = self.parts.load_encoder(checkpoint_prefix(self._embedding.encoder_name))
    except BertFlowError as error:  # an evaluation later on, for which the trained encoder is enough
      logging.warning("no scores before the training: %s", error)
      return None
    if encoder.weights_checksum != before:
      logging.info("%s is not what the training started from: no scores before it", encoder.name)
      return None
    return self.parts.embed(encoder, sets, self._embedding.cached_dir)

  def methods(self) -> dict[str, SentenceModel]:
    """Returns {method: model}: without the flow, and with it if there is one; the last is the model of the loss."""
    model = self.parts.model
    methods = {WITHOUT_FLOW: model.with_calibration(None)}
    if model.calibration is not None:
      methods[WITH_FLOW] = model
    return methods

  def evaluate(self, splits: list[str], batch_size: int) -> None:
    """Evaluates splits with gold, and writes eval_results.txt of the first one, which is dev if the task has it."""
    if not self._is_loaded:
      self.load()
    task, model, classifier = self._task, self.parts.model, self.parts.classifier
    with self.watch.timing("evaluating"):
      sets = [task.splits[split] for split in splits]
      embeddings = self._embed(*sets)
      if task.labels:
        result = siamese_scores.classification(task, model, embeddings, classifier, splits)
      else:
        untrained = self._embed_untrained(sets)
        result = siamese_scores.agreement(task, self.methods(), embeddings, splits, untrained)
      self._results, self._measured = [result], self._describe_models()
      pairs, bits = task.splits[splits[0]], None
      if model.flow is not None:
        first, second = embeddings.of(pairs.sentences_a), embeddings.of(pairs.sentences_b)
        bits = (model.flow.bits_per_dim(first) + model.flow.bits_per_dim(second)).numpy()
      values: dict[str, Any] = siamese_scores.eval_results(
        task.targets(pairs),
        siamese_scores.final(model, embeddings, pairs),
        classifier,
        bits,
        uses_labels=self._settings.num_examples != 0,
        l2_penalty=self._settings.l2_penalty,
        batch_size=batch_size,
      )
    result_files.write_eval_results(self._folder, {**values, "global_step": self.step})

  def _describe_models(self):
    """Returns what results.json has of the models in use."""
    return {"encoder": self.parts.model.identity.to_dict(), **describe_measured(self.methods())}

  def predict(self, name: str, checkpoint: str | None, pool: bool) -> None:
    """Writes the cosines of a split "test", "dev" or "full", or its embeddings, by default of the latest checkpoint."""
    if not self._is_loaded or checkpoint not in (None, self._checkpoint):
      self.load(checkpoint)
    pairs = predicted_pairs(self._task, name)
    with self.watch.timing("predicting"):
      sides = siamese_scores.final(self.parts.model, self._embed(pairs), pairs)
    kind = "pooled" if pool else "results"
    path = self._folder / f"{name}_{kind}.tsv"
    if checkpoint:
      path = path.with_name(f"{checkpoint}.{path.name}")
    if pool:
      siamese_scores.write_pooled(path, sides)
    elif self._task.labels:
      siamese_scores.write_labels(path, self._task, pairs, self.parts.classifier.probabilities(*sides))
    else:
      # The published script's mode predict scores them, too.
      found = correlation(siamese_scores.write_cosines(path, sides), pairs.scores)
      if not found.reason:
        print(f"{path.name}: Pearson {found.pearson:.2f}, Spearman {found.spearman:.2f} x 100, {found.pairs} pairs")
    logging.info("%s pairs predicted in %s", name, path)

  def write(self) -> None:
    """Writes results.json and the page, and prints the table; a prediction alone keeps earlier results."""
    if not self._is_loaded:
      return
    # A prediction of another checkpoint may have come after the evaluation.
    measured = self._measured or self._describe_models()
    about = {
      "task": self._task.name,
      "data": self._task.source,
      "dropped_without_label": self._task.dropped,
      **measured,
      "training": self.facts,
      "seconds": self.watch.seconds,
      **self._about,
    }
    if self._results or self._is_trained or not (self._folder / result_files.RESULTS_FILE).exists():
      title = f"{self._task.name}, {public_name(measured['encoder']['name'])}"
      path = self._files.write(title, list(map(TaskRecord, self._results)), about)
    if self._results:
      print_results(self._results, self.watch.seconds, path)
    else:
      print(sentences.spent(self.watch.seconds))


def write_facts(folder: pathlib.Path, facts: Mapping[str, Any]) -> None:
  """Writes training.json."""
  files.write_text(folder / FACTS, json.dumps(checksums.sealed(result_files.plain(facts)), indent=2) + "\n")


def read_facts(folder: pathlib.Path) -> dict[str, Any]:
  """Returns the content of training.json; empty if nothing was trained in the folder."""
  path = folder / FACTS
  if not path.exists():
    return {}
  try:
    facts = checksums.verified(files.read_json(path))
    if not is_integer(facts.get("step", 0), 0) or not isinstance(facts.get("embedding", {}), dict):
      raise ValueError("expected an integer as step, and an object as embedding")
    return facts
  except (OSError, ValueError, TypeError) as error:
    raise ConfigError(f"{path} cannot be read ({error}); remove it, or train again") from error
