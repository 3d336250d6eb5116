"""Trains a small BERT from scratch by masked-language modeling of a text file, as `mini` was trained.

python examples/pretrain_bert/pretrain_bert.py --corpus=corpus.txt.gz --output_dir=my_bert
python run_scripts/run_flow.py --model=my_bert/model --task=STS-B --data_dir=FOLDER
"""

import collections
import gzip
import hashlib
import json
import pathlib
import sys
from typing import Any

if __package__ in (None, ""):  # run as a file, from any folder
  sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

import bert_flow_tf  # isort: skip  (before TensorFlow: hides its start-up notes)

import numpy as np
import tensorflow as tf
import tokenizers
from absl import app, flags, logging
from safetensors.numpy import save_file

from bert_flow_tf.encoder.transformer.architectures import bare_name
from bert_flow_tf.encoder.transformer.config import EncoderConfig
from bert_flow_tf.encoder.transformer.families.architecture import DEFAULTS
from bert_flow_tf.encoder.transformer.transformer import Dense, LayerNorm
from bert_flow_tf.encoder.transformer.weights import from_pytorch, initial_value, name_of_path, random_transformer
from bert_flow_tf.io.files import replaced_folder
from bert_flow_tf.training.loop import TrainingLoop
from bert_flow_tf.training.optimizer import AdamWeightDecay

FLAGS = flags.FLAGS
# What the steps depend on, besides text and vocabulary: with another value, a training is not resumed.
_IDENTITY = ("hidden_size", "num_hidden_layers", "num_attention_heads", "max_seq_length", "train_batch_size")
_IDENTITY += ("num_train_steps", "num_warmup_steps", "learning_rate", "weight_decay", "dropout", "seed")

SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
PAD, CLS, SEP, MASK = 0, 2, 3, 4
# Devlin et al. 2019, section 3.1: of 15 % of the pieces, 80 % become [MASK], 10 % a random piece, 10 % stay.
MASKED, BECOME_MASK, BECOME_ANY = 0.15, 0.8, 0.1
# Batches among which sentences are sorted by length, for little padding; steps in the running mean of the loss.
_POOL_BATCHES, _MEAN_STEPS = 64, 100


def linear_rate(step: tf.Tensor) -> tf.Tensor:
  """Returns the rate of a step, counted from 0: it rises linearly, then falls to 0 (Devlin et al. 2019, A.2)."""
  step, steps, warmup_steps = tf.cast(step, tf.float32), FLAGS.num_train_steps, FLAGS.num_warmup_steps
  rise = (step + 1.0) / max(warmup_steps, 1)
  return FLAGS.learning_rate * tf.minimum(1.0, tf.minimum(rise, (steps - step) / (steps - warmup_steps)))


def define_flags() -> None:
  """Defines the flags; the defaults give `mini`."""
  flags.DEFINE_string("corpus", None, "Text file, one sentence per line, optionally gzipped.", required=True)
  flags.DEFINE_string("output_dir", "pretrained", "Folder: model/ in it is the model. The same command resumes.")
  flags.DEFINE_string("vocab_file", None, "vocab.txt, of which the pieces that the text needs most are kept.")
  flags.DEFINE_integer("vocab_size", 8192, "Largest number of word pieces.", lower_bound=6)
  flags.DEFINE_boolean("do_lower_case", True, "Lower-case text and strip accents.")
  flags.DEFINE_integer("hidden_size", 256, "Width of the hidden states.", lower_bound=1)
  flags.DEFINE_integer("num_hidden_layers", 4, "Transformer blocks.", lower_bound=1)
  flags.DEFINE_integer("num_attention_heads", 4, "Attention heads; must divide hidden_size.", lower_bound=1)
  flags.DEFINE_integer("max_seq_length", 128, "Largest number of tokens; positions of the model.", lower_bound=3)
  flags.DEFINE_integer("train_batch_size", 96, "Sentences per step.", lower_bound=1)
  flags.DEFINE_integer("num_train_steps", 4200, "Steps.", lower_bound=1)
  flags.DEFINE_integer("num_warmup_steps", 500, "Steps over which the learning rate rises.", lower_bound=0)
  # At 1e-3, with Adam's moments not corrected, mini is still at 6.5 nats after 1,400 steps, near its words' entropy.
  flags.DEFINE_float("learning_rate", 3e-4, "Highest learning rate; it falls linearly to 0.")
  flags.DEFINE_float("weight_decay", 0.01, "Weight decay of all weights but biases and layer normalizations.")
  flags.DEFINE_float("dropout", 0.0, "Rate of dropout; 0.1 is BERT's, useful if the text is seen many times.")
  flags.DEFINE_integer("seed", 0, "Seed of weights, order, masked pieces and dropout.", lower_bound=0)
  flags.DEFINE_integer("save_checkpoints_steps", 100, "Steps between two checkpoints.", lower_bound=1)


