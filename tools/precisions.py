"""Prints what the precisions of an encoder cost: how far embeddings depend on their batch, then scores.

python -m tools.precisions DATA MODEL [PRECISION[:ENGINE] ...]

TensorFlow computes, or the engine that is named, as in int8:openvino. The scores are Spearman x 100 on the seven sets.
A calibration is fitted on the sentences of the evaluated set; the flow's scores are means of seeds 0 to 2. A folder of
sentence-transformers is scored as it is. Embeddings are kept in exp/precisions, so that a run that was stopped goes on.
"""

import pathlib
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_flow_tf import SentenceModel
from bert_flow_tf.data.task import TaskData
from bert_flow_tf.data.tasks import load_task
from bert_flow_tf.evaluation.task_scores import HEADLINE, scores_of_split

_TASKS = ("STS-B", "SICK-R", "STS-12", "STS-13", "STS-14", "STS-15", "STS-16")
_PRECISIONS = ("float32", "bfloat16", "int8", "bfloat16:openvino", "int8:openvino")
# (pooling, token weights): the paper's, and the recipe `recommended`; and the model's own.
_EMBEDDINGS: tuple[tuple[str | None, str | None], ...] = (("avg-first-last", None), ("mix", "idf"))
_OWN = ((None, None),)
# {calibration: settings of its fits}
_FITS: dict[str | None, list[dict[str, int]]] = {None: [{}], "whitening": [{}], "soft-whitening": [{}]}
_FITS["flow"] = [{"seed": seed} for seed in range(3)]
_CACHE = pathlib.Path("exp/precisions")
# Sentences that are embedded alone and in batches, and the difference from which on an embedding counts.
_ALONE, _BATCH, _DIFFERENCE = 200, 64, 1e-4


def load(name: str, named: str, pooling: str | None, **settings: Any) -> SentenceModel:
  """Returns a model with a precision of the command line, such as int8 or int8:openvino."""
  precision, _, engine = named.partition(":")
  return SentenceModel.from_pretrained(
    name,
    precision=precision,
    engine=engine or "tensorflow",
    sentence_embedding_type=pooling,
    max_seq_length=64,
    **settings,
  )


def print_batches(name: str, precisions: Sequence[str], pooling: str | None, task: TaskData) -> None:
  """Prints a row per precision: how sentences that are embedded alone differ from the same ones in batches.

  Beside it stands how those in batches differ from the first precision's.
  """
  sentences = list(dict.fromkeys(task.split(str(task.spec.eval_split)).sentences_a))[:_ALONE]
  print(
    f"| {len(sentences)} sentences | over {_DIFFERENCE:g} | largest difference | from {precisions[0]} | largest value |"
  )
  print("| --- | ---: | ---: | ---: | ---: |")
  expected: np.ndarray | None = None
  for named in precisions:
    model = load(name, named, pooling)
    in_batches = model.encode(sentences, batch_size=_BATCH)
    if expected is None:
      expected = in_batches
    differences = [np.abs(model.encode(text) - row).max() for text, row in zip(sentences, in_batches, strict=True)]
    count = np.count_nonzero(np.array(differences) > _DIFFERENCE)
    values = [max(differences), np.abs(in_batches - expected).max(), np.abs(in_batches).max()]
    print(f"| {named} | {count} | {' | '.join(f'{value:.2g}' for value in values)} |", flush=True)
  print()


def score(model: SentenceModel, task: TaskData, calibration: str | None, settings: dict[str, int]) -> float:
  """Returns Spearman x 100 of a model on a task's evaluated split, calibrated on the sentences of all splits."""
  if calibration is not None:
    firsts: list[str] = []
    seconds: list[str] = []
    for pairs in task.splits.values():
      firsts += pairs.sentences_a
      seconds += pairs.sentences_b
    model.fit((firsts, seconds), calibration=calibration, show_progress=False, **settings)
  split = str(task.spec.eval_split)
  pairs = task.split(split)
  similarities = model.similarity(pairs.sentences_a, pairs.sentences_b)
  scores = scores_of_split(split, pairs, similarities, task.spec.metric)[split]
  return next(scores[name] for name in HEADLINE if name in scores)


def main(data_dir: str, name: str, precisions: Sequence[str]) -> None:
  """Prints the rows of batches, then a row per calibration, embedding and precision: differences from the first one."""
  tasks = [load_task(task, data_dir) for task in _TASKS]
  calibrations, embeddings = _FITS, _EMBEDDINGS
  if (pathlib.Path(name) / "modules.json").exists():
    calibrations, embeddings = {None: [{}]}, _OWN
  print_batches(name, precisions, embeddings[0][0], tasks[0])
  print(f"| {name} | precision | {' | '.join(_TASKS)} | largest |\n| --- | --- |{' ---: |' * (len(_TASKS) + 1)}")
  for calibration, fits in calibrations.items():
    for pooling, token_weights in embeddings:
      expected: np.ndarray | None = None
      for named in precisions:
        model = load(name, named, pooling, token_weights=token_weights, cache=_CACHE)
        scores = np.zeros(len(tasks))
        for fit in fits:
          scores += [score(model.with_calibration(None), task, calibration, fit) / len(fits) for task in tasks]
        shown = [f"{value:.2f}" for value in scores]
        largest = ""
        if expected is None:
          expected = scores
        else:
          shown = [f"{value:+.2f}" for value in scores - expected]
          largest = f"{np.abs(scores - expected).max():.2f}"
        method = f"{pooling or 'as it is'}, {calibration or 'uncalibrated'}"
        print(f"| {method} | {named} | {' | '.join(shown)} | {largest} |", flush=True)


if __name__ == "__main__":
  main(sys.argv[1], sys.argv[2], sys.argv[3:] or _PRECISIONS)
