"""SentEval's own engine, and its results as our scores."""

import contextlib
import importlib.util
import pathlib
import sys

import numpy as np

from bert_flow_tf.errors import BertFlowError, ConfigError

# SentEval's README: the settings of the classifier for the scores of the literature.
_CLASSIFIER = {"nhid": 0, "optim": "adam", "batch_size": 64, "tenacity": 5, "epoch_size": 4}
_KFOLD = 10


class SentEval:
  """SentEval's own engine, of Facebook or of a fork such as SimCSE's.

  Args:
    module: senteval.engine.
    path: its task_path.
    batch_size: sentences embedded at once.
    classifier: settings of the classifier that SentEval trains for tasks with labels.
    kfold: folds of its cross-validation.

  Attributes:
    name: description for people.
    tasks: names of its tasks.
  """

  def __init__(self, module, path, batch_size, classifier=None, kfold=_KFOLD):
    self._module = module
    self._params = {
      "task_path": str(path),
      "usepytorch": importlib.util.find_spec("torch") is not None,
      "kfold": kfold,
      "batch_size": batch_size,
      "classifier": classifier or _CLASSIFIER,
    }
    self.name = f"SentEval in {pathlib.Path(module.__file__).parent}"
    self.tasks = list(self._make(None, None).list_tasks)

  def evaluate(self, task, batcher, prepare):
    """Returns {row: scores} of a task.

    Raises:
      ConfigError: SentEval's code failed.
    """
    try:
      with _ragged_arrays():
        found = self._make(batcher, prepare).eval(task)
    except BertFlowError:
      raise
    except Exception as error:  # whatever SentEval, PyTorch or scikit-learn raise
      reason = (str(error).splitlines() or [""])[0]
      raise ConfigError(
        f"senteval_tasks={task}: SentEval's own code failed ({type(error).__name__}: {reason}); leave the task out, or "
        "repair the cause",
        argument="senteval_tasks",
      ) from error
    return rows_of(task, found)

  def _make(self, batcher, prepare):
    return self._module.SE(dict(self._params), batcher, prepare)


def rows_of(task, found):
  """Returns {row: scores} of a result of SentEval's engine: correlations x 100, accuracies in percent.

  Raises:
    ConfigError: the result has another form.
  """
  try:
    subsets = {name: part for name, part in found.items() if isinstance(part, dict) and "nsamples" in part}
    if "train" in subsets or "test" in subsets:  # splits, each on its own: SimCSE's STSBenchmark and SICKRelatedness
      return {f"{task} {name}": _correlation(part) for name, part in subsets.items()}
    if subsets:
      whole = {
        f"{key}_{way}": 100.0 * float(value)
        for key in ("spearman", "pearson")
        for way, value in found["all"][key].items()
      }
      parts = {name: _correlation(part) for name, part in subsets.items()}
      return {
        f"{task} all": {**whole, "pairs": sum(p["pairs"] for p in parts.values()), "reason": "", "subsets": parts}
      }
    figures_found = {key: 100.0 * float(found[key]) for key in ("spearman", "pearson") if key in found}
    figures_found |= {key: float(found[name]) for name, key in {"acc": "accuracy", "f1": "f1"}.items() if name in found}
    if not figures_found:
      raise KeyError("spearman, pearson or acc")
    name = f"{task} test, trained" if "spearman" in found else f"{task} test"
    return {name: {**figures_found, "pairs": int(found.get("ntest", 0)), "reason": ""}}
  except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
    raise ConfigError(
      f"senteval_tasks={task}: SentEval returned {str(found)[:200]}, without a known score ({error})", "senteval_tasks"
    ) from error


def _correlation(part):
  """Returns the scores of one data set, of SentEval's (coefficient, p-value)."""
  return {
    "spearman": 100.0 * float(part["spearman"][0]),
    "pearson": 100.0 * float(part["pearson"][0]),
    "pairs": int(part["nsamples"]),
    "reason": "",
  }


@contextlib.contextmanager
def _ragged_arrays():
  """Lets Facebook's SentEval make arrays of sentences of different lengths, an error since NumPy 1.24."""
  sts = sys.modules.get("senteval.sts")
  if sts is None or not hasattr(sts, "np"):
    yield
    return
  before = sts.np
  sts.np = _OlderNumpy()
  try:
    yield
  finally:
    sts.np = before


class _OlderNumpy:
  """NumPy with the `array` of before 1.24, which falls back to an array of objects."""

  def __getattr__(self, name):
    return getattr(np, name)

  @staticmethod
  def array(values, *arguments, **named):
    """Returns np.array(values), or an array of objects."""
    try:
      return np.array(values, *arguments, **named)
    except ValueError:
      if arguments or named:
        raise
      return np.array(values, dtype=object)