def read_corpus(path: str) -> list[str]:
  """Returns the lines of a text file that are not blank."""
  opened = gzip.open if path.endswith(".gz") else open
  with opened(path, "rt", encoding="utf-8") as file:
    return [line.strip() for line in file if line.strip()]


def _wordpiece(vocabulary: dict[str, int], do_lower_case: bool) -> tokenizers.Tokenizer:
  """Returns BERT's tokenizer, without [CLS] and [SEP]."""
  model = tokenizers.models.WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=100)
  tokenizer = tokenizers.Tokenizer(model)
  tokenizer.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=do_lower_case)
  tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
  return tokenizer


def build_vocabulary(sentences: list[str], size: int, do_lower_case: bool) -> list[str]:
  """Returns word pieces learned from the text by the merges of byte-pair encoding, `SPECIALS` first."""
  tokenizer = _wordpiece({}, do_lower_case)
  inner = set()
  for sentence in sentences:
    for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(tokenizer.normalizer.normalize_str(sentence)):
      inner.update(word[1:])
  # By default, the trainer numbers the pieces of one character in an order that differs from run to run, and it
  # chooses between merges of equal count by these numbers.
  specials = list(SPECIALS) + [f"##{character}" for character in sorted(inner)]
  trainer = tokenizers.trainers.WordPieceTrainer(
    vocab_size=size, special_tokens=specials, continuing_subword_prefix="##", show_progress=False
  )
  tokenizer.train_from_iterator(sentences, trainer)
  ids = tokenizer.get_vocab()
  return sorted(ids, key=ids.get)


def choose_vocabulary(pieces: list[str], sentences: list[str], size: int, do_lower_case: bool) -> list[str]:
  """Returns the specials, the characters that occur and the most frequent others of a vocabulary, in its order.

  With the characters no word becomes [UNK] only because other pieces are missing. `SPECIALS` come first.
  """
  tokenizer = _wordpiece({piece: row for row, piece in enumerate(pieces)}, do_lower_case)
  counts = collections.Counter()
  for encoding in tokenizer.encode_batch(sentences, add_special_tokens=False):
    counts.update(encoding.tokens)
  del counts["[UNK]"]
  characters = set("".join(piece.removeprefix("##") for piece in counts))
  needed = {piece for piece in pieces if piece.removeprefix("##") in characters}
  others = [piece for piece, _ in counts.most_common() if piece not in needed]
  kept = needed | set(others[: max(size - len(needed) - len(SPECIALS), 0)])
  return list(SPECIALS) + [piece for piece in pieces if piece in kept]


def tokenize(pieces: list[str], sentences: list[str], do_lower_case: bool, max_seq_length: int) -> list[np.ndarray]:
  """Returns the token ids of each sentence that has any, int32 [seq_len] with [CLS] and [SEP]."""
  tokenizer = _wordpiece({piece: row for row, piece in enumerate(pieces)}, do_lower_case)
  rows = []
  for encoding in tokenizer.encode_batch(sentences, add_special_tokens=False):
    ids = encoding.ids[: max_seq_length - 2]
    if ids:
      rows.append(np.array([CLS, *ids, SEP], np.int32))
  return rows


