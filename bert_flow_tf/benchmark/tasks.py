"""Whole tasks, our way and the original's: `run_benchmark.py --benchmark=tasks`.

Ours embeds every distinct sentence of a task once, sentences of like length together. The original runs BERT on each
batch of the fit, and again for the evaluation, every sentence padded to `max_seq_length`, equal ones as often as they
occur (original.md, "Encoder and pooling" and "Fitting the flow"). Both fit the same flow, by the same `Trainer`, from
the same seed, and without BERT's dropout, which the original has while it fits: so the figures can be compared, and the
original's way is no slower for it.
"""

import numpy as np
import tensorflow as tf

from bert_flow_tf.benchmark import measure
from bert_flow_tf.data.features import pad_batch
from bert_flow_tf.evaluation.figures import figures
from bert_flow_tf.evaluation.similarity import cosine_similarity
from bert_flow_tf.evaluation.task_figures import Embeddings
from bert_flow_tf.training.fitting import FlowSettings

OURS, ORIGINAL = "ours", "original's way"

# Issue 3, section 5.
RATIO, WITHOUT_FLOW_WITHIN, WITH_FLOW_WITHIN = 3.0, 0.05, 0.6


class PaddedEncoder:
  """The original's way to embed: every sentence padded to `max_seq_length`, equal ones as often as they occur.

  The graph is `SentenceEncoder`'s own, made for this one length, so nothing but the padding makes it slow.

  Args:
    encoder: a `SentenceEncoder`.
    pooling: a `sentence_embedding_type`.
    max_seq_length: length of every sentence.
    batch_size: sentences embedded at once by `encode`.
  """

  def __init__(self, encoder, pooling, max_seq_length, batch_size):
    self._tokenizer = encoder.tokenizer
    self._length, self._batch_size = max_seq_length, batch_size
    spec = tf.TensorSpec([None, max_seq_length], tf.int32)

    @tf.function(input_signature=[spec, spec], autograph=False)
    def embed(ids, mask):
      return encoder.embed_batch(ids, mask, pooling)

    # A concrete function is traced here, once, and not again within the graph of each fit.
    self.embed = embed.get_concrete_function()

  def tokenize(self, sentences):
    """Ids and mask of sentences, int32 [n, max_seq_length] each."""
    longest = np.zeros([self._length], np.int32)  # stretches the padding; it is dropped again
    ids, mask = pad_batch([*self._tokenizer(sentences, self._length), longest], self._tokenizer.pad_id)
    return ids[:-1], mask[:-1]

  def encode(self, sentences):
    """float32 [n, dim], in the order of the sentences."""
    ids, mask = self.tokenize(sentences)
    starts = range(0, len(ids), self._batch_size)
    batches = [(ids[at : at + self._batch_size], mask[at : at + self._batch_size]) for at in starts]
    return np.concatenate([self.embed(tf.constant(ids), tf.constant(mask)).numpy() for ids, mask in batches])


class PaddedPairs:
  """Pairs embedded anew at each step of a fit; a source for `Trainer.fit`.

  Args:
    encoder: a `PaddedEncoder`.
    pairs: `SentencePairs`.
  """

  def __init__(self, encoder, pairs):
    self._encoder = encoder
    self._sides = [encoder.tokenize(side) for side in (pairs.sentences_a, pairs.sentences_b)]

  def __len__(self):
    return len(self._sides[0][0])

  def features(self, positions):
    """Maps a dataset of positions [batch] to one of ids and masks of both sides."""
    sides = tf.nest.map_structure(tf.constant, self._sides)
    return positions.map(lambda chosen: tf.nest.map_structure(lambda side: tf.gather(side, chosen), sides))

  def embed(self, features, dropout_seed):
    """Runs the encoder on both sides at once: two float32 [batch, dim]."""
    del dropout_seed
    ids, mask = (tf.concat(parts, axis=0) for parts in zip(*features, strict=True))
    return tf.split(self._encoder.embed(ids, mask), 2)


def headline(task, cosines):
  """Spearman x 100 of the split that counts, wmean over subsets where the task has them."""
  pairs = task.splits[task.spec.eval_split]
  found = figures(cosines, pairs.scores, pairs.subset_names(), task.spec.metric)
  return found.get("spearman_wmean", found.get("spearman", found.get("auc")))


def evaluate(task, embed, transform):
  """The headline without and with the flow, from one pass of `embed` over both sides of the split that counts."""
  pairs = task.splits[task.spec.eval_split]
  a, b = embed(pairs.sentences_a), embed(pairs.sentences_b)
  return headline(task, cosine_similarity(a, b)), headline(task, cosine_similarity(transform(a), transform(b)))


def make_flow(config, dim, seed, num_train_epochs):
  """`FlowCalibration` to be fitted as `run_flow.py` does, without checkpoints; and its trainer."""
  return FlowSettings(config, seed=seed, num_train_epochs=num_train_epochs).make(dim, show_progress=False)


