"""Trains a small BERT from scratch by masked-language modelling of a text file.

python run_pretraining.py --corpus=corpus.txt.gz --output_dir=my_bert
python run_flow.py --model=my_bert/model --task=STS-B --data_dir=FOLDER
"""

import hashlib
import json
import os
import pathlib
import sys

if __package__ in (None, ""):  # run as a file, from any folder
  sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import numpy as np
from absl import flags, logging

from bert_flow_tf.data.lines import lines
from bert_flow_tf.errors import ConfigError, DataError
from bert_flow_tf.evaluation import report
from bert_flow_tf.io import files
from bert_flow_tf.io.experiment import Stopwatch, make_folder
from bert_flow_tf.pretraining import card as pretraining_card
from bert_flow_tf.progress import Progress
from run_scripts import common_flags

FLAGS = flags.FLAGS

MODEL_FOLDER = "model"
_CHECKPOINTS = "checkpoints"
_VOCABULARY_FILE = "vocabulary.json"
_TOKENIZED_AT_ONCE = 16384


def define_flags():
  """The flags of this runner."""
  flags.DEFINE_string("corpus", None, "Text file, a sentence a line, perhaps gzipped.")
  flags.DEFINE_string(
    "output_dir",
    "pretrained",
    f"Folder of this training: {MODEL_FOLDER}/ in it is the finished model. The same command goes on where it stopped.",
  )
  flags.DEFINE_string(
    "vocab_file", None, "vocab.txt of which the text's most frequent --vocab_size pieces are kept; built if not given."
  )
  flags.DEFINE_integer("vocab_size", 8192, "Word pieces.", lower_bound=1)
  flags.DEFINE_boolean("do_lower_case", True, "Lower-case text and strip accents.")
  flags.DEFINE_integer("hidden_size", 256, "Width of the hidden states.", lower_bound=1)
  flags.DEFINE_integer("num_hidden_layers", 4, "Transformer blocks.", lower_bound=1)
  flags.DEFINE_integer(
    "num_attention_heads", 4, "Attention heads of a block; they divide --hidden_size.", lower_bound=1
  )
  flags.DEFINE_integer(
    "intermediate_size", None, "Width of the feed-forward layers; 4 times --hidden_size if not given."
  )
  flags.DEFINE_integer("max_seq_length", 128, "Most tokens of a sentence, and positions of the model.", lower_bound=3)
  flags.DEFINE_integer("train_batch_size", 96, "Sentences a step, over all devices.")
  flags.DEFINE_integer("num_train_steps", 4200, "Steps.")
  flags.DEFINE_integer("num_warmup_steps", 500, "Steps over which the learning rate rises.")
  # At 1e-3, Adam's moments uncorrected, mini stands at 6.5 nats after 1,400 steps still, near its words' entropy.
  flags.DEFINE_float("learning_rate", 3e-4, "Highest learning rate; it falls linearly to 0.")
  flags.DEFINE_float("weight_decay", 0.01, "Of all weights but biases and layer normalisations.")
  flags.DEFINE_float(
    "dropout", 0.0, "Rate of dropout while training; 0.1 is BERT's, of use where a text is seen many times.", 0.0, 0.9
  )
  flags.DEFINE_integer(
    "seed", 0, "Of initial weights, order of the sentences, hidden pieces and dropout.", 0, 2**31 - 1
  )
  flags.DEFINE_enum(
    "precision",
    "float32",
    ["float32", "mixed_bfloat16", "mixed_float16"],
    "What is computed in; weights and optimizer are float32. The halves are for GPUs.",
  )
  flags.DEFINE_string(
    "distribution_strategy",
    "default",
    "default: all GPUs, or the CPU; mirrored: the same through a MirroredStrategy always; multi_worker_mirrored: the "
    "workers in TF_CONFIG.",
  )
  flags.DEFINE_integer("save_checkpoints_steps", 100, "Steps between checkpoints.", lower_bound=1)
  flags.DEFINE_enum(
    "weights_dtype", "float16", ["float16", "float32"], "What the model's file stores; it is loaded as float32."
  )
  flags.DEFINE_string(
    "data_dir", None, "Folder with STS/STSBenchmark, for the figures in the model's card; none without."
  )


def check_flags():
  """Refuses what needs no file to be seen wrong.

  Raises:
    ConfigError: a flag is missing, or two contradict each other.
  """
  for name in ("corpus", "output_dir"):
    if not FLAGS[name].value:
      raise ConfigError(f"--{name} is {'empty' if FLAGS[name].value == '' else 'not given'}; expected a path")
  common_flags.check_not_empty(("vocab_file", "data_dir"))
  if FLAGS.hidden_size % FLAGS.num_attention_heads:
    raise ConfigError(
      f"--hidden_size={FLAGS.hidden_size} and --num_attention_heads={FLAGS.num_attention_heads}: expected a multiple"
    )
  if FLAGS.intermediate_size is not None and FLAGS.intermediate_size < 1:
    raise ConfigError(f"--intermediate_size={FLAGS.intermediate_size}: expected at least 1")


