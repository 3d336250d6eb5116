"""Search in 20,000 sentences: nearest neighbors of a question, near-duplicates, and a corpus without them.

    python examples/search.py                                           # sentences made from the packaged samples
    python examples/search.py --corpus=my.txt --query="Who won?"        # your own, one per line
    python examples/search.py --model=static:mini                       # without a transformer: faster, blind to order

Everything is compared with everything, in blocks; no index is built, and nothing of 20,000 x 20,000 numbers is held.
"""

import argparse
import itertools
import pathlib

from bert_flow_tf import SentenceModel, load_task, paraphrase_mining, search
from bert_flow_tf.vectors import near_duplicates

# Ways to say a sentence with a few more words: the near-duplicates of the corpus that is made here.
FRAMES = (
  "{}",
  "They say: {}",
  "Yesterday: {}",
  "{} So it was.",
  "In short: {}",
  "We read: {}",
  "Again: {}",
  "{} That is all.",
  "Note: {}",
)
QUERIES = ("A musician plays on a stage.", "Where can I get my bicycle repaired?", "The government raises a tax.")


def synthetic_corpus(n: int) -> list[str]:
  """Returns n distinct sentences: the packaged samples, then the same sentences in other frames."""
  splits = [split for task in ("sample", "hard-sample") for split in load_task(task).splits.values()]
  sentences = itertools.chain.from_iterable([*split.sentences_a, *split.sentences_b] for split in splits)
  distinct = list(dict.fromkeys(sentences))
  framed = (frame.format(sentence) for frame in FRAMES for sentence in distinct)
  return list(itertools.islice(framed, n))


def main(arguments: list[str] | None = None) -> dict[str, object]:
  """Searches, mines and removes duplicates; returns what it found."""
  parser = argparse.ArgumentParser(description="Searches a corpus of sentences.")
  parser.add_argument("--corpus", type=pathlib.Path, help="text file, one sentence per line; none: sentences are made")
  parser.add_argument("--n", type=int, default=20000, help="number of sentences to make")
  parser.add_argument("--query", action="append", help="what to search for; may be repeated")
  parser.add_argument("--model", default="mini", help="an encoder, as in SentenceModel.from_pretrained")
  parser.add_argument("--calibration", default="whitening")
  parser.add_argument("--threshold", type=float, default=0.9, help="smallest cosine of near-duplicates")
  options = parser.parse_args(arguments)
  if options.corpus:
    lines = options.corpus.read_text(encoding="utf-8").splitlines()
    corpus = [line for line in lines if line.strip()]
  else:
    corpus = synthetic_corpus(options.n)
  queries = options.query or list(QUERIES)

  # The calibration is fitted on the corpus itself: that needs no labels.
  model = SentenceModel.from_pretrained(options.model).fit(corpus, options.calibration)
  embeddings = model.encode_document(corpus)

  # Near-duplicates: the most similar pairs, and the corpus without the later sentence of each.
  pairs = paraphrase_mining(model, corpus, threshold=options.threshold)
  print(f"{len(pairs)} pairs of {len(corpus)} sentences have a cosine of at least {options.threshold}; the first:")
  for score, i, j in pairs[:3]:
    print(f"  {score:.3f}  {corpus[i]}  |  {corpus[j]}")
  kept = [row for row, first in enumerate(near_duplicates(embeddings, options.threshold)) if row == first]
  print(f"{len(kept)} sentences remain without near-duplicates")

  # Nearest neighbors among these.
  scores, rows = search(model.encode_query(queries), embeddings[kept], top_k=3)
  neighbors = [[corpus[kept[row]] for row in of_query] for of_query in rows]
  for query, cosines, sentences in zip(queries, scores, neighbors, strict=True):
    print(query)
    for cosine, sentence in zip(cosines, sentences, strict=True):
      print(f"  {cosine:.3f}  {sentence}")
  return {"corpus": corpus, "pairs": pairs, "kept": kept, "neighbors": neighbors}


if __name__ == "__main__":
  main()
