"""Run of `bert-flow fit`: fits calibrations on a corpus, evaluates them on a task, and writes a folder."""

import contextlib
import dataclasses
import os
import pathlib
import re
from collections.abc import Mapping, Sequence

import tensorflow as tf
from absl import logging

from bert_flow_tf.calibration.names import AUTO, AUTO_CANDIDATES, FLOW, CalibrationSpec, parse_calibration
from bert_flow_tf.calibration.saving import calibration_sha256, saved_calibrations
from bert_flow_tf.calibration.step import KIND
from bert_flow_tf.data.beir import BeirSettings, RetrievalTask
from bert_flow_tf.data.flow_corpus import LEARNING_RATE, TARGET, CorpusSettings, FlowCorpus
from bert_flow_tf.data.task import TaskData
from bert_flow_tf.data.tasks import DataSettings
from bert_flow_tf.encoder.embeddings import Embeddings
from bert_flow_tf.encoder.kinds import encoder_label, public_name
from bert_flow_tf.encoder.pooling import DEFAULT_POOLING
from bert_flow_tf.encoder.settings import EncoderSettings
from bert_flow_tf.errors import BertFlowError, ConfigError
from bert_flow_tf.evaluation import isotropy
from bert_flow_tf.evaluation.controls import task_controls
from bert_flow_tf.evaluation.result import TaskResult
from bert_flow_tf.evaluation.task_scores import WITH_FLOW, WITHOUT_FLOW, Evaluation, evaluate, original_eval_results
from bert_flow_tf.io.archive import path_of
from bert_flow_tf.io.experiment import OutputSettings, Stopwatch, experiment_name
from bert_flow_tf.model import SentenceModel
from bert_flow_tf.progress import counted
from bert_flow_tf.report import result_files, sentences
from bert_flow_tf.report.record import task_record
from bert_flow_tf.runs.run_folder import RunFolder, describe_measured
from bert_flow_tf.runs.search_run import search_record
from bert_flow_tf.training.devices import log_devices
from bert_flow_tf.training.fitter import Fitter
from bert_flow_tf.training.flow_fit import check_flow
from bert_flow_tf.training.loop import check_claim
from bert_flow_tf.training.settings import FlowSettings, RunSettings
from bert_flow_tf.training.workers import is_chief

# Calibrations that are part of an experiment's name; more would make it too long.
_NAMED_CALIBRATIONS = 3
# BERT's learning rate in the original's name of an experiment; the encoder is frozen here.
_ORIGINAL_LEARNING_RATE = 5e-5


@dataclasses.dataclass(frozen=True)
class FlowRunSettings:
  """Settings of a run, by part."""

  data: DataSettings = dataclasses.field(default_factory=DataSettings)
  beir: BeirSettings = dataclasses.field(default_factory=BeirSettings)
  corpus: CorpusSettings = dataclasses.field(default_factory=CorpusSettings)
  embedding: EncoderSettings = dataclasses.field(default_factory=EncoderSettings)
  flow: FlowSettings = dataclasses.field(default_factory=FlowSettings)
  run: RunSettings = dataclasses.field(default_factory=RunSettings)
  output: OutputSettings = dataclasses.field(default_factory=OutputSettings)

  def name(self, task: str) -> str:
    """Returns the name of the run on a task, such as "STS-B_mini_flow_1ep", with a hash of fields without a part."""
    others: dict[str, object] = {}
    if task == "custom":
      others["data_dir"] = os.path.abspath(str(self.data.data_dir))
      if self.data.columns:
        others["columns"] = ",".join(self.data.columns)
    if self.beir.beir is not None:
      others |= dataclasses.asdict(self.beir) | {"beir": os.path.abspath(self.beir.beir)}
    parts = self._published_parts(task) if self.run.name_as_published else self._parts(task)
    return experiment_name(parts, self.data, self.corpus, self.embedding, self.flow, self.run, **others)

  def _parts(self, task):
    """Returns {field: its text in the name}, in the order of the name; a default has no text."""
    flow, calibrations = self.flow, self.run.calibration
    epochs = ""
    if any(parse_calibration(name).method == FLOW for name in calibrations):
      epochs = f"{flow.epochs:g}ep"
    parts = {
      "prefix": _unless(OutputSettings.exp_name_prefix, self.output.exp_name_prefix),
      "task": task,
      "model": encoder_label(self.embedding.encoder_name),
      "sentence_embedding_type": _unless(DEFAULT_POOLING, self.embedding.pooling_name),
      "token_weights": self.embedding.token_weights or "",
      "calibration": "_".join(calibrations),
      "flow_model_config": _unless("l2_d3_w32", self._config_name),
      "num_train_epochs": epochs,
      "flow_learning_rate": _unless(f"lr{LEARNING_RATE:g}", f"lr{flow.rate:g}"),
      "seed": _unless(f"seed{FlowSettings.seed}", f"seed{flow.seed}"),
    }
    if len(calibrations) > _NAMED_CALIBRATIONS:
      del parts["calibration"]  # which then takes part in the hash
    return parts

  def _published_parts(self, task):
    """Returns the parts of the original's name of an experiment, then encoder, configuration and seed."""
    parts = {
      "task": f"{self.output.exp_name_prefix}_t_{task}",
      "num_train_epochs": f"ep_{self.flow.epochs:.2f}",
      "learning_rate": f"lr_{_ORIGINAL_LEARNING_RATE:.2e}",
      "sentence_embedding_type": f"e_{self.embedding.pooling_name}",
      "flow_learning_rate": f"f_11_{self.flow.rate:.2e}",
      "allsplits": "",
      "model": f"m_{encoder_label(self.embedding.encoder_name)}",
      "flow_model_config": f"c_{self._config_name}",
      "seed": f"s_{self.flow.seed}",
    }
    if self.corpus.use_full_for_training in (None, True) and self.corpus.flow_corpus in (None, TARGET):
      parts["allsplits"] = "allsplits"
    return parts

  @property
  def _config_name(self):
    return pathlib.Path(str(self.flow.flow_model_config)).stem.removeprefix("config_")


