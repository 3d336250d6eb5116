"""Engines that evaluate on SentEval's tasks: SentEval itself, or its definitions of the similarity tasks."""

import contextlib
import importlib
import os
import pathlib
import sys
import tempfile

import numpy as np
from absl import logging

from bert_flow_tf.data.tasks import load_task
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.evaluation.metrics import cosine_similarity, score_pairs
from bert_flow_tf.integrations.senteval_package import SentEval

# SentEval's names of the tasks that need no training -> our names, and where their data is below downstream/.
SIMILARITY_TASKS = {
  **{f"STS{year}": (f"STS-{year}", f"STS/STS{year}-en-test") for year in range(12, 17)},
  "STSBenchmark": ("STS-B", "STS/STSBenchmark"),
  "SICKRelatedness": ("SICK-R", "SICK"),
}


@contextlib.contextmanager
def task_path(folder):
  """Yields SentEval's task_path, a folder with downstream/ in it.

  Args:
    folder: that folder, a checkout with it as data/, or a folder with STS/ and SICK/, for which a temporary folder with
      a link is made.

  Raises:
    ConfigError: none of these.
  """
  if not folder:
    raise ConfigError("senteval: empty; expected SentEval's data folder", argument="senteval")
  root = pathlib.Path(os.path.expanduser(folder))
  for path in (root, root / "data"):
    if (path / "downstream").is_dir():
      yield path
      return
  if not any((root / name).is_dir() for name in ("STS", "SICK")):
    raise ConfigError(
      f"senteval={folder}: found {_describe(root)}, expected SentEval's data folder with downstream/STS or "
      "downstream/SICK in it, its checkout with that below data/, or a folder with STS/ or SICK/",
      argument="senteval",
    )
  with tempfile.TemporaryDirectory() as made:
    (pathlib.Path(made) / "downstream").symlink_to(root.resolve())
    yield pathlib.Path(made)


def find_engine(folder, path, batch_size, trusted=False, **settings):
  """Returns SentEval if it can be imported (a checkout in `folder` first), else our own engine.

  Args:
    folder: as in `task_path`.
    path: SentEval's task_path.
    batch_size: sentences that SentEval embeds at once.
    trusted: whether the user allows to import a checkout in `folder`.
    **settings: classifier and kfold of `SentEval`.

  Raises:
    ConfigError: the folder has a checkout and is not trusted.
  """
  checkout = pathlib.Path(os.path.expanduser(folder)).resolve()
  before = list(sys.path)
  if (checkout / "senteval" / "engine.py").is_file():
    if not trusted:
      raise ConfigError(
        f"senteval_trusted: missing; {checkout / 'senteval'} is program code, which would run with all your rights; "
        "give senteval_trusted if you trust it, or the folder of the data alone as senteval",
        argument="senteval_trusted",
      )
    sys.path.insert(0, str(checkout))
  try:
    return SentEval(importlib.import_module("senteval.engine"), path, batch_size, **settings)
  except ImportError as error:
    if (error.name or "").split(".")[0] == "senteval":
      logging.info("the package senteval is not installed: its similarity tasks by its definitions")
    else:
      logging.warning("SentEval cannot be imported (%s): its similarity tasks by its definitions", error)
    return OwnEngine(path, batch_size)
  finally:
    sys.path[:] = before


def check_tasks(names, path, engine):
  """Returns the tasks to evaluate: those of `names`, or the similarity tasks whose data exists.

  Raises:
    ConfigError: no task, an unknown one, one given twice, or one that needs SentEval, which is not installed.
  """
  if names is None:
    found = [name for name, (_, folder) in SIMILARITY_TASKS.items() if (path / "downstream" / folder).is_dir()]
    if not found:
      expected = ", ".join(folder for _, folder in SIMILARITY_TASKS.values())
      raise ConfigError(f"senteval={path}: downstream/ contains none of {expected}", argument="senteval")
    return found
  names = [name.strip() for name in names]
  if not all(names) or not names or len(set(names)) < len(names):
    raise ConfigError(f"senteval_tasks={','.join(names)}: expected one or more, each once", argument="senteval_tasks")
  for name in names:
    if name not in engine.tasks:
      missing = "" if isinstance(engine, SentEval) else "; the others need SentEval itself"
      raise ConfigError(
        f"senteval_tasks={name}: expected some of {', '.join(engine.tasks)}{missing}", argument="senteval_tasks"
      )
  return names


class OwnEngine:
  """Engine with SentEval's definitions of the similarity tasks, used if SentEval is not installed.

  Sentences are split at blanks, sorted by their numbers of words and embedded in batches; a pair's similarity is the
  cosine, 0 for an embedding of zeros. STSBenchmark and SICKRelatedness are evaluated as the paper and SimCSE's
  SentEval do: by the cosine, not by a regression trained on top as Facebook's SentEval does.

  Args:
    path: SentEval's task_path.
    batch_size: sentences of a batch.

  Attributes:
    name: description for people.
    tasks: names of its tasks.
  """

  name = "SentEval's definitions, computed by bert_flow_tf"
  tasks = tuple(SIMILARITY_TASKS)

  def __init__(self, path, batch_size):
    self._path, self._batch_size = path, batch_size

  def evaluate(self, task, batcher, prepare):
    """Returns {row: scores} of a task.

    Raises:
      DataError: its data is missing or malformed.
    """
    ours, _ = SIMILARITY_TASKS[task]
    splits = load_task(ours, self._path / "downstream").splits
    params = {"task_path": str(self._path), "batch_size": self._batch_size, "current_task": task}
    words = {
      name: [[s.split() for s in side] for side in (pairs.sentences_a, pairs.sentences_b)]
      for name, pairs in splits.items()
    }
    prepare(params, [sentence for sides in words.values() for side in sides for sentence in side])
    found = {}
    for name, pairs in splits.items():
      subsets = pairs.subset_names()
      row = f"{task} all" if subsets else f"{task} {name}"
      found[row] = score_pairs(self._similarities(params, batcher, *words[name]), pairs.scores, subsets)
    return found

  def _similarities(self, params, batcher, first, second):
    """Returns the cosines of n pairs, float64 [n]."""
    similarities = np.empty(len(first))
    order = sorted(range(len(first)), key=lambda i: (len(first[i]), len(second[i])))
    for start in range(0, len(order), self._batch_size):
      chosen = order[start : start + self._batch_size]
      a, b = (batcher(params, [side[i] for i in chosen]) for side in (first, second))
      similarities[chosen] = np.nan_to_num(cosine_similarity(a, b))
    return similarities


def _describe(path):
  if path.is_dir():
    return "a folder without them"
  return "a file" if path.exists() else "nothing"