def read_corpus():
  """The sentences of --corpus, without those of blanks alone, and the checksum of their text.

  Raises:
    DataError: it cannot be read, or has none.
  """
  path = os.path.expanduser(FLAGS.corpus)
  sentences = [line for _, line in lines(path, empty="skip") if line.strip()]
  if not sentences:
    raise DataError(f"--corpus={FLAGS.corpus} has no sentence in it")
  digest = hashlib.sha256()
  for sentence in sentences:
    digest.update(f"{sentence}\n".encode())
  logging.info("%s: %d sentences", FLAGS.corpus, len(sentences))
  return sentences, digest.hexdigest()


def make_vocabulary(folder, sentences, checksum):
  """The word pieces: those that an earlier run of the same flags left in the folder, or new ones.

  Args:
    folder: pathlib.Path of this training.
    sentences: list of str.
    checksum: of the sentences.

  Raises:
    ConfigError: the folder is another training's, or --vocab_size is too small.
    DataError: --vocab_file cannot be read.
  """
  from bert_flow_tf.pretraining import vocabulary

  path = folder / _VOCABULARY_FILE
  settings = {
    "corpus_sha256": checksum,
    "vocab_size": FLAGS.vocab_size,
    "do_lower_case": FLAGS.do_lower_case,
    "vocab_file_sha256": None,
  }
  if FLAGS.vocab_file is not None:
    pieces = vocabulary.read_vocabulary(os.path.expanduser(FLAGS.vocab_file))
    settings["vocab_file_sha256"] = hashlib.sha256("\n".join(pieces).encode()).hexdigest()
  if path.exists():
    try:
      found = json.loads(path.read_text(encoding="utf-8"))
      pieces, others = found.pop("pieces"), [key for key in settings if found[key] != settings[key]]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
      raise ConfigError(f"--output_dir={folder}: {path.name} is damaged ({error!r}); remove the folder") from error
    if others and (folder / _CHECKPOINTS).exists():
      raise ConfigError(
        f"--output_dir={folder} belongs to another training ({others[0]} {found[others[0]]} there, "
        f"{settings[others[0]]} now): choose another folder, or remove this one"
      )
    if not others:
      return pieces
  if FLAGS.vocab_file is None:
    pieces = vocabulary.build_vocabulary(sentences, FLAGS.vocab_size, FLAGS.do_lower_case)
  else:
    pieces = vocabulary.choose_vocabulary(
      os.path.expanduser(FLAGS.vocab_file), sentences, FLAGS.vocab_size, FLAGS.do_lower_case
    )
  files.write_text(path, json.dumps({**settings, "pieces": pieces}) + "\n")
  return pieces


def tokenize(folder, pieces, sentences):
  """Token ids of the sentences that have any, [CLS] and [SEP] around them: list of int32 arrays; and the tokenizer."""
  from bert_flow_tf.data.features import SentenceTokenizer

  path = folder / "vocab.txt"
  files.write_text(path, "".join(f"{piece}\n" for piece in pieces))
  tokenizer = SentenceTokenizer(path, FLAGS.do_lower_case)
  ids = []
  with Progress(len(sentences), what="tokenizing") as progress:
    for start in range(0, len(sentences), _TOKENIZED_AT_ONCE):
      chunk = sentences[start : start + _TOKENIZED_AT_ONCE]
      ids += [row for row in tokenizer(chunk, FLAGS.max_seq_length) if len(row) > 2]
      progress.update(len(chunk))
  if len(ids) < FLAGS.train_batch_size:
    raise ConfigError(
      f"--train_batch_size={FLAGS.train_batch_size}: expected at most as many as --corpus has sentences, {len(ids)}"
    )
  return ids, tokenizer


def make_batches(pieces, ids, tokenizer):
  """The `MaskedBatches` of the flags."""
  from bert_flow_tf.pretraining.masking import MaskedBatches

  mask, *specials = (pieces.index(piece) for piece in ("[MASK]", "[CLS]", "[SEP]", "[PAD]"))
  return MaskedBatches(ids, FLAGS.train_batch_size, mask, specials, len(pieces), tokenizer.pad_id, FLAGS.seed)


