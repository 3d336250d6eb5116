"""Experiment of run_flow: fits calibrations on a corpus, evaluates them on a task, writes a folder."""

import dataclasses
import functools
import os
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from bert_flow_tf.calibration.flow import saved_calibrations
from bert_flow_tf.calibration.names import AUTO, FLOW, CalibrationSpec
from bert_flow_tf.data.flow_corpus import LEARNING_RATE, TARGET, CorpusSettings, FlowCorpus
from bert_flow_tf.data.task import TaskData
from bert_flow_tf.data.tasks import DataSettings
from bert_flow_tf.encoder.settings import DEFAULT_POOLING, EncoderSettings
from bert_flow_tf.errors import BertFlowError, ConfigError
from bert_flow_tf.evaluation.result import TaskResult, task_result
from bert_flow_tf.evaluation.task_scores import (
  WITH_FLOW,
  WITHOUT_FLOW,
  evaluate,
  original_eval_results,
)
from bert_flow_tf.io.experiment import OutputSettings, Stopwatch, encoder_label, experiment_name, make_folder
from bert_flow_tf.model import SentenceModel
from bert_flow_tf.progress import counted
from bert_flow_tf.runs.run_folder import RunFolder
from bert_flow_tf.training.calibrate import check_flow
from bert_flow_tf.training.choice import CANDIDATES, Choice
from bert_flow_tf.training.distribution import is_chief
from bert_flow_tf.training.settings import FlowSettings, RunSettings

# Calibrations that are part of an experiment's name; more would make it too long.
_NAMED_CALIBRATIONS = 3
# BERT's learning rate in the original's name of an experiment; the encoder is frozen here.
_ORIGINAL_LEARNING_RATE = 5e-5


@dataclasses.dataclass(frozen=True)
class ExperimentSettings:
  """Settings of an experiment, by part."""

  data: DataSettings = dataclasses.field(default_factory=DataSettings)
  corpus: CorpusSettings = dataclasses.field(default_factory=CorpusSettings)
  embedding: EncoderSettings = dataclasses.field(default_factory=EncoderSettings)
  flow: FlowSettings = dataclasses.field(default_factory=FlowSettings)
  run: RunSettings = dataclasses.field(default_factory=RunSettings)
  output: OutputSettings = dataclasses.field(default_factory=OutputSettings)

  def for_corpus(self, corpus: FlowCorpus) -> "ExperimentSettings":
    """Returns the settings with the corpus's learning rate and number of epochs where none is given."""
    return dataclasses.replace(self, flow=self.flow.for_corpus(corpus))

  def name(self, task: str) -> str:
    """Returns the name of an experiment, such as "STS-B_mini_flow_1ep": it ends with a hash of fields without a part.

    Args:
      task: name of the task.
    """
    prefix, pooling, weights = self.output.exp_name_prefix, self.embedding.pooling_name, self.embedding.token_weights
    config = pathlib.Path(str(self.flow.flow_model_config)).stem.removeprefix("config_")
    parts = {
      "prefix": "" if prefix == OutputSettings.exp_name_prefix else prefix,
      "task": task,
      "model": encoder_label(self.embedding.encoder_name),
      "sentence_embedding_type": "" if pooling == DEFAULT_POOLING else pooling,
      "token_weights": weights or "",
      "calibration": "_".join(self.run.calibration),
      "flow_model_config": "" if config == "l2_d3_w32" else config,
      "num_train_epochs": f"{self.flow.epochs:g}ep",
      "flow_learning_rate": "" if self.flow.rate == LEARNING_RATE else f"lr{self.flow.rate:g}",
      "seed": "" if self.flow.seed == FlowSettings.seed else f"seed{self.flow.seed}",
    }
    if len(self.run.calibration) > _NAMED_CALIBRATIONS:
      del parts["calibration"]  # which then takes part in the hash
    return self._published_name(task) if self.run.name_as_published else self._name(parts, task)

  def _name(self, parts, task):
    others = {"data_dir": os.path.abspath(str(self.data.data_dir))} if task == "custom" else {}
    return experiment_name(parts, self.data, self.corpus, self.embedding, self.flow, self.run, **others)

  def _published_name(self, task):
    """Returns the original's name of an experiment, then encoder, configuration, seed and a hash of other fields."""
    full = self.corpus.use_full_for_training in (None, True) and self.corpus.flow_corpus in (None, TARGET)
    parts = {
      "task": f"{self.output.exp_name_prefix}_t_{task}",
      "num_train_epochs": f"ep_{self.flow.epochs:.2f}",
      "learning_rate": f"lr_{_ORIGINAL_LEARNING_RATE:.2e}",
      "sentence_embedding_type": f"e_{self.embedding.pooling_name}",
      "flow_learning_rate": f"f_11_{self.flow.rate:.2e}",
      "allsplits": "allsplits" if full else "",
      "model": f"m_{encoder_label(self.embedding.encoder_name)}",
      "flow_model_config": f"c_{pathlib.Path(str(self.flow.flow_model_config)).stem.removeprefix('config_')}",
      "seed": f"s_{self.flow.seed}",
    }
    return self._name(parts, task)

  def folder(self, task: str) -> pathlib.Path:
    """Returns the experiment's folder."""
    return self.output.folder(self.name(task))