class MaskedBatches:
  """Batches of masked-language modeling; each follows from the seed and its step alone, so that a training resumes.

  Each pass has another order of the sentences. All sentences of 64 consecutive batches are sorted by length, and the
  batches come in random order. The rest of a pass, less than a batch, is not used.
  """

  def __init__(self, rows: list[np.ndarray], batch_size: int, vocab_size: int, seed: int) -> None:
    self._rows, self._batch_size, self._vocab_size, self._seed = rows, batch_size, vocab_size, seed
    self._lengths = np.array([len(row) for row in rows])
    self._pool_key, self._pool = None, None
    self.batches_per_pass = len(rows) // batch_size

  def __call__(self, step: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Returns ids and mask, int32 [batch, seq_len]; positions [masked, 2], row and column; labels [masked]."""
    batch = self._sentences_of(step)
    inside = np.arange(self._lengths[batch].max()) < self._lengths[batch][:, np.newaxis]
    ids = np.full(inside.shape, PAD, np.int32)
    ids[inside] = np.concatenate([self._rows[i] for i in batch])
    candidates = inside & ~np.isin(ids, (CLS, SEP))
    rng = np.random.default_rng([self._seed, step, 1])
    masked, positions, labels = mask_pieces(ids, candidates, self._vocab_size, rng)
    return masked, inside.astype(np.int32), positions, labels

  def _sentences_of(self, step):
    number, batch = divmod(step, self.batches_per_pass)
    pool, batch = divmod(batch, _POOL_BATCHES)
    if self._pool_key != (number, pool):
      order = np.random.default_rng([self._seed, number, 2]).permutation(len(self._rows))
      first = pool * _POOL_BATCHES * self._batch_size
      count = min(_POOL_BATCHES, self.batches_per_pass - pool * _POOL_BATCHES)
      rows = order[first : first + count * self._batch_size]
      rows = rows[np.argsort(self._lengths[rows], kind="stable")].reshape([count, self._batch_size])
      self._pool = np.random.default_rng([self._seed, number, 3, pool]).permutation(rows)
      self._pool_key = (number, pool)
    return self._pool[batch]


def mask_pieces(ids, candidates, vocab_size, rng):
  """Masks 15 % of the candidates (bool, like ids) of a sentence, at least one; returns ids, positions and labels."""
  counts = candidates.sum(axis=1)
  numbers = np.minimum(np.maximum(np.round(MASKED * counts), 1), counts)
  draws = np.where(candidates, rng.random(ids.shape), 2.0)
  ranks = np.argsort(np.argsort(draws, axis=1), axis=1)
  positions = np.argwhere(ranks < numbers[:, np.newaxis])
  labels = ids[positions[:, 0], positions[:, 1]]
  kinds, anything = rng.random(len(labels)), rng.integers(0, vocab_size, len(labels))
  new = np.where(kinds < BECOME_MASK, MASK, np.where(kinds < BECOME_MASK + BECOME_ANY, anything, labels))
  masked = ids.copy()
  masked[positions[:, 0], positions[:, 1]] = new
  return masked, positions.astype(np.int32), labels.astype(np.int32)


class MaskedLanguageModel(tf.Module):
  """A BERT and the head that predicts masked pieces, with the layers of Devlin et al. 2019's published code.

  scores = LayerNorm(gelu(h W + b)) E^T + c, with the hidden state h of a masked piece and the word embeddings E.
  """

  def __init__(self, config: EncoderConfig, seed: int) -> None:
    """Makes BERT and head with random weights of the seed."""
    super().__init__()
    self.config = config
    self.bert = random_transformer(config, seed, has_pooler=False)

    def variable(path, shape):
      value = initial_value(path, shape, [seed, len(self.bert.weights)], config.initializer_range)
      return tf.Variable(value, name=f"cls/predictions/{path}")

    size = config.hidden_size
    self._dense = Dense(variable, "transform/dense", size, size, config.hidden_act)
    self._norm = LayerNorm(variable, "transform/LayerNorm", size, config.layer_norm_eps)
    self._bias = variable("bias", [config.vocab_size])

  def __call__(self, ids: tf.Tensor, mask: tf.Tensor, positions: tf.Tensor, dropout_seed: Any = None) -> tf.Tensor:
    """Returns the scores of all pieces at some positions, float32 [masked, vocab_size]; the rest as `MaskedBatches`."""
    states, _ = self.bert(ids, mask, dropout_seed)
    # The product with the vocabulary is half of a small model's work: only the masked pieces need it.
    masked = tf.gather_nd(states[-1], positions)
    features = self._norm(self._dense(masked))
    return tf.matmul(features, self.bert.word_embeddings, transpose_b=True) + self._bias


def make_model(vocab_size: int) -> MaskedLanguageModel:
  """Returns a model with random weights of the seed."""
  config = {
    "model_type": "bert",
    "vocab_size": vocab_size,
    "hidden_size": FLAGS.hidden_size,
    "num_hidden_layers": FLAGS.num_hidden_layers,
    "num_attention_heads": FLAGS.num_attention_heads,
    "intermediate_size": 4 * FLAGS.hidden_size,
    "max_position_embeddings": FLAGS.max_seq_length,
    "hidden_dropout_prob": FLAGS.dropout,
    "attention_probs_dropout_prob": FLAGS.dropout,
  }
  return MaskedLanguageModel(EncoderConfig(DEFAULTS | config), FLAGS.seed)


def make_step(model: MaskedLanguageModel, optimizer: AdamWeightDecay):
  """Returns the function (ids, mask, positions, labels, seed) -> mean cross entropy in nats, before the step."""
  variables = model.trainable_variables
  # One graph for batches of all shapes: graphs of single shapes round differently.
  shapes = ([None, None], [None, None], [None, 2], [None], [2])
  specs = [tf.TensorSpec(shape, tf.int32) for shape in shapes]

  @tf.function(autograph=False, input_signature=specs)
  def step(ids, mask, positions, labels, seed):
    with tf.GradientTape() as tape:
      # Masks of dropout follow from the seed, so that a resumed training equals an unbroken one.
      scores = model(ids, mask, positions, seed)
      loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=scores))
    gradients = [tf.convert_to_tensor(gradient) for gradient in tape.gradient(loss, variables)]
    optimizer.apply_gradients(zip(gradients, variables, strict=True))
    return loss

  return step


def train(model: MaskedLanguageModel, batches: MaskedBatches, identity: dict, folder: pathlib.Path) -> float:
  """Makes the steps after the newest checkpoint of the folder; returns the last loss in nats."""
  optimizer = AdamWeightDecay(linear_rate, FLAGS.weight_decay)
  optimizer.build(model.trainable_variables)
  make = make_step(model, optimizer)
  # A running mean of the losses, in the checkpoint, so that a resumed training prints it, too.
  mean = tf.Variable(0.0, trainable=False, name="mean_loss")

  def advance(step, _):
    loss = make(*batches(step), tf.constant([FLAGS.seed, step], tf.int32))
    mean.assign_add((loss - mean) / min(step + 1, _MEAN_STEPS))
    return loss.numpy()

  loop = TrainingLoop(
    losses=["loss"],
    total=FLAGS.num_train_steps,
    strategy=tf.distribute.get_strategy(),
    objects={"model": model, "optimizer": optimizer, "mean_loss": mean},
    variables=[*model.variables, *optimizer.variables, mean],
    trained=model.trainable_variables,
    identity=identity,
    save_checkpoints_steps=FLAGS.save_checkpoints_steps,
    checkpoint_folder=folder,
  )
  loop.restore()
  loop.run(advance, lambda losses: f"loss {float(mean.numpy()):.4f}")
  return float(mean.numpy())


def save(model: MaskedLanguageModel, pieces: list[str], folder: pathlib.Path) -> None:
  """Writes a Hugging Face folder with float16 weights under PyTorch's names."""
  tensors = {}
  for weight in model.variables:
    path = bare_name(weight).partition(":")[0]
    value = from_pytorch(path, weight.numpy())
    tensors[name_of_path(path)] = np.ascontiguousarray(value.astype(np.float16))
  config = {**model.config.values, "architectures": ["BertForMaskedLM"], "torch_dtype": "float32"}
  config.update(hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1)  # BERT's, for fine-tuning
  tokenizer = {"do_lower_case": FLAGS.do_lower_case, "model_max_length": FLAGS.max_seq_length}
  with replaced_folder(folder) as temporary:
    save_file(tensors, temporary / "model.safetensors", metadata={"format": "pt"})
    (temporary / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True))
    (temporary / "tokenizer_config.json").write_text(json.dumps({**tokenizer, "tokenizer_class": "BertTokenizer"}))
    (temporary / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces), encoding="utf-8")


