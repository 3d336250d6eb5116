"""Evaluation of an encoder and its calibrations, of a file of similarities, or by SentEval."""

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from absl import logging

from bert_flow_tf.data.beir import RetrievalTask
from bert_flow_tf.data.task import TaskData
from bert_flow_tf.encoder.embeddings import Embeddings
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.evaluation.controls import task_controls
from bert_flow_tf.evaluation.metrics import normalized
from bert_flow_tf.evaluation.task_scores import WITHOUT_FLOW, evaluate, method_names
from bert_flow_tf.integrations.senteval_engine import LITERATURE, PUBLISHED, evaluate_tasks, find_senteval
from bert_flow_tf.io.experiment import Stopwatch
from bert_flow_tf.io.text_table import aligned_table
from bert_flow_tf.model import SentenceModel
from bert_flow_tf.report import result_files, sentences
from bert_flow_tf.report.record import TaskRecord, task_record
from bert_flow_tf.runs.run_folder import RunFolder, describe_measured
from bert_flow_tf.runs.search_run import search_record
from bert_flow_tf.training.devices import loading_scope, log_devices

# The original's file of SentEval's results.
_PUBLISHED_RESULTS = "senteval_results.json"


def load_calibrated(folders: Sequence[str], **arguments: Any) -> dict[str, SentenceModel]:
  """Returns {method: model} of folders of calibrations, which share encoder and pooling, the encoder alone first."""
  loaded: list[SentenceModel] = []
  name, engine = arguments.get("model"), arguments.get("engine")
  for folder in folders:
    with loading_scope(folder, name, engine):
      loaded.append(SentenceModel.load(folder, **arguments))
    arguments |= {"model": loaded[0].encoder, **loaded[0].identity.settings.model_arguments()}
  # The encoder alone is the method that all others are compared with.
  first = loaded[0]
  models = {WITHOUT_FLOW: SentenceModel(first.encoder, None, **first.identity.settings.model_arguments())}
  methods = method_names(map(_calibration_name, loaded))
  return {**models, **dict(zip(methods, loaded, strict=True))}


def describe_models(models: Mapping[str, SentenceModel], folders: Sequence[str]) -> dict[str, Any]:
  """Logs the encoder of {method: model}, and returns what results.json has of encoder and calibrations."""
  model = models[WITHOUT_FLOW]
  weights = model.encoder.token_weights
  pooling = model.pooling.describe(None if weights is None else weights.name)
  logging.info("%s: %d dimensions, %s", model.encoder.name, model.dim, pooling)
  devices = log_devices()
  calibrations = {}
  for folder, method in zip(folders, list(models)[1:], strict=True):
    calibrations[method] = {"name": _calibration_name(models[method]), "folder": os.path.expanduser(folder)}
  about = {
    "encoder": {**model.identity.to_dict(), "pooling": pooling},
    "calibrations": calibrations,
    "devices": devices,
  }
  return {**about, **describe_measured(models)}


def _calibration_name(model):
  return model.calibration_name or "none"


def evaluate_models(
  models: Mapping[str, SentenceModel], tasks: Sequence[TaskData], watch: Stopwatch, batch_size: int, cache: Any
) -> list[TaskRecord]:
  """Returns the records of {method: model} on tasks, whose sentences are embedded once."""
  if any(isinstance(task, RetrievalTask) for task in tasks):
    models = {method: model.for_documents() for method, model in models.items()}
  model = models[WITHOUT_FLOW]
  with watch.timing("embedding"):
    sets = [pairs for task in tasks for pairs in task.splits.values()]
    embeddings = Embeddings(model.encoder, sets, batch_size, cache, **model.identity.settings.pooling_arguments())
    encoders = {method: embeddings.calibrated_by(calibrated.transform) for method, calibrated in models.items()}
  records = []
  with watch.timing("evaluating"):
    for task in tasks:
      if isinstance(task, RetrievalTask):
        records.append(search_record(task, models, embeddings, watch, batch_size))
        continue
      evaluations = {method: evaluate(task, encode) for method, encode in encoders.items()}
      matches = task_controls(model.encoder, task, model.max_seq_length)
      records.append(task_record(task, evaluations, encoders, matches))
  return records


def evaluate_senteval(
  path: str,
  tasks: Sequence[str] | None,
  load: Callable[[], tuple[Mapping[str, SentenceModel], Mapping[str, Any]]],
  watch: Stopwatch,
  folder: RunFolder | None,
  about: Mapping[str, Any],
  batch_size: int = 64,
  trusted: bool = False,
  as_published: bool = False,
) -> None:
  """Evaluates on SentEval's tasks (None: those with data), writes results.json and prints the table."""
  # `load` returns {method: model} and their entries of results.json. As published, embeddings are divided by their
  # length, and the classifier's settings and the file of the results are the original's.
  settings, name = LITERATURE, result_files.RESULTS_FILE
  if as_published:
    settings, name = PUBLISHED, _PUBLISHED_RESULTS
  engine = find_senteval(path, batch_size, trusted, settings)
  names = engine.tasks(tasks)
  logging.info("%s: %s", engine.name, ", ".join(names))
  if folder is not None and not as_published:
    folder.check(names)
  models, of_models = load()
  embed = functools.partial(
    models[WITHOUT_FLOW].encode, batch_size=batch_size, show_progress_bar=True, calibrated=False
  )
  transforms = {}
  for method, model in models.items():
    transforms[method] = functools.partial(_transformed, model, as_published)
  scores, failed = evaluate_tasks(engine, names, embed, transforms, watch)
  if not scores:
    raise ConfigError(f"senteval={path}: {next(iter(failed.values()))}", argument="senteval")
  if folder is not None:
    senteval = {"by": engine.name, "failed": failed}
    result_files.write_results(
      folder.path, {"results": scores, **of_models, "senteval": senteval, **(about or {})}, name
    )
  rows: dict[str, dict] = {}
  for of_task in scores.values():
    rows |= of_task
  lines = [*aligned_table(sentences.score_rows(rows)), sentences.spent(watch.seconds)]
  print("\n".join(lines))
  if failed:
    count = f"{len(failed)} of {len(failed) + len(scores)} tasks failed"
    raise ConfigError(f"senteval: {count}: {', '.join(failed)}", argument="senteval")


def _transformed(model, is_divided, sentences, embeddings):
  """Returns calibrated embeddings of sentences, divided by their length or as they are."""
  calibrated = model.transform(embeddings, sentences)
  if is_divided:
    calibrated = normalized(calibrated)
  return calibrated
