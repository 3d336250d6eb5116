"""Prints the scores of tables of vectors with a calibration in them, as `bert-flow distill` writes them.

python -m tools.static_tables DATA CORPUS ENCODER [ENCODER ...]

Spearman x 100 on the seven sets. A calibration is fitted on the sentences of the evaluated set; on another set (of
SICK-R; STS-B's train split for SICK-R); or on 20,000 lines of CORPUS, a text file, that none of the sets has.
ENCODER is a transformer, which is distilled, or `static:` and the folder of a static model, as model2vec distills it.
Behind each calibrated row: its gain over the row without calibration, the mean over the sets, and in how many of them
the 95 % interval of a paired bootstrap is above 0, and below.
"""

import gzip
import pathlib
import sys
from collections.abc import Sequence

import numpy as np

from bert_flow_tf import SentenceEncoder, SentenceModel
from bert_flow_tf.data.task import TaskData
from bert_flow_tf.data.tasks import load_task
from bert_flow_tf.evaluation.bootstrap import bootstrap_gain
from bert_flow_tf.evaluation.controls import string_matches
from bert_flow_tf.evaluation.task_scores import HEADLINE, scores_of_split
from bert_flow_tf.serving.distill import static_encoder

_TASKS = ("STS-B", "SICK-R", "STS-12", "STS-13", "STS-14", "STS-15", "STS-16")
_CALIBRATIONS = ("soft-whitening", "whitening")
_SET, _OTHER, _CORPUS = "the set", "another set", "a corpus"
_LINES = 20_000


def sentences_of(task: TaskData, splits: Sequence[str] = ()) -> list[str]:
  """Returns the sentences of splits of a task, of all for none."""
  sentences: list[str] = []
  for split, pairs in task.splits.items():
    if not splits or split in splits:
      sentences += [*pairs.sentences_a, *pairs.sentences_b]
  return sentences


def lines_of(path: str, known: set[str]) -> list[str]:
  """Returns 20,000 distinct lines of a text file, drawn at random, that are none of `known` in any letter case."""
  content = pathlib.Path(path).read_bytes()
  if path.endswith(".gz"):
    content = gzip.decompress(content)
  lines = dict.fromkeys(line.strip() for line in content.decode().splitlines())
  others = [line for line in lines if line and line.casefold() not in known]
  drawn = np.random.default_rng(0).permutation(len(others))[:_LINES]
  return [others[row] for row in drawn]


class Row:
  """Similarities and scores of a way to compare pairs, set by set."""

  def __init__(self) -> None:
    self.similarities: list[np.ndarray] = []
    self.scores: list[float] = []

  def add(self, task: TaskData, similarities: np.ndarray) -> None:
    """Adds a set."""
    split = str(task.spec.eval_split)
    scores = scores_of_split(split, task.split(split), similarities, task.spec.metric)[split]
    self.similarities.append(similarities)
    self.scores.append(next(scores[name] for name in HEADLINE if name in scores))

  def show(self, name: str, fitted: str, tasks: Sequence[TaskData], before: "Row | None" = None) -> None:
    """Prints the row, and its gain over another one."""
    cells = [f"{score:.2f}" for score in (*self.scores, float(np.mean(self.scores)))]
    gain = ""
    if before is not None:
      gains = []
      for task, old, new in zip(tasks, before.similarities, self.similarities, strict=True):
        pairs = task.split(str(task.spec.eval_split))
        gains.append(bootstrap_gain(old, new, pairs.scores, numbers=pairs.distinct_numbers()))
      above, below = sum(each.low > 0 for each in gains), sum(each.high < 0 for each in gains)
      gain = f"{np.mean(self.scores) - np.mean(before.scores):+.2f}; {above}, {below}"
    print(f"| {name} | {fitted} | {' | '.join(cells)} | {gain} |", flush=True)


def main(data_dir: str, corpus: str, names: Sequence[str]) -> None:
  """Prints a table per encoder."""
  tasks = [load_task(task, data_dir) for task in _TASKS]
  known = {sentence.strip().casefold() for task in tasks for sentence in sentences_of(task)}
  lines = lines_of(corpus, known)
  others = [sentences_of(tasks[1]) if task is not tasks[1] else sentences_of(tasks[0], ["train"]) for task in tasks]
  fits = {_SET: [sentences_of(task) for task in tasks], _OTHER: others, _CORPUS: [lines] * len(tasks)}
  for name in names:
    print(f"\n| {name} | fitted on | {' | '.join(_TASKS)} | mean | gain |")
    print(f"| --- | --- |{' ---: |' * (len(_TASKS) + 1)} --- |")
    encoder = SentenceEncoder.from_pretrained(name)
    model = SentenceModel(static_encoder(encoder, show_progress=False))
    matches: dict[str, Row] = {}
    for task in tasks:
      pairs = task.split(str(task.spec.eval_split))
      found = string_matches(encoder, pairs.sentences_a, pairs.sentences_b, model.max_seq_length)
      for kind, similarities in found.items():
        matches.setdefault(kind, Row()).add(task, similarities)
    for kind, row in matches.items():
      row.show(f"string match, {kind}", "", tasks)
    plain = Row()
    for task in tasks:
      pairs = task.split(str(task.spec.eval_split))
      plain.add(task, model.similarity(pairs.sentences_a, pairs.sentences_b))
    plain.show("none", "", tasks)
    for calibration in _CALIBRATIONS:
      for fitted, texts in fits.items():
        row = Row()
        for task, sentences in zip(tasks, texts, strict=True):
          pairs = task.split(str(task.spec.eval_split))
          model.fit(sentences, calibration, show_progress=False)
          row.add(task, model.similarity(pairs.sentences_a, pairs.sentences_b))
        row.show(calibration, fitted, tasks, plain)


if __name__ == "__main__":
  main(sys.argv[1], sys.argv[2], sys.argv[3:])
