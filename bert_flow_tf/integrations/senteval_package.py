"""SentEval's own engine, and what it gives as our figures."""

import contextlib
import importlib.util
import pathlib
import sys

import numpy as np

from bert_flow_tf.errors import BertFlowError, ConfigError

# SentEval's README: the settings of the classifier that the literature's figures were made with.
_CLASSIFIER = {"nhid": 0, "optim": "adam", "batch_size": 64, "tenacity": 5, "epoch_size": 4}
_KFOLD = 10


class SentEval:
  """SentEval's own engine, of Facebook or of a fork such as SimCSE's.

  Args:
    module: senteval.engine.
    path: its task_path.
    batch_size: sentences that it hands over at once.

  Attributes:
    name: for people: what evaluates.
    tasks: the tasks that it knows.
  """

  def __init__(self, module, path, batch_size):
    self._module = module
    self._params = {
      "task_path": str(path),
      "usepytorch": importlib.util.find_spec("torch") is not None,
      "kfold": _KFOLD,
      "batch_size": batch_size,
      "classifier": _CLASSIFIER,
    }
    self.name = f"SentEval in {pathlib.Path(module.__file__).parent}"
    self.tasks = list(self._make(None, None).list_tasks)

  def evaluate(self, task, batcher, prepare):
    """{row: figures} of a task.

    Raises:
      ConfigError: SentEval stopped; it says nothing of its own in such a case but where in its code it was.
    """
    try:
      with _ragged_arrays():
        found = self._make(batcher, prepare).eval(task)
    except BertFlowError:
      raise
    except Exception as error:  # whatever SentEval, PyTorch or scikit-learn raise
      reason = (str(error).splitlines() or [""])[0]
      raise ConfigError(
        f"SentEval's own code stopped in {task} ({type(error).__name__}: {reason}); leave the task out of "
        "--senteval_tasks, or mend what it names"
      ) from error
    return rows_of(task, found)

  def _make(self, batcher, prepare):
    return self._module.SE(dict(self._params), batcher, prepare)


def rows_of(task, found):
  """{row: figures} of what SentEval's engine gives for a task; correlations x 100, accuracies as they are, in percent.

  Raises:
    ConfigError: it gives something of another kind.
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
      f"SentEval's {task} gives {str(found)[:200]}, which has no figure that is known ({error})"
    ) from error


def _correlation(part):
  """Figures of one data set, of SentEval's (coefficient, p-value)."""
  return {
    "spearman": 100.0 * float(part["spearman"][0]),
    "pearson": 100.0 * float(part["pearson"][0]),
    "pairs": int(part["nsamples"]),
    "reason": "",
  }


@contextlib.contextmanager
def _ragged_arrays():
  """Context in which Facebook's SentEval makes arrays of sentences of different lengths; NumPy refuses from 1.24 on."""
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
  """NumPy whose `array` makes an array of objects where it makes none of numbers, as before 1.24."""

  def __getattr__(self, name):
    return getattr(np, name)

  @staticmethod
  def array(values, *arguments, **named):
    """As np.array."""
    try:
      return np.array(values, *arguments, **named)
    except ValueError:
      if arguments or named:
        raise
      return np.array(values, dtype=object)
