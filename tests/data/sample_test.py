"""data/sample: the pairs are those that the rule of its page draws from the sentences."""

import collections
import functools
import hashlib
import heapq
import itertools
import pathlib

import numpy as np
import pytest
from scipy import stats

import bert_flow_tf

FOLDER = pathlib.Path(bert_flow_tf.__file__).parent / "data" / "sample"
SEED = 15
SIZES = {"train": 500, "dev": 400, "test": 700}
KINDS = ("same", "related", "topic", "random")
Sentence = collections.namedtuple("Sentence", "genre topic scene shared text")


def _table(name):
  """Returns the rows of a file of the sample, without its header."""
  return [line.split("\t") for line in (FOLDER / name).read_text("utf-8").splitlines()][1:]


@functools.cache
def _order(*names):
  """Returns the place of something in the order that the seed gives."""
  return hashlib.sha256("\t".join((str(SEED), *names)).encode()).hexdigest()


def _kind(a, b):
  """Returns the kind of a pair; None for two genres."""
  if a.genre != b.genre:
    return None
  if a.topic == b.topic and a.scene == b.scene:
    return "same"
  if set(a.shared.split(",")) & set(b.shared.split(",")):
    return "related"
  return "topic" if a.topic == b.topic else "random"


def _split_topics(sentences):
  """Returns {topic: split}: the topics of a genre in the order of the seed, shared out in proportion to SIZES."""
  splits, ends = {}, [*zip(SIZES, itertools.accumulate(SIZES.values()), strict=True)]
  for genre in sorted({s.genre for s in sentences}):
    topics = sorted({s.topic for s in sentences if s.genre == genre}, key=lambda topic: _order(genre, topic))
    for number, topic in enumerate(topics):
      place = (number + 0.5) / len(topics) * sum(SIZES.values())
      splits[topic] = next(split for split, end in ends if place < end)
  return splits


def _draw(sentences, size):
  """Returns pairs and their kinds, the kinds in turns; of a kind, the pair whose sentences are used least so far."""
  candidates = collections.defaultdict(list)
  for pair in itertools.combinations(sentences, 2):
    candidates[_kind(*pair)].append(tuple(sorted(pair, key=lambda s: _order(s.text))))
  heaps = {}
  for kind, pairs in candidates.items():
    pairs.sort(key=lambda pair: _order(pair[0].text, pair[1].text))
    heaps[kind] = [([0, 0], place, pair) for place, pair in enumerate(pairs)]
  uses, drawn = collections.Counter(), []
  while len(drawn) < size:
    kind = KINDS[len(drawn) % 4]
    counted, place, pair = heaps[kind][0]
    now = sorted((uses[s] for s in pair), reverse=True)
    if now != counted:  # The count has grown since the pair was put there.
      heapq.heapreplace(heaps[kind], (now, place, pair))
      continue
    heapq.heappop(heaps[kind])
    uses.update(pair)
    drawn.append((kind, *pair))
  return sorted(drawn, key=lambda row: _order("row", row[1].text, row[2].text))


def test_the_sentences():
  sentences = [Sentence(*row) for row in _table("sentences.tsv")]
  assert len({s.text.casefold() for s in sentences}) == len(sentences) == 1621
  assert {len(s.text.split()) for s in sentences} <= set(range(5, 26))
  splits = _split_topics(sentences)
  in_pairs = collections.defaultdict(set)
  for split in SIZES:
    for _, *pair in _table(f"{split}.tsv"):
      in_pairs[split].update(pair)
  # Each sentence is in the pairs of one split, so no topic is in two.
  assert in_pairs == {split: {s.text for s in sentences if splits[s.topic] == split} for split in SIZES}


def test_the_second_round_agrees_as_the_page_says():
  first = {(a, b): float(score) for split in SIZES for score, a, b in _table(f"{split}.tsv")}
  rows = _table("second_round.tsv")
  grades = np.array([(first[a, b], float(score)) for score, a, b in rows])
  assert len(rows) == len({(a, b) for _, a, b in rows}) == 534
  page = (FOLDER / "README.md").read_text("utf-8")
  spearman, pearson = stats.spearmanr(*grades.T)[0], stats.pearsonr(*grades.T)[0]
  assert f"Spearman correlation of {spearman:.3f}" in page and f"of {pearson:.3f};" in page
  assert f"{100 * np.mean(abs(grades[:, 0] - grades[:, 1]) <= 1):.1f} % by at most 1" in page


@pytest.mark.parametrize(
  "split", [pytest.param("train", marks=pytest.mark.slow), "dev", pytest.param("test", marks=pytest.mark.slow)]
)
def test_the_rule_draws_the_pairs(split):
  sentences = [Sentence(*row) for row in _table("sentences.tsv")]
  splits = _split_topics(sentences)
  drawn = _draw([s for s in sentences if splits[s.topic] == split], SIZES[split])
  assert [[a.text, b.text] for _, a, b in drawn] == [pair for _, *pair in _table(f"{split}.tsv")]
  assert collections.Counter(kind for kind, *_ in drawn) == dict.fromkeys(KINDS, SIZES[split] // 4)