def settings_of_flags():
  """The `PretrainingSettings`.

  Raises:
    ConfigError: a flag is outside its allowed values.
  """
  from bert_flow_tf.pretraining.trainer import PretrainingSettings

  return PretrainingSettings(
    steps=FLAGS.num_train_steps,
    batch_size=FLAGS.train_batch_size,
    learning_rate=FLAGS.learning_rate,
    warmup_steps=FLAGS.num_warmup_steps,
    weight_decay=FLAGS.weight_decay,
    dropout=FLAGS.dropout > 0,
    seed=FLAGS.seed,
    save_checkpoints_steps=FLAGS.save_checkpoints_steps,
  )


def main(argv):
  """Text, vocabulary, token ids, training, model, figures, card."""
  del argv
  watch = Stopwatch()
  check_flags()
  sentences, checksum = read_corpus()

  # The first use of TensorFlow, whose import takes seconds: what is wrong above is said before it.
  import bert_flow_tf
  from bert_flow_tf.encoder.saving import check_place
  from bert_flow_tf.pretraining.masked_lm import MaskedLanguageModel
  from bert_flow_tf.pretraining.trainer import PretrainingTrainer, final_loss
  from bert_flow_tf.training.distribution import is_chief, wait_for_all, worker_failures

  settings = settings_of_flags()
  if FLAGS.data_dir is not None:
    pretraining_card.load_task(FLAGS.data_dir)
  strategy = bert_flow_tf.make_strategy(FLAGS.distribution_strategy)
  folder = pathlib.Path(os.path.expanduser(FLAGS.output_dir))
  if (folder / MODEL_FOLDER).exists() and not (folder / _CHECKPOINTS).exists():
    raise ConfigError(
      f"--output_dir={folder}: {folder / MODEL_FOLDER} is there and not of a training of this command; choose another "
      "folder, for the finished model takes that place"
    )
  check_place(folder / MODEL_FOLDER)
  make_folder(folder, "output_dir")
  with watch.timing("reading"):
    pieces = make_vocabulary(folder, sentences, checksum)
    ids, tokenizer = tokenize(folder, pieces, sentences)
  batches = make_batches(pieces, ids, tokenizer)
  sizes = {
    "vocab_size": len(pieces),
    "hidden_size": FLAGS.hidden_size,
    "num_hidden_layers": FLAGS.num_hidden_layers,
    "num_attention_heads": FLAGS.num_attention_heads,
    "intermediate_size": FLAGS.intermediate_size or 4 * FLAGS.hidden_size,
    "max_position_embeddings": FLAGS.max_seq_length,
  }
  with worker_failures(strategy), strategy.scope():
    model = MaskedLanguageModel(sizes, FLAGS.dropout, FLAGS.precision, FLAGS.seed)
  identity = {**sizes, "rate_of_dropout": FLAGS.dropout, "corpus": checksum, "vocabulary": tokenizer.checksum}
  trainer = PretrainingTrainer(model, settings, strategy, folder / _CHECKPOINTS, identity)
  parameters = int(model.model.count_params())
  passes = settings.steps / batches.batches_a_pass
  logging.info(
    "%d parameters, %d pieces; %d steps of %d sentences, %.2f passes over the text",
    *(parameters, len(pieces), settings.steps, settings.batch_size, passes),
  )
  with watch.timing("training"):
    losses = trainer.train(batches)
  if is_chief(strategy):
    about = {
      "corpus": {"file": FLAGS.corpus, "sha256": checksum, "sentences": len(sentences), "used": len(ids)},
      "sizes": sizes,
      "parameters": parameters,
      "passes": passes,
      "final_loss": final_loss(losses),
      "seconds": watch.seconds,
      "flags": {flag.name: flag.value for flag in common_flags.own_flags()},
      "versions": common_flags.versions(),
    }
    finish(folder, model, pieces, about, losses, watch)
  wait_for_all(strategy)


def finish(folder, model, pieces, about, losses, watch):
  """Writes the model, then its figures where --data_dir says on what, and what was done."""
  place = folder / MODEL_FOLDER
  model.save(place, pieces, FLAGS.do_lower_case, pretraining_card.card(about, None), FLAGS.weights_dtype)
  figures = None
  if FLAGS.data_dir is not None:
    with watch.timing("evaluating"):
      figures = pretraining_card.figures(place, FLAGS.data_dir, FLAGS.max_seq_length)
    files.write_text(place / "README.md", pretraining_card.card(about, figures))
  report.write_results(folder, {**about, "stsb_test_spearman": figures, "losses": np.asarray(losses)})
  print(f"final loss {about['final_loss']:.4f} nats; the model is in {place}")
  for name, value in (figures or {}).items():
    print(f"STS-B test, Spearman x 100, {name}: {value:.2f}")
  print(f"seconds: {report.spent(watch.seconds)}")


def console():
  """Entry point of the installed command."""
  define_flags()
  common_flags.run(main)


if __name__ == "__main__":
  console()