class Experiment:
  """Calibrations that are fitted on a corpus and evaluated on a task.

  Args:
    model: a `SentenceModel` without a calibration.
    settings: the settings.
    specs: calibrations to fit.
    task: the task.
    corpus: the corpus.
    strategy: the `tf.distribute.Strategy` of the fit.

  Raises:
    BertFlowError: a setting is not allowed, or the folder cannot be created.

  Attributes:
    is_chief: whether this process evaluates and writes; the other workers only fit.
    folder: the experiment's folder.
    watch: seconds by kind of work.
    models: {method: model}, the one without a calibration first, then in the order of the specs.
  """

  def __init__(
    self,
    model: SentenceModel,
    settings: ExperimentSettings,
    specs: Sequence[CalibrationSpec],
    task: TaskData,
    corpus: FlowCorpus,
    strategy: tf.distribute.Strategy,
  ) -> None:
    self._model, self._identity = model, model.identity
    embedding = dataclasses.replace(settings.embedding, **model.identity.pooling_arguments())
    self._settings = settings = dataclasses.replace(settings.for_corpus(corpus), embedding=embedding)
    self._specs, self._task, self._corpus, self._strategy = specs, task, corpus, strategy
    self.watch, self.models = Stopwatch(), {WITHOUT_FLOW: model}
    self.is_chief = is_chief(strategy)
    weights = getattr(model.encoder, "token_weights", None)  # word vectors have none
    pooling = model.encoder.pooling(model.identity.sentence_embedding_type)
    self._pooling = pooling.describe(weights and weights.name)
    self.folder = settings.folder(task.spec.name)
    self._steps = 0
    self._cone: dict[str, Any] = {}
    self._choice: Choice | None = None
    self._parts: dict[str, Any] = {}
    RunFolder(self.folder).check([task.spec.name])
    self._check_saved()
    for spec in specs:
      model.check_fit(spec, settings.run.encoder_dropout)
    if any(spec.method == FLOW for spec in specs):
      self._steps = check_flow(settings.flow, model.dim, len(corpus.pairs), strategy, model.shares)
    if self.is_chief:
      make_folder(self.folder)  # after the checks above, so that a rejected command leaves no folder
    logging.info("%s: %d dimensions, %s", model.encoder.name, model.dim, self._pooling)
    logging.info("fitting on %s (%s); results in %s", counted(len(corpus.pairs), "pair"), corpus.source, self.folder)
    if self._steps:
      steps, epochs = counted(self._steps, "step"), counted(settings.flow.epochs, "epoch", "g")
      logging.info("flow: %s (%s) at rate %g", steps, epochs, settings.flow.rate)

  def _check_saved(self):
    """Checks that the folder has no calibration of another run, whose figures this run would replace."""
    names = [spec.name for spec in self._specs]
    chosen = tuple(f"{spec.name}-" for spec in self._specs if spec.k_on_dev) + CANDIDATES * (AUTO in names)
    others = [name for name in saved_calibrations(self.folder) if name not in names and not name.startswith(chosen)]
    if others:
      raise ConfigError(
        f"exp_name: {self.folder} has {', '.join(others)} of another run, whose figures in results.json would be "
        "replaced; choose another exp_name, or name all calibrations in one run",
        argument="exp_name",
      )

  def fit(self) -> None:
    """Embeds the sentences and fits the calibrations, each part once.

    Raises:
      BertFlowError: a calibration cannot be fitted.
    """
    model, pairs = self._model, self._corpus.pairs
    linear = [part.name for spec in self._specs for part in spec.parts if part.method != FLOW]
    with self.watch.timing("embedding"):
      self._embeddings = of_corpus = self._embed(*self._task.splits.values())
      if linear and not of_corpus.have(pairs):
        of_corpus = self._embed(pairs)
    self._cone = model.log_cone(of_corpus.values)
    fit = functools.partial(
      SentenceModel.fit,
      sentences=pairs,
      dev=self._task.splits.get("dev"),
      strategy=self._strategy,
      folder=self.folder,
      embeddings=[self._embeddings, of_corpus],
      encoder_dropout=self._settings.run.encoder_dropout,
      batch_size=self._settings.embedding.predict_batch_size,
      flow_settings=self._settings.flow,
      scores=self._dev_scores,
      parts=self._parts,
    )
    with self.watch.timing("fitting"):
      # The flow takes longest: the others come first, so that a rejected one is rejected at once.
      for name in linear:
        first = fit(model.uncalibrated(), calibration=name)
        self._choice = first.choice or self._choice
      for spec in self._specs:
        fitted = fit(model.uncalibrated(), calibration=spec.name)
        name = fitted.calibration.name if spec.method == AUTO else spec.name
        self.models[WITH_FLOW if name == FLOW else name] = fitted

  def _dev_scores(self, flow, step):
    """Returns the flow's Spearman, or AUC, on dev for TensorBoard; nothing without gold."""
    if not self.is_chief or self._task.spec.eval_split is None or "dev" not in self._task.splits:
      return {}
    try:
      scores, _ = evaluate(self._task, self._embeddings, lambda u: self._model.reduce(flow.transform(u)), ["dev"])
    except BertFlowError:  # latents that are not finite, which the next step reports
      return {}
    return {f"dev_{key}": value for key, value in scores.get("dev", {}).items() if key in ("spearman", "auc")}

  def _embed(self, *sets):
    return self._model.embeddings(*sets, batch_size=self._settings.embedding.predict_batch_size)

  @property
  def calibrated(self) -> dict[str, SentenceModel]:
    """The fitted models by method, in the order of the specs."""
    return {method: model for method, model in self.models.items() if method != WITHOUT_FLOW}

  def evaluate(self) -> dict[str, tuple[dict[str, dict], dict[str, np.ndarray]]]:
    """Evaluates the embeddings without and with each calibration: {method: what `task_scores.evaluate` returns}."""
    with self.watch.timing("evaluating"):
      return {name: evaluate(self._task, self._embeddings, model.transform) for name, model in self.models.items()}

  def calibration_folder(self, method: str) -> pathlib.Path:
    """Returns the folder of a fitted calibration."""
    return self.folder / (FLOW if method == WITH_FLOW else self.models[method].calibration.name)

  def write(self, evaluations: dict[str, tuple], about: dict[str, Any]) -> tuple[TaskResult, pathlib.Path]:
    """Writes calibrations, results, predictions, the original's eval_results.txt, and a page last.

    Args:
      evaluations: of `evaluate`.
      about: further JSON values of results.json.

    Returns:
      The result, and the page's path.
    """
    for method, model in self.calibrated.items():
      model.save(self.calibration_folder(method))
    transforms = {method: model.transform for method, model in self.models.items()}
    result = task_result(self._task, evaluations, self._embeddings, transforms)
    no_cone = [self._cone["warning"]] if "warning" in self._cone else []
    warnings = {}
    for method in self.calibrated:
      sentences = [*no_cone, *result.harm.get(method, [])]
      if sentences:
        warnings[self.calibration_folder(method).name] = sentences
    about = {"warnings": warnings, **self._describe(), **about}
    folder = RunFolder(self.folder)
    if result.has_gold and WITH_FLOW in self.models:
      flow = self.models[WITH_FLOW].calibration
      values = original_eval_results(self._task, self._embeddings, flow, result.cosines[WITH_FLOW], self._steps)
      folder.write_eval_results(values)
    path = folder.write(f"{self._task.spec.name}, {self._identity.name}", [result], about)
    return result, path

  def _describe(self):
    """Returns what results.json has besides the scores: task, encoder, corpus, calibrations, seconds."""
    pairs, flow = self._corpus.pairs, self._settings.flow
    fitted = {"pairs": len(pairs), "sentences": len({*pairs.sentences_a, *pairs.sentences_b})}
    about = {
      "task": self._task.spec.name,
      "data": self._task.source,
      "encoder": {
        "name": self._identity.name,
        "weights_sha256": self._identity.weights_sha256,
        "revision": self._identity.settings.model_revision,
        "pooling": self._pooling,
      },
      "embeddings": self._cone,
      "flow_corpus": {"name": self._corpus.name, "data": self._corpus.source},
      "calibrations": [model.calibration.name for model in self.calibrated.values()],
      "fitted_on": fitted,
      "seconds": self.watch.seconds,
    }
    if self._choice is not None:
      about["auto"] = self._choice.to_dict()
    if self._steps:
      fitted |= {"steps": self._steps, "epochs": flow.epochs, "learning_rate": flow.rate}
      fitted_flow = self._parts[FLOW].flow
      about |= {"flow": fitted_flow.settings(), "constant_dimensions": fitted_flow.constant_dimensions}
    return about
