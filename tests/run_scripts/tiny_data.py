"""Data folder in SentEval's layout with random gold, small enough for the packaged encoder to embed in a second."""

import numpy as np

from bert_flow_tf.data import semeval
from tests.testing import REPO

PAIRS = 40
SUBSET_PAIRS = 6


def sentences():
  """Returns 60 pairs of sentences of the sample."""
  with open(REPO / "bert_flow_tf/data/hard_sample/sample.tsv", encoding="utf-8") as file:
    return [line.rstrip("\n").split("\t")[1:] for line in list(file)[1:61]]


def scored(n, seed):
  """Returns n rows (score from 1 to 5, first sentence, second sentence), the same for the same seed."""
  rng = np.random.default_rng(seed)
  pool = sentences()
  return [(f"{1 + 4 * rng.random():.2f}", *pool[row]) for row in rng.permutation(len(pool))[:n]]


def write(folder):
  """Writes STS-B, SICK-R and STS-12 to STS-16 and returns the folder; see `write_years`."""
  benchmark, sick = folder / "STS/STSBenchmark", folder / "SICK"
  for path in (benchmark, sick):
    path.mkdir(parents=True)
  for seed, split in enumerate(("train", "dev", "test")):
    lines = ["\t".join(["g", "f", "y", "0", *row]) for row in scored(PAIRS, seed)]
    (benchmark / f"sts-{split}.csv").write_text("\n".join(lines) + "\n")
    lines = ["\t".join(["0", *row[1:], row[0], "NEUTRAL"]) for row in scored(PAIRS, 10 + seed)]
    header = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment"
    (sick / semeval.SICK_R.files[split][0]).write_text("\n".join([header, *lines]) + "\n")
  write_years(folder)
  return folder


def write_years(folder):
  """Writes STS-12 to STS-16; the second pair of each subset has no gold."""
  for year in semeval.YEARS:
    below = folder / f"STS/STS{year.name[-2:]}-en-test"
    below.mkdir()
    for seed, subset in enumerate(year.subsets):
      rows = scored(SUBSET_PAIRS + seed, 100 + seed)
      (below / f"STS.input.{subset}.txt").write_text("".join("\t".join(row[1:]) + "\n" for row in rows))
      gold = [row[0] if i != 1 else "" for i, row in enumerate(rows)]
      (below / f"STS.gs.{subset}.txt").write_text("\n".join(gold) + "\n")
