"""Evaluates on SentEval's tasks: by SentEval itself, or by its definitions of the similarity tasks."""

import contextlib
import functools
import importlib.util
import os
import pathlib
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging

from bert_flow_tf.data.tasks import load_task
from bert_flow_tf.errors import BertFlowError, ConfigError, one_line
from bert_flow_tf.evaluation.metrics import cosine_similarity, score_pairs
from bert_flow_tf.integrations.senteval import SentEvalAdapter
from bert_flow_tf.io.experiment import Stopwatch

# SentEval's names of the tasks that need no training -> our names, and where their data is below downstream/.
SIMILARITY_TASKS = {
  **{f"STS{year}": (f"STS-{year}", f"STS/STS{year}-en-test") for year in range(12, 17)},
  "STSBenchmark": ("STS-B", "STS/STSBenchmark"),
  "SICKRelatedness": ("SICK-R", "SICK"),
}
# SentEval's README: the settings of its classifier for the scores of the literature.
LITERATURE: dict[str, Any] = {
  "classifier": {"nhid": 0, "optim": "adam", "batch_size": 64, "tenacity": 5, "epoch_size": 4},
  "kfold": 10,
}
# The published runner's settings.
PUBLISHED: dict[str, Any] = {
  "classifier": {"nhid": 0, "optim": "rmsprop", "batch_size": 128, "tenacity": 3, "epoch_size": 2},
  "kfold": 5,
}

# {row: scores} of a task.
Rows = dict[str, dict[str, Any]]
Embed = Callable[[list[str]], np.ndarray]
Transforms = Mapping[str, Callable[[list[str], np.ndarray], np.ndarray]]


class OwnEngine:
  """SentEval's definitions of the similarity tasks, by the cosine alone, used if SentEval is not installed."""

  name = "SentEval's definitions, computed by bert_flow_tf"
  tasks: Sequence[str] = tuple(SIMILARITY_TASKS)

  def __init__(self, path: pathlib.Path) -> None:
    self._path = path

  def evaluate(self, task: str, adapter: SentEvalAdapter) -> Rows:
    """Returns {row: scores} of a task; raises a DataError if its data is missing or malformed."""
    ours, _ = SIMILARITY_TASKS[task]
    splits = load_task(ours, self._path / "downstream").splits
    # SentEval splits at blanks, and shows all sentences of a task first.
    sides = {}
    for name, pairs in splits.items():
      first = [sentence.split() for sentence in pairs.sentences_a]
      sides[name] = first, [sentence.split() for sentence in pairs.sentences_b]
    adapter.prepare({}, [words for first, second in sides.values() for words in first + second])
    rows = {}
    for name, pairs in splits.items():
      first, second = (adapter.batcher({}, side) for side in sides[name])
      cosines = cosine_similarity(first, second)
      subsets = pairs.subset_names()
      part = "all" if subsets else name
      rows[f"{task} {part}"] = score_pairs(np.nan_to_num(cosines), pairs.scores, subsets)
    return rows


class SentEval:
  """SentEval's own engine, of Facebook or of a fork such as SimCSE's; `settings` are its classifier and kfold."""

  def __init__(self, module: Any, path: pathlib.Path, batch_size: int, settings: Mapping[str, Any]) -> None:
    self._module = module
    has_torch = importlib.util.find_spec("torch") is not None
    self._params = {"task_path": str(path), "usepytorch": has_torch, "batch_size": batch_size, **settings}
    self.name = f"SentEval in {pathlib.Path(module.__file__).parent}"
    self.tasks: Sequence[str] = list(module.SE(dict(self._params), None, None).list_tasks)

  def evaluate(self, task: str, adapter: SentEvalAdapter) -> Rows:
    """Returns {row: scores} of a task; raises a ConfigError if SentEval's code fails."""
    engine = self._module.SE(dict(self._params), adapter.batcher, adapter.prepare)
    try:
      return rows_of(task, engine.eval(task))
    except BertFlowError:
      raise
    except Exception as error:  # whatever SentEval, PyTorch or scikit-learn raise
      message = f"senteval_tasks={task}: SentEval's own code failed ({type(error).__name__}: {one_line(error)})"
      raise ConfigError(f"{message}; leave the task out, or repair the cause", "senteval_tasks") from error