def run_task(task, encoder, config, seed, pooling, max_seq_length, batch_size, repeats, started=None):
  """Both ways, in turns, on one task: a dict of json values.

  Args:
    task: `TaskData`.
    encoder: `SentenceEncoder`.
    config: `FlowConfig`.
    seed: of the flow and of the order of the pairs.
    pooling: a `sentence_embedding_type`.
    max_seq_length: most tokens of a sentence, [CLS] and [SEP] included.
    batch_size: sentences embedded at once outside a fit.
    repeats: rounds.
    started: dict that our way keeps its flow and trainer in from one task to the next, as `run_table.py` does: what was
      compiled serves all fits of a process. None to compile for this task.
  """
  started = {} if started is None else started
  corpus, dim = task.all_pairs(), encoder.dim(pooling)
  arguments = {"sentence_embedding_type": pooling, "max_seq_length": max_seq_length}
  padded = PaddedEncoder(encoder, pooling, max_seq_length, batch_size)
  # Start-up that both have once a process: the encoder's graph is traced and its threads are awake.
  padded.encode(task.all_pairs().sentences_a[:1])
  encoder.encode(list(corpus.sentences_a[:1]), batch_size=batch_size, show_progress=False, **arguments)

  def ours():
    embeddings = Embeddings(encoder, [corpus], batch_size, **arguments)
    if "flow" not in started:
      started["flow"], started["trainer"] = make_flow(config, dim, seed, task.spec.num_train_epochs)
    flow = started["flow"]
    started["trainer"].restart(seed)
    flow.num_train_epochs = task.spec.num_train_epochs
    flow.fit_source(embeddings.source(corpus))
    return evaluate(task, embeddings.of, flow.transform)

  def original():
    flow, _ = make_flow(config, dim, seed, task.spec.num_train_epochs)
    flow.fit_source(PaddedPairs(padded, corpus))
    return evaluate(task, padded.encode, flow.transform)

  found = measure.in_turns({OURS: lambda: measure.seconds(ours), ORIGINAL: lambda: measure.seconds(original)}, repeats)
  taken = {way: [seconds for seconds, _ in rounds] for way, rounds in found.items()}
  result = {"task": task.spec.name, "pairs": len(corpus)}
  result["distinct_sentences"] = len({*corpus.sentences_a, *corpus.sentences_b})
  result["seconds"] = taken
  result["figures"] = {
    way: {"without_flow": rounds[-1][1][0], "with_flow": rounds[-1][1][1]} for way, rounds in found.items()
  }
  return result | {"ratio": measure.median_ratio(taken[ORIGINAL], taken[OURS])}


def summarize(results):
  """Ratio of all tasks together and largest differences of figures: a dict of json values."""
  rounds = len(results[0]["seconds"][OURS])
  sums = {way: [sum(r["seconds"][way][i] for r in results) for i in range(rounds)] for way in (OURS, ORIGINAL)}

  def apart(what):
    return max(abs(r["figures"][OURS][what] - r["figures"][ORIGINAL][what]) for r in results)

  return {
    "seconds": {way: measure.median(values) for way, values in sums.items()},
    "ratio": measure.median_ratio(sums[ORIGINAL], sums[OURS]),
    "without_flow_apart": apart("without_flow"),
    "with_flow_apart": apart("with_flow"),
    "tasks": results,
  }


def to_markdown(summary):
  """The table of `summarize`."""
  rows = []
  for result in summary["tasks"]:
    ours, original = result["figures"][OURS], result["figures"][ORIGINAL]
    taken = [f"{measure.median(result['seconds'][way]):.1f}" for way in (OURS, ORIGINAL)]
    pairs = [f"{of[what]:.2f}" for what in ("without_flow", "with_flow") for of in (ours, original)]
    rows.append([result["task"], result["distinct_sentences"], *taken, f"{result['ratio']:.2f}", *pairs])
  total = [f"{summary['seconds'][way]:.1f}" for way in (OURS, ORIGINAL)]
  rows.append(["all", "", *total, f"**{summary['ratio']:.2f}**", "", "", "", ""])
  header = ["task", "distinct sentences", "ours (s)", "original's way (s)", "ratio"]
  header += ["without flow", "original's way", "with flow", "original's way"]
  lines = [
    measure.markdown_table(header, rows),
    "",
    f"Ratio of all: {summary['ratio']:.2f} ({measure.verdict(summary['ratio'], RATIO)}). Figures apart by at most "
    f"{summary['without_flow_apart']:.3f} without flow "
    f"({measure.verdict(summary['without_flow_apart'], WITHOUT_FLOW_WITHIN, at_most=True)}) and "
    f"{summary['with_flow_apart']:.2f} with it "
    f"({measure.verdict(summary['with_flow_apart'], WITH_FLOW_WITHIN, at_most=True)}).",
    "",
    "Spearman x 100 (STS-12 to STS-16: mean weighted by subset size). Counted in both ways: tokenisation, embedding, "
    "the making, compiling and fitting of the flow, evaluation; our way compiles once for all tasks, as run_table.py "
    "does, the original's way for each. Counted in neither: imports, the loading of the encoder and the tracing of its "
    "graph, once a process. BERT's dropout is off in both.",
  ]
  return "\n".join(lines)