def _unless(default, text):
  """Returns a text, or "" if it is the default's."""
  return "" if text == default else text


def _names_of_part(part):
  """Returns a regular expression of the names that a fitted part of a calibration can have."""
  if part.method == AUTO:
    return f"({'|'.join(map(re.escape, ('none', *AUTO_CANDIDATES)))})"
  name = re.escape(part.name)
  return rf"{name}(-\d+)?" if part.k_on_dev else name


class FlowRun:
  """Calibrations, the `specs`, that are fitted to a model without one, and evaluated on a task, in a folder.

  `check`, then `fit`, then in the chief `evaluate`.
  """

  def __init__(
    self,
    model: SentenceModel,
    settings: FlowRunSettings,
    specs: Sequence[CalibrationSpec],
    task: TaskData,
    corpus: FlowCorpus,
    strategy: tf.distribute.Strategy,
  ) -> None:
    if isinstance(task, RetrievalTask):
      model = model.for_documents()
    self._model, self._identity = model, model.identity
    self._specs, self._task, self._corpus, self._strategy = specs, task, corpus, strategy
    # The corpus decides what no flag does: the flow's learning rate and epochs; the encoder's files the pooling.
    embedding = dataclasses.replace(settings.embedding, **model.identity.settings.pooling_arguments())
    settings = dataclasses.replace(settings, embedding=embedding, flow=settings.flow.for_corpus(corpus))
    self._settings = settings
    self.watch, self.models = Stopwatch(), {WITHOUT_FLOW: model}
    self.is_chief = is_chief(strategy)  # evaluates and writes; other workers only fit
    self._steps = 0
    self._cone: dict[str, float | str] = {}
    self._devices: dict[str, object] = {}
    self.folder = settings.output.folder(settings.name(task.spec.name))
    self._fitter = Fitter(strategy=strategy, folder=self.folder, flow_scores=self._dev_scores)
    weights = model.encoder.token_weights
    self._pooling = model.pooling.describe(None if weights is None else weights.name)

  def check(self) -> None:
    """Checks, before anything is embedded, the folder and the settings of the fit, and logs the run's facts.

    Raises:
      BertFlowError: the folder has files of another run, or a calibration cannot be fitted.
    """
    model, settings, corpus = self._model, self._settings, self._corpus
    RunFolder(self.folder).check([self._task.spec.name])
    self._check_saved()
    for spec in self._specs:
      model.check_fit(spec, settings.run.encoder_dropout)
      if spec.method == FLOW:
        self._steps = check_flow(settings.flow, model.dim, len(corpus.pairs))
        check_claim(self.folder / "checkpoints", {**settings.flow.identity(), "steps": self._steps})
    self._devices = log_devices(self._strategy)
    logging.info("%s: %d dimensions, %s", model.encoder.name, model.dim, self._pooling)
    count = counted(self._distinct_sentences(), "distinct sentence")
    queries = ""
    if corpus.queries is not None:
      queries = f" and {counted(len(corpus.queries), 'query', ',')}, {len(set(corpus.queries)):,} of them distinct"
    elif isinstance(self._task, RetrievalTask):
      queries = ", without queries"
    logging.info("fitting on %s (%s)%s; results in %s", count, corpus.source, queries, self.folder)
    if self._steps:
      logging.info("flow: %s at rate %g", counted(self._steps, "step"), settings.flow.rate)

  def _distinct_sentences(self):
    """Returns the number of distinct sentences of the corpus."""
    return len({*self._corpus.pairs.sentences_a, *self._corpus.pairs.sentences_b})

  def _check_saved(self):
    """Checks that this run replaces no calibration of a user, and no scores in results.json of another run."""
    # Folders that this run may replace, under each name that a choice on dev or auto can give its calibrations.
    replaceable = []
    for spec in self._specs:
      names = list(map(_names_of_part, spec.parts))
      names += [step.name for step in spec.steps(None)]
      replaceable.append(r"\+".join(names))
    earlier = RunFolder(self.folder).calibrations()
    others = []
    for name in saved_calibrations(self.folder):
      is_replaceable = re.fullmatch("|".join(replaceable), name)
      is_of_user = earlier is not None and name not in earlier
      if is_replaceable and is_of_user:
        raise ConfigError(
          f"exp_name: {self.folder / name} is not of the run whose results.json stands beside it, and this run may "
          "replace it; move it, or choose another folder",
          argument="exp_name",
        )
      if not is_replaceable and not is_of_user:
        others.append(name)
    if others:
      raise ConfigError(
        f"exp_name: {self.folder} has {', '.join(others)} of another run, whose figures in results.json would be "
        "replaced; choose another folder, or name all calibrations in one run",
        argument="exp_name",
      )

  def _stale(self):
    """Returns files of an earlier run's calibrations that this run has not chosen, as that run wrote them."""
    fitted = {model.calibration_name for model in self.calibrated.values()}
    stale = []
    for name, checksum in (RunFolder(self.folder).calibrations() or {}).items():
      folder = self.folder / name
      if name in fitted:
        continue
      with contextlib.suppress(BertFlowError):  # gone, or damaged
        if calibration_sha256(folder) == checksum:
          logging.info("%s of an earlier run is removed: this run has %s", folder, ", ".join(sorted(fitted)))
          stale.append(path_of(folder, KIND))
    return stale

  def fit(self) -> None:
    """Embeds the sentences and fits the calibrations, each part once."""
    model, settings = self._model, self._settings
    with self.watch.timing("embedding"):
      self._embeddings = self._embed(self._task.splits.values())
      embedded = [self._embeddings]
      # A flow may need few of the sentences, and embeds them itself.
      needs_all = any(part.method != FLOW for spec in self._specs for part in spec.parts)
      if needs_all and not self._embeddings.have(self._corpus.pairs):
        embedded.append(self._embed([self._corpus.pairs]))
    self._cone = isotropy.log_cone(embedded[-1].values, model.encoder.is_for_similarity(model.pooling))
    rows = model.fit_sentences(
      self._corpus.pairs,
      self._corpus.queries,
      dev=self._task.splits.get("dev"),
      cached=embedded,
      encoder_dropout=settings.run.encoder_dropout,
      batch_size=settings.embedding.predict_batch_size,
    )
    with self.watch.timing("fitting"):
      calibrations = self._fitter.fit(self._specs, rows, settings.flow)
      for spec, calibration in zip(self._specs, calibrations, strict=True):
        fitted = model.with_calibration(spec.steps(calibration))
        fitted.sample = rows.sample
        method = str(fitted.calibration_name) if spec.method == AUTO else spec.name
        self.models[WITH_FLOW if method == FLOW else method] = fitted

  def _embed(self, sets):
    """Embeds the sentences of sets of pairs, without the steps after the encoder."""
    settings, arguments = self._settings.embedding, self._model.identity.settings.pooling_arguments()
    return Embeddings(self._model.encoder, sets, settings.predict_batch_size, settings.cached_dir, **arguments)

  def _dev_scores(self, flow, step):
    """Returns the flow's Spearman, or AUC, on dev for TensorBoard; nothing without gold."""
    del step
    if not self.is_chief or self._task.spec.eval_split is None or "dev" not in self._task.splits:
      return {}
    try:
      fitted = self._model.with_calibration(flow)
      scores, _ = evaluate(self._task, self._embeddings.calibrated_by(fitted.transform), ["dev"])
    except BertFlowError:  # latents that are not finite, which the next step reports
      return {}
    of_dev = scores.get("dev", {})
    return {f"dev_{key}": of_dev[key] for key in ("spearman", "auc") if key in of_dev}

  @property
  def calibrated(self) -> dict[str, SentenceModel]:
    """The fitted models by method, in the order of the specs."""
    return {method: model for method, model in self.models.items() if method != WITHOUT_FLOW}

  def calibration_folder(self, method: str) -> pathlib.Path:
    """Returns the folder of a fitted calibration."""
    return self.folder / str(self.models[method].calibration_name)

  def evaluate(self, about: Mapping[str, object]) -> tuple[TaskResult, pathlib.Path | None]:
    """Evaluates without and with each calibration, and writes the folder; returns the result and the page's path.

    The folder gets the calibrations, results.json, which has `about`, too, predictions, eval_results.txt and the page.
    """
    evaluations: dict[str, Evaluation] = {}
    if isinstance(self._task, RetrievalTask):
      batch_size = self._settings.embedding.predict_batch_size
      record = search_record(self._task, self.models, self._embeddings, self.watch, batch_size)
    else:
      encoders = {method: self._embeddings.calibrated_by(model.transform) for method, model in self.models.items()}
      with self.watch.timing("evaluating"):
        evaluations = {method: evaluate(self._task, encode) for method, encode in encoders.items()}
      matches = task_controls(self._model.encoder, self._task, self._model.max_seq_length)
      record = task_record(self._task, evaluations, encoders, matches)
    result = record.result
    # What speaks against a calibration, by its folder.
    warnings, warnings_of_results = {}, sentences.warnings(result)
    for method in self.calibrated:
      texts = list(warnings_of_results.get(method, []))
      if "warning" in self._cone and method != "none":
        texts.insert(0, str(self._cone["warning"]))
      if texts:
        warnings[self.calibration_folder(method).name] = texts
    about = {"warnings": warnings, **self._describe(), **describe_measured(self.models), **about}
    # First the calibrations, then what is said of them, and the page last: it shows that the rest is complete.
    folder = RunFolder(self.folder)
    result_files.remove([self.folder / result_files.EVAL_FILE])
    folder.begin(about, [record], self._stale())
    for method, model in self.calibrated.items():
      model.save(self.calibration_folder(method))
    # The original's file.
    if result.has_gold and WITH_FLOW in evaluations:
      _, cosines = evaluations[WITH_FLOW]
      split = str(self._task.spec.eval_split)
      values = original_eval_results(self._task, cosines[split], self._flow_loss(split), self._steps)
      result_files.write_eval_results(self.folder, values)
    title = f"{self._task.spec.name}, {public_name(self._identity.name)}"
    return result, folder.write(title, [record], about)

  def _flow_loss(self, split):
    """Returns the mean bits per dimension of the first sentences of a split, and of the second ones, added up."""
    flow, pairs, loss = self.models[WITH_FLOW].flow, self._task.splits[split], 0.0
    for side in (pairs.sentences_a, pairs.sentences_b):
      loss += float(flow.bits_per_dim(self._embeddings.of(side)).numpy().mean())
    return loss

  def _describe(self):
    """Returns what results.json has besides the scores: task, encoder, corpus, calibrations, seconds."""
    fitted_on: dict[str, object] = {
      "pairs": len(self._corpus.pairs),
      "sentences": self._distinct_sentences(),
      "queries": len(self._corpus.queries or ()),
    }
    about: dict[str, object] = {
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
      "calibrations": [model.calibration_name for model in self.calibrated.values()],
      "fitted_on": fitted_on,
      "devices": self._devices,
      "seconds": self.watch.seconds,
    }
    # What only auto, or a flow have.
    if self._fitter.choice is not None:
      about["auto"] = self._fitter.choice.to_dict()
    if self._steps:
      settings, flow = self._settings.flow, self._fitter.flow.flow
      fitted_on |= {"steps": self._steps, "epochs": settings.epochs, "learning_rate": settings.rate}
      about |= {"flow": flow.settings(), "constant_dimensions": flow.constant_dimensions}
    return about
