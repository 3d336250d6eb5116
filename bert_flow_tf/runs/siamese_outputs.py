"""Evaluations and predictions of an experiment of run_siamese, and the files that they write."""

import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from absl import logging

from bert_flow_tf.data.task import TaskData
from bert_flow_tf.evaluation import report
from bert_flow_tf.evaluation.result import TaskResult
from bert_flow_tf.io.experiment import Stopwatch, make_folder
from bert_flow_tf.progress import counted
from bert_flow_tf.runs import siamese_scores
from bert_flow_tf.runs.run_folder import RunFolder, print_results
from bert_flow_tf.runs.siamese_folder import Trained
from bert_flow_tf.runs.siamese_run import SiameseJob
from bert_flow_tf.training.siamese_settings import SiameseEmbedding, SiameseSettings


class Outputs:
  """Evaluations and predictions of an experiment, and the files that they write.

  Args:
    job: loads and embeds.
    task: the task.
    embedding: encoder and pooling.
    settings: of the training.
    folder: the experiment's folder.
    watch: counts the seconds.
    about: further values of results.json.
  """

  def __init__(
    self,
    job: SiameseJob,
    task: TaskData,
    embedding: SiameseEmbedding,
    settings: SiameseSettings,
    folder: pathlib.Path,
    watch: Stopwatch,
    about: Mapping[str, Any],
  ) -> None:
    self._job, self._task, self._settings, self._watch = job, task, settings, watch
    self._folder, self._about = folder, about
    self._pooling = embedding.model_arguments()

  def evaluate(self, trained: Trained, splits: list[str], batch_size: int) -> TaskResult:
    """Evaluates splits with gold, and writes eval_results.txt of the first one, which is dev if the task has it.

    Args:
      trained: encoder, flow and classifier.
      splits: names of the splits.
      batch_size: pairs of an evaluation step.

    Returns:
      The result, see `siamese_scores.evaluate_splits`.
    """
    task, transforms = self._task, trained.transforms(self._pooling["low_dim"])
    with self._watch.timing("evaluating"):
      sets = [task.splits[split] for split in splits]
      embeddings, untrained = self._job.embed(trained, sets), self._job.embed_untrained(trained, sets)
      result = siamese_scores.evaluate_splits(task, embeddings, transforms, trained.classifier, splits, untrained)
      pairs, bits = task.splits[splits[0]], None
      if trained.flow is not None:
        sides = (pairs.sentences_a, pairs.sentences_b)
        bits = sum(trained.flow.flow.bits_per_dim(embeddings.of(side)).numpy() for side in sides)
      values: dict[str, Any] = siamese_scores.eval_results(
        task.targets(pairs),
        siamese_scores.final(embeddings, transforms, pairs),
        trained.classifier,
        bits,
        uses_labels=self._settings.num_examples != 0,
        l2_penalty=self._settings.l2_penalty,
        batch_size=batch_size,
      )
    RunFolder(self._folder).write_eval_results({**values, "global_step": trained.step})
    return result

  def predict(self, trained: Trained, name: str, prefix: str, pool: bool) -> None:
    """Writes the cosines of a split, or its embeddings.

    Args:
      trained: encoder, flow and classifier.
      name: "test", "dev" or "full".
      prefix: first part of the file's name.
      pool: whether embeddings are written.
    """
    pairs, transforms = siamese_scores.predicted_pairs(self._task, name), trained.transforms(self._pooling["low_dim"])
    with self._watch.timing("predicting"):
      sides = siamese_scores.final(self._job.embed(trained, [pairs]), transforms, pairs)
    make_folder(self._folder)
    path = self._folder / f"{prefix}{name}_{'pooled' if pool else 'results'}.tsv"
    if pool:
      siamese_scores.write_pooled(path, sides)
    elif self._task.labels:
      siamese_scores.write_labels(path, self._task, pairs, trained.classifier.probabilities(*sides))
    else:
      siamese_scores.write_cosines(path, sides)
      if name == self._task.spec.eval_split:
        logging.info("its scores: run_eval.py --task=%s --predictions=%s, and the same data_dir", self._task.name, path)
    logging.info("%s pairs predicted in %s", name, path)

  def write(self, trained: Trained, result: TaskResult | None, was_trained: bool) -> None:
    """Writes results.json, except that a prediction alone keeps an earlier one, and prints the table.

    Args:
      trained: encoder, flow and classifier.
      result: of `evaluate`; None without an evaluation.
      was_trained: whether this run trained.
    """
    about = {
      "task": self._task.name,
      "data": self._task.source,
      "dropped_without_label": self._task.dropped,
      "encoder": trained.encoder.identity(**self._pooling).to_dict(),
      "training": trained.facts,
      "seconds": self._watch.seconds,
      **self._about,
    }
    folder = RunFolder(self._folder)
    results = [] if result is None else [result]
    if results or was_trained or not (self._folder / report.RESULTS_FILE).exists():
      folder.write_results(results, about)
    if results:
      path = folder.write_page(f"{self._task.name}, {about['encoder']['name']}", results, about)
      print_results(results, self._watch.seconds, path)
    else:
      print(f"seconds: {report.spent(self._watch.seconds)}")


def print_speed(facts: dict[str, Any]) -> None:
  """Prints the number, time and memory of a training's steps, if it made some."""
  if facts["seconds_per_step"] is not None and np.isfinite(facts["seconds_per_step"]):
    memory = ", ".join(f"{size / 2**30:.2f} GiB ({device})" for device, size in facts["peak_memory_bytes"].items())
    steps = f"{counted(facts['steps'], 'step')} of {counted(facts['batch_size'], 'pair')}"
    print(f"trained {steps}, {facts['seconds_per_step']:.3f} s a step, peak memory {memory}")
