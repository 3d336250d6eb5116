"""Evaluates on SentEval's tasks by SentEval's own engine: the installed package, or a trusted checkout."""

import functools
import importlib.util
import os
import pathlib
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging

from bert_flow_tf.errors import BertFlowError, ConfigError, one_line
from bert_flow_tf.integrations.senteval import SentEvalAdapter
from bert_flow_tf.io.experiment import Stopwatch

# {task that needs no training: its folder below downstream/}
SIMILARITY_TASKS = {
  **{f"STS{year}": f"STS/STS{year}-en-test" for year in range(12, 17)},
  "STSBenchmark": "STS/STSBenchmark",
  "SICKRelatedness": "SICK",
}
# SentEval's README: the settings of its classifier for the scores of the literature.
LITERATURE: dict[str, object] = {
  "classifier": {"nhid": 0, "optim": "adam", "batch_size": 64, "tenacity": 5, "epoch_size": 4},
  "kfold": 10,
}
# The published runner's settings.
PUBLISHED: dict[str, object] = {
  "classifier": {"nhid": 0, "optim": "rmsprop", "batch_size": 128, "tenacity": 3, "epoch_size": 2},
  "kfold": 5,
}

# {row: scores} of a task.
Rows = dict[str, dict[str, Any]]
Embed = Callable[[list[str]], np.ndarray]
Transforms = Mapping[str, Callable[[list[str], np.ndarray], np.ndarray]]


class SentEval:
  """SentEval's own engine, of Facebook or of a fork such as SimCSE's; `settings` are its classifier and kfold."""

  def __init__(
    self, module: types.ModuleType, path: pathlib.Path, batch_size: int, settings: Mapping[str, object]
  ) -> None:
    self._module, self._path = module, path
    has_torch = importlib.util.find_spec("torch") is not None
    self._params = {"task_path": str(path), "usepytorch": has_torch, "batch_size": batch_size, **settings}
    self.name = f"SentEval in {pathlib.Path(str(module.__file__)).parent}"
    self._all_tasks = list(module.SE(dict(self._params), None, None).list_tasks)

  def tasks(self, names: Sequence[str] | None) -> list[str]:
    """Returns the tasks of `names`; for None the similarity tasks whose data exists."""
    if names is None:
      data = self._path / "downstream"
      available = [name for name, folder in SIMILARITY_TASKS.items() if (data / folder).is_dir()]
      if not available:
        expected = ", ".join(SIMILARITY_TASKS.values())
        raise ConfigError(f"senteval={self._path}: downstream/ contains none of {expected}", "senteval")
      return available
    names = [name.strip() for name in names]
    if not names or len(set(names)) < len(names) or not set(names) <= set(self._all_tasks):
      expected = f"one or more of {', '.join(self._all_tasks)}, none of them twice"
      raise ConfigError(f"senteval_tasks={','.join(names)}: expected {expected}", "senteval_tasks")
    return names

  def evaluate(self, task: str, adapter: SentEvalAdapter) -> Rows:
    """Returns {row: scores} of a task; raises a ConfigError if SentEval's code fails."""
    engine = self._module.SE(dict(self._params), adapter.batcher, adapter.prepare)
    try:
      return scores_by_row(task, engine.eval(task))
    except BertFlowError:
      raise
    except Exception as error:  # whatever SentEval, PyTorch or scikit-learn raise
      message = f"senteval_tasks={task}: SentEval's own code failed ({type(error).__name__}: {one_line(error)})"
      raise ConfigError(f"{message}; leave the task out, or repair the cause", "senteval_tasks") from error


def scores_by_row(task: str, result: dict[str, Any]) -> Rows:
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
  scores: dict[str, float] = {}
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
  # Engines give a key "spearman" for scores of a regression on the embeddings.
  if "spearman" in result:
    row += ", trained"
  return {row: {**scores, "pairs": int(result.get("ntest", 0)), "reason": ""}}


def find_senteval(
  folder: str, batch_size: int, trusted: bool = False, settings: Mapping[str, object] = LITERATURE
) -> SentEval:
  """Returns the engine of the installed SentEval or of a `trusted` checkout; raises a ConfigError without one."""
  root = pathlib.Path(os.path.expanduser(folder))
  paths = [path for path in (root, root / "data") if (path / "downstream").is_dir()]
  if not paths:
    message = f"senteval={folder}: expected SentEval's data folder, with downstream/ in it, or its checkout"
    raise ConfigError(message, "senteval")
  checkout = root.resolve()
  is_checkout = (checkout / "senteval" / "engine.py").is_file()
  if is_checkout and not trusted:
    raise ConfigError(
      f"senteval_trusted: missing; {checkout / 'senteval'} is program code, which would have all your rights; give "
      "it if you trust the code, or the folder of the data alone as senteval",
      "senteval_trusted",
    )
  search_path = list(sys.path)
  if is_checkout:
    sys.path.insert(0, str(checkout))
  try:
    module = importlib.import_module("senteval.engine")
  except ImportError as error:
    raise ConfigError(
      f"senteval={folder}: SentEval cannot be imported ({one_line(error)}); install it, or name its checkout; the "
      "similarity tasks are also computed without it, as in task=STS-B,SICK-R,STS-12",
      "senteval",
    ) from error
  finally:
    sys.path[:] = search_path
  return SentEval(module, paths[0], batch_size, settings)


def evaluate_tasks(
  engine: SentEval, tasks: Sequence[str], embed: Embed, transforms: Transforms, watch: Stopwatch
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
