"""Prints the tables of docs/static.md: static models as they are and with calibrations folded into their vectors.

python -m tools.static_tables DATA CORPUS [--resamples=N] MODEL[=THEIRS] ...

DATA has the seven STS sets, SNLI, MRPC and QNLI as in docs/data.md. CORPUS is a file of sentences, a line each, or .gz,
of which the first 20,000 distinct ones are taken that are in no evaluated set. THEIRS is a folder that
`model2vec.distill` wrote of MODEL. MODEL is distilled once, into exp/static_tables.

A calibration is affine, so that the embeddings of the folded table are the calibrated embeddings of the table
(tests/serving): the tables are computed so, a text without a known token being zeros as there. Scores: Spearman x 100;
of STS-12 to STS-16 the mean over subsets by size; of MRPC AUC x 100, of QNLI nDCG@10 x 100 of questions that search
the sentences of dev and test. With --resamples, gains over the same table without calibration, with intervals of 95%.
"""

import csv
import gzip
import itertools
import pathlib
import re
import sys
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from bert_flow_tf import SentenceEncoder, SentenceModel, distill, fit_calibration
from bert_flow_tf.data.tasks import KINDS, STS_TASKS, load_task
from bert_flow_tf.evaluation.bootstrap import Gain, bootstrap_gain, bootstrap_mean_gain
from bert_flow_tf.evaluation.controls import string_matches
from bert_flow_tf.evaluation.metrics import normalized, score_pairs
from bert_flow_tf.evaluation.task_scores import HEADLINE, pair_cosines

_CALIBRATIONS = ("mean", "soft-whitening", "whitening")
_SET, _CORPUS, _OTHER, _TRAIN = "the set", "the corpus", "SNLI", "STS-B's train"
_LINES = 20_000
_FOLDER = pathlib.Path("exp/static_tables")
_QUESTIONS = "QNLI"
Embed = Callable[[Sequence[str]], np.ndarray]


