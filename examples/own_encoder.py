"""A BERT of your own as the encoder: trained in your loop, calibrated here, followed as its weights change.

    python examples/own_encoder.py                                # a small BERT, made and trained here
    python examples/own_encoder.py --bert=FOLDER                  # yours: TFBertModel.from_pretrained(FOLDER)

The loop below teaches a BERT which two of the packaged sample's sentences tell of the same thing: each embedding
shall be closer to its partner than to the other sentences of the batch. Any loop and loss will do.
"""

import argparse
import pathlib

import numpy as np
import scipy.stats
import tensorflow as tf
import transformers

from bert_flow_tf import SentenceEncoder, SentenceModel, load_task


def make_bert(folder: str | None, layers: int) -> tuple[transformers.TFBertModel, object]:
  """Returns the TFBertModel and tokenizer of a folder, or a new BERT with the word pieces of `mini`."""
  if folder is not None:
    return transformers.TFBertModel.from_pretrained(folder), transformers.BertTokenizerFast.from_pretrained(folder)
  tokenizer = SentenceEncoder.from_pretrained("mini").tokenizer
  sizes = {"hidden_size": 64, "num_hidden_layers": layers, "num_attention_heads": 4, "intermediate_size": 128}
  transformers.set_seed(1)
  return transformers.TFBertModel(transformers.BertConfig(vocab_size=len(tokenizer.vocab), **sizes)), tokenizer


def train(encoder: SentenceEncoder, pairs: list[tuple[str, str]], steps: int, batch: int) -> list[float]:
  """Trains the encoder's BERT on pairs of similar sentences; returns the loss of each step."""
  layer = encoder.as_layer(trainable=True)  # a Keras layer from sentences to embeddings
  optimizer = tf.keras.optimizers.Adam(5e-4)
  rng = np.random.default_rng(1)
  losses = []
  for _ in range(steps):
    rows = rng.choice(len(pairs), batch, replace=False)
    texts = [[pairs[row][side] for row in rows] for side in (0, 1)]
    with tf.GradientTape() as tape:
      a, b = (tf.math.l2_normalize(layer(side, training=True), axis=1) for side in texts)
      logits = 20.0 * tf.matmul(a, b, transpose_b=True)  # [batch, batch]; the partners are on the diagonal
      loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(tf.range(batch), logits))
    weights = layer.trainable_variables
    optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
    losses.append(float(loss))
  return losses


def spearman(model: SentenceModel) -> float:
  """Returns the rank correlation, x 100, of a model's cosines and the grades of the sample's test split."""
  pairs = load_task("sample").splits["test"]
  cosines = model.similarity(pairs.sentences_a, pairs.sentences_b)
  return 100 * float(scipy.stats.spearmanr(cosines, pairs.scores).statistic)


def main(arguments: list[str] | None = None) -> dict[str, object]:
  """Trains, calibrates, saves and loads; returns losses and scores."""
  parser = argparse.ArgumentParser(description="Uses a TFBertModel as the encoder.")
  parser.add_argument("--bert", help="folder of a TFBertModel and its tokenizer; none: a small one is made")
  parser.add_argument("--layers", type=int, default=2, help="blocks of the small BERT")
  parser.add_argument("--steps", type=int, default=60)
  parser.add_argument("--batch", type=int, default=32)
  parser.add_argument("--save", type=pathlib.Path, default=pathlib.Path("own_bert"), help="folder of the result")
  options = parser.parse_args(arguments)

  bert, tokenizer = make_bert(options.bert, options.layers)
  encoder = SentenceEncoder(bert, tokenizer)  # the model itself stays what it is, and yours
  scores = {"before training": spearman(SentenceModel(encoder))}

  task = load_task("sample").splits["train"]
  graded = zip(task.sentences_a, task.sentences_b, task.scores, strict=True)
  losses = train(encoder, [(a, b) for a, b, score in graded if score >= 3.5], options.steps, options.batch)
  print(f"loss {np.mean(losses[:5]):.3f} -> {np.mean(losses[-5:]):.3f}")

  # The encoder follows the weights; a calibration belongs to the weights that it was fitted on.
  scores["trained"] = spearman(SentenceModel(encoder))
  model = SentenceModel(encoder).fit(task, "whitening")
  scores["trained, whitened"] = spearman(model)
  for name, score in scores.items():
    print(f"{name:18} Spearman x 100: {score:6.2f}")

  # BERT is saved as you always do; the calibration remembers the digest of its weights.
  bert.save_pretrained(options.save)
  model.save(options.save / "calibration")
  loaded = SentenceModel.load(options.save / "calibration", model=encoder)
  texts = ["A man is eating.", "A woman reads."]
  np.testing.assert_array_equal(loaded.encode(texts), model.encode(texts))
  return {"losses": losses, "scores": scores}


if __name__ == "__main__":
  main()