def rows_of(task: str, result: dict[str, Any]) -> Rows:
  """Returns {row: scores} of a result of SentEval's engine: correlations x 100, accuracies in percent."""
  parts: Rows = {}
  for name, part in result.items():
    if isinstance(part, dict) and "nsamples" in part:
      # A correlation comes with its p-value.
      spearman, pearson = 100.0 * float(part["spearman"][0]), 100.0 * float(part["pearson"][0])
      parts[name] = {"spearman": spearman, "pearson": pearson, "pairs": int(part["nsamples"]), "reason": ""}
  # Splits, each on its own: SimCSE's STSBenchmark and SICKRelatedness.
  if "train" in parts or "test" in parts:
    return {f"{task} {name}": part for name, part in parts.items()}
  scores: dict[str, Any] = {}
  if parts:
    for key in ("spearman", "pearson"):
      for way, value in result["all"][key].items():
        scores[f"{key}_{way}"] = 100.0 * float(value)
    scores["pairs"] = sum(part["pairs"] for part in parts.values())
    return {f"{task} all": {**scores, "reason": "", "subsets": parts}}
  for name, key, factor in (("spearman", "spearman", 100), ("pearson", "pearson", 100), ("acc", "accuracy", 1)):
    if name in result:
      scores[key] = factor * float(result[name])
  if not scores:
    raise ValueError(f"{str(result)[:99]} without a known score")
  if "f1" in result:
    scores["f1"] = float(result["f1"])
  row = f"{task} test"
  # Of a regression on top.
  if "spearman" in result:
    row += ", trained"
  return {row: {**scores, "pairs": int(result.get("ntest", 0)), "reason": ""}}


@contextlib.contextmanager
def opened_engine(
  folder: str,
  tasks: Sequence[str] | None,
  batch_size: int,
  trusted: bool = False,
  settings: Mapping[str, Any] = LITERATURE,
) -> Iterator[tuple[OwnEngine | SentEval, list[str]]]:
  """Yields SentEval if it can be imported, first from a `trusted` checkout, else `OwnEngine`; and the tasks."""
  with _task_path(folder) as path:
    engine = _find_engine(folder, path, batch_size, trusted, settings)
    names = _tasks_of(tasks, path, engine)
    logging.info("%s: %s", engine.name, ", ".join(names))
    yield engine, names


@contextlib.contextmanager
def _task_path(folder):
  """Yields SentEval's task_path, a folder with downstream/ in it."""
  root = pathlib.Path(os.path.expanduser(folder))
  for path in (root, root / "data"):
    if (path / "downstream").is_dir():
      yield path
      return
  if not (root / "STS").is_dir() and not (root / "SICK").is_dir():
    message = f"senteval={folder}: expected SentEval's checkout, its data folder, or one with STS/ or SICK/"
    raise ConfigError(message, argument="senteval")
  with tempfile.TemporaryDirectory() as made:
    (pathlib.Path(made) / "downstream").symlink_to(root.resolve())
    yield pathlib.Path(made)


def _find_engine(folder, path, batch_size, trusted, settings):
  """Returns `SentEval` if it can be imported, else `OwnEngine`."""
  checkout = pathlib.Path(os.path.expanduser(folder)).resolve()
  before = list(sys.path)
  if (checkout / "senteval" / "engine.py").is_file():
    if not trusted:
      raise ConfigError(
        f"senteval_trusted: missing; {checkout / 'senteval'} is program code, which would have all your rights; give "
        "it if you trust the code, or the folder of the data alone as senteval",
        argument="senteval_trusted",
      )
    sys.path.insert(0, str(checkout))
  try:
    return SentEval(importlib.import_module("senteval.engine"), path, batch_size, settings)
  except ImportError as error:
    logging.info("SentEval cannot be imported (%s): its similarity tasks by its definitions", error)
    return OwnEngine(path)
  finally:
    sys.path[:] = before


def _tasks_of(names, path, engine):
  """Returns the tasks to evaluate: those of `names`, or the similarity tasks whose data exists."""
  if names is None:
    available = [name for name, (_, folder) in SIMILARITY_TASKS.items() if (path / "downstream" / folder).is_dir()]
    if not available:
      expected = ", ".join(folder for _, folder in SIMILARITY_TASKS.values())
      raise ConfigError(f"senteval={path}: downstream/ contains none of {expected}", argument="senteval")
    return available
  names = [name.strip() for name in names]
  if not names or len(set(names)) < len(names) or not set(names) <= set(engine.tasks):
    expected = f"one or more of {', '.join(engine.tasks)}, each once; others need SentEval itself"
    raise ConfigError(f"senteval_tasks={','.join(names)}: expected {expected}", argument="senteval_tasks")
  return names


def evaluate_tasks(
  engine: OwnEngine | SentEval, tasks: Sequence[str], embed: Embed, transforms: Transforms, watch: Stopwatch
) -> tuple[dict[str, Rows], dict[str, str]]:
  """Returns {task: {row: {method: scores}}}, {task: reason of a failure}; `transforms` take n str and [n, dim]."""

  @functools.lru_cache(maxsize=1)  # every method asks for the same sentences
  def embed_once(sentences):
    with watch.timing("embedding"):
      return embed(list(sentences))

  results: dict[str, Rows] = {}
  failed = {}
  for task in tasks:
    rows: Rows = {}
    try:
      with watch.timing("evaluating"):
        for method, transform in transforms.items():

          def encode(sentences, transform=transform):
            return transform(sentences, embed_once(tuple(sentences)))

          adapter = SentEvalAdapter(encode)
          for row, scores in engine.evaluate(task, adapter).items():
            rows.setdefault(row, {})[method] = scores
    except BertFlowError as error:
      logging.error("%s: %s", task, error)
      failed[task] = str(error)
    else:
      results[task] = rows
  return results, failed