def main(argv: list[str]) -> None:
  """Trains or resumes, writes the model and prints its loss."""
  del argv
  sentences = read_corpus(FLAGS.corpus)
  if FLAGS.vocab_file:
    published = pathlib.Path(FLAGS.vocab_file).read_text(encoding="utf-8").splitlines()
    pieces = choose_vocabulary(published, sentences, FLAGS.vocab_size, FLAGS.do_lower_case)
  else:
    pieces = build_vocabulary(sentences, FLAGS.vocab_size, FLAGS.do_lower_case)
  rows = tokenize(pieces, sentences, FLAGS.do_lower_case, FLAGS.max_seq_length)
  if len(rows) < FLAGS.train_batch_size:
    sys.exit(f"error: --train_batch_size={FLAGS.train_batch_size}: the text has only {len(rows)} sentences")
  batches = MaskedBatches(rows, FLAGS.train_batch_size, len(pieces), FLAGS.seed)
  model = make_model(len(pieces))
  count = sum(weight.shape.num_elements() for weight in model.variables)
  logging.info("%d parameters, %d pieces", count, len(pieces))
  identity = {name: getattr(FLAGS, name) for name in _IDENTITY}
  identity["text"] = hashlib.sha256("\n".join([*pieces, *sentences]).encode()).hexdigest()
  folder = pathlib.Path(FLAGS.output_dir)
  try:
    loss = train(model, batches, identity, folder / "checkpoints")
  except bert_flow_tf.BertFlowError as error:
    sys.exit(f"error: {error}")
  save(model, pieces, folder / "model")
  print(f"final loss {loss:.4f} nats; the model is in {folder / 'model'}")


if __name__ == "__main__":
  define_flags()
  app.run(main)