class PairSet:
  """Pairs of a task with gold; `values` of two arrays of embeddings are cosines."""

  def __init__(self, name: str, data_dir: str) -> None:
    self.name = name
    task = load_task(name, data_dir)
    self.pairs = task.split(str(task.spec.eval_split))
    every = task.all_pairs()
    self.sentences = [*every.sentences_a, *every.sentences_b]
    self.sides = (self.pairs.sentences_a, self.pairs.sentences_b)
    self.metric = "auc" if task.spec.metric == "auc" else "spearman"

  def values(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Returns the cosine of each pair."""
    return pair_cosines(first, second, self.name)

  def score(self, values: np.ndarray) -> float:
    """Returns the score x 100."""
    metric = "auc" if self.metric == "auc" else "correlation"
    scores = score_pairs(values, self.pairs.scores, self.pairs.subset_names(), metric)
    return next(scores[name] for name in HEADLINE if name in scores)

  def gain(self, before: np.ndarray, after: np.ndarray, resamples: int) -> Gain:
    """Returns the gain of cosines over others."""
    names, numbers = self.pairs.subset_names(), self.pairs.distinct_numbers()
    return bootstrap_gain(
      before, after, self.pairs.scores, names, n_boot=resamples, metric=self.metric, numbers=numbers
    )


class QuestionSet:
  """Questions of QNLI's dev that search the sentences of dev and test; `values` are nDCG@10 of each question."""

  def __init__(self, data_dir: str) -> None:
    self.name = _QUESTIONS
    rows = []
    for split in ("dev", "test"):
      with (pathlib.Path(data_dir) / _QUESTIONS / f"{split}.tsv").open(encoding="utf-8-sig", newline="") as file:
        rows += list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    self.sentences = list(dict.fromkeys(row["sentence"] for row in rows))
    asked = [row for row in rows if row.get("label") == "entailment"]
    place = {sentence: number for number, sentence in enumerate(self.sentences)}
    self.answers = np.array([place[row["sentence"]] for row in asked])
    self.sides = ([row["question"] for row in asked], self.sentences)

  def values(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Returns nDCG@10 x 100 of each question, which has one answer."""
    scores = normalized(first) @ normalized(second).T
    best = np.take_along_axis(scores, self.answers[:, np.newaxis], axis=1)
    ranks = 1 + (scores > best).sum(axis=1)
    return np.where(ranks <= 10, 100 / np.log2(1 + ranks), 0)

  def score(self, values: np.ndarray) -> float:
    """Returns the mean."""
    return float(values.mean())

  def gain(self, before: np.ndarray, after: np.ndarray, resamples: int) -> Gain:
    """Returns the gain of measures of questions over others."""
    return bootstrap_mean_gain(before, after, "ndcg@10", resamples)


Set = PairSet | QuestionSet


def _plain(sentence: str) -> str:
  return re.sub("[^0-9a-z]", "", sentence.lower())


def read_corpus(path: str, excluded: set[str]) -> list[str]:
  """Returns the first distinct sentences of a file whose letters and digits are not among `excluded`."""
  opened = gzip.open if path.endswith(".gz") else open
  with opened(path, "rt", encoding="utf-8") as file:
    lines = dict.fromkeys(line.strip() for line in file)
  kept = (line for line in lines if line and _plain(line) not in excluded)
  return list(itertools.islice(kept, _LINES))


def make_embed(name: str, token_weights: str | None, **loading: bool) -> Embed:
  """Returns a function to embeddings of a static model, not divided by lengths."""
  return SentenceModel.from_pretrained(f"static:{name}", token_weights=token_weights, **loading).encode


def table_of(model: str) -> pathlib.Path:
  """Returns the folder of the distilled vectors of an encoder, without weights of tokens."""
  folder = _FOLDER / re.sub(r"\W+", "-", model).strip("-")
  if not folder.exists():
    folder.parent.mkdir(parents=True, exist_ok=True)
    distill(SentenceEncoder.from_pretrained(model), folder, token_weights="uniform")
  return folder


def rows_of(embed: Embed, sets: Sequence[Set], texts: dict[str, list[str]]) -> Iterator[tuple[str, str, list]]:
  """Yields (calibration, what it is fitted on, values of each set or None) of a static model, the plain one first."""
  embedded = [[embed(list(side)) for side in each.sides] for each in sets]
  yield "none", "", [each.values(*sides) for each, sides in zip(sets, embedded, strict=True)]
  fits = {name: embed(sentences) for name, sentences in texts.items()}
  of_sets = [embed(each.sentences) for each in sets]
  for fitted_on in (_SET, *texts):
    for calibration in _CALIBRATIONS:
      values: list[np.ndarray | None] = []
      for each, sides, own in zip(sets, embedded, of_sets, strict=True):
        if fitted_on == _TRAIN and each.name != STS_TASKS[0]:
          values.append(None)
          continue
        fitted = fit_calibration(fits.get(fitted_on, own), calibration, show_progress=False)
        calibrated = [np.where(side.any(axis=1, keepdims=True), fitted.transform(side), 0) for side in sides]
        values.append(each.values(*calibrated))
      yield calibration, fitted_on, values


def print_row(label: str, cells: Sequence[str]) -> None:
  """Prints a row of Markdown."""
  print(f"| {label} | {' | '.join(cells)} |", flush=True)


def shown_scores(scores: Sequence[float]) -> list[str]:
  """Returns cells of the scores of the sets, with the mean of the seven after them; NaN is a dash."""
  scores = [*scores[: len(STS_TASKS)], float(np.mean(scores[: len(STS_TASKS)])), *scores[len(STS_TASKS) :]]
  return ["-" if np.isnan(score) else f"{score:.2f}" for score in scores]


def shown_gains(gains: Sequence[Gain | None]) -> list[str]:
  """Returns cells of gains; the ends of the mean's interval are the means of the ends, which is wider than it is."""
  ends = np.array([[g.gain, g.low, g.high] if g else [np.nan] * 3 for g in gains])
  ends = np.insert(ends, len(STS_TASKS), ends[: len(STS_TASKS)].mean(axis=0), axis=0)
  return ["-" if np.isnan(gain) else f"{gain:+.1f} ({low:+.1f}, {high:+.1f})" for gain, low, high in ends]


def main(data_dir: str, corpus: str, models: Sequence[str], resamples: int) -> None:
  """Prints a table per model."""
  sets: list[Set] = [*(PairSet(name, data_dir) for name in (*STS_TASKS, "MRPC")), QuestionSet(data_dir)]
  excluded = {_plain(sentence) for each in sets for sentence in (*each.sentences, *each.sides[0])}
  other = load_task("SNLI", data_dir, kinds=KINDS).all_pairs()
  train = load_task(STS_TASKS[0], data_dir).split("train")
  texts = {_CORPUS: read_corpus(corpus, excluded)}
  texts[_OTHER] = [text for text in (*other.sentences_a, *other.sentences_b) if _plain(text) not in excluded]
  texts[_TRAIN] = [*train.sentences_a, *train.sentences_b]
  names = [*STS_TASKS, "mean", "MRPC", _QUESTIONS]
  for model in models:
    model, _, theirs = model.partition("=")
    print(f"\n| {model} | fitted on | {' | '.join(names)} |\n| --- | --- |{' ---: |' * len(names)}")
    encoder = SentenceEncoder.from_pretrained(f"static:{model}")
    matches = [string_matches(encoder, *each.sides, 512) for each in sets[:-1] if isinstance(each, PairSet)]
    for control in matches[0]:
      scores = [each.score(match[control]) for each, match in zip(sets, matches, strict=False)]
      print_row(f"{control} |", shown_scores([*scores, np.nan]))
    tables = {"ours": make_embed(str(table_of(model)), "idf")}
    if theirs:
      tables = {"model2vec": make_embed(theirs, None, static_normalize=False), **tables}
    for table, embed in tables.items():
      baseline: list = []
      for calibration, fitted_on, values in rows_of(embed, sets, texts):
        scores = [np.nan if row is None else each.score(row) for each, row in zip(sets, values, strict=True)]
        print_row(f"{table}, {calibration} | {fitted_on}", shown_scores(scores))
        baseline = baseline or values
        if resamples and fitted_on:
          gains = [
            None if row is None else each.gain(before, row, resamples)
            for each, before, row in zip(sets, baseline, values, strict=True)
          ]
          print_row(f"gain | {fitted_on}", shown_gains(gains))


if __name__ == "__main__":
  options = [argument for argument in sys.argv[1:] if argument.startswith("--resamples=")]
  folder, lines, *encoders = [argument for argument in sys.argv[1:] if argument not in options]
  main(folder, lines, encoders, int(options[-1].partition("=")[2]) if options else 0)
