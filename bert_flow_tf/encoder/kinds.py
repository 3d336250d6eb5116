"""Kinds of encoders, known from the first part of their names."""

import dataclasses
import os
import pathlib

from bert_flow_tf.encoder.pooling import DEFAULT_POOLING, OUTPUT, WORD_ROWS

# Names of an encoder's folder within an experiment's folder.
_OWN_FOLDERS = ("encoder", "model")


@dataclasses.dataclass(frozen=True)
class Kind:
  """A kind of encoder.

  Attributes:
    prefix: first part of its encoders' names, "static:"; "" for a transformer.
    rest: the other part, for messages: "FOLDER".
    help: description for the help text of a flag.
    default_pooling: its pooling if the encoder's files declare none.
    encoder_class: full name of the class of its encoders, which is imported when one is loaded.
    has_transformer: whether its encoders have a transformer.
    has_only_vectors: whether it gives vectors of whole texts, and has no files that this package knows.
  """

  prefix: str
  rest: str
  help: str
  default_pooling: str
  encoder_class: str
  has_transformer: bool = False
  has_only_vectors: bool = False

  @property
  def form(self) -> str:
    """Form of its names: "saved_model:FOLDER"."""
    return f"{self.prefix}{self.rest}"


_SENTENCE_ENCODER = "bert_flow_tf.encoder.sentence_encoder.SentenceEncoder"
TRANSFORMER = Kind("", "NAME", "a transformer", DEFAULT_POOLING, _SENTENCE_ENCODER, has_transformer=True)
STATIC = Kind(
  "static:",
  "NAME",
  "for the word embeddings of one of these without its transformer, which is much faster, or for a static model of "
  "model2vec or sentence-transformers",
  WORD_ROWS,
  _SENTENCE_ENCODER,
)
SAVED_MODEL = Kind(
  "saved_model:",
  "FOLDER",
  "for a TensorFlow SavedModel from text to vectors",
  OUTPUT,
  "bert_flow_tf.encoder.other.saved_model.SavedModelEncoder",
  has_only_vectors=True,
)
WORD_VECTORS = Kind(
  "glove:",
  "FILE",
  "for averages of word vectors",
  "avg",
  "bert_flow_tf.encoder.other.word_encoder.WordEncoder",
  has_only_vectors=True,
)
# The kinds whose names have a prefix.
PREFIXED = (STATIC, SAVED_MODEL, WORD_VECTORS)
HELP = "; ".join(f"{kind.form} {kind.help}" for kind in PREFIXED)


def split_name(name: str) -> tuple[Kind, str]:
  """Returns the kind of an encoder's name, and the name without the kind's prefix."""
  for kind in PREFIXED:
    if name.startswith(kind.prefix):
      return kind, name.removeprefix(kind.prefix)
  return TRANSFORMER, name


def without_transformer(name: str) -> str:
  """Returns the name of an encoder's word embeddings alone: "static:NAME"."""
  return f"{STATIC.prefix}{name}"


def encoder_label(name: str) -> str:
  """Returns an encoder's name in tables and folders' names: the last part of its path; of `encoder`, `model` two."""
  kind, rest = split_name(name)
  if kind is STATIC:
    return f"static-{encoder_label(rest)}"  # TensorBoard gives a colon another meaning
  path = pathlib.Path(rest)
  folder = path.expanduser()
  if folder.is_dir():
    path = folder.absolute()
  if (path.name in _OWN_FOLDERS or path.name.isdigit()) and path.parent.name:  # a number is a version's
    return f"{path.parent.name}-{path.name}"
  return path.name


def public_name(name: str) -> str:
  """Returns an encoder's name without the path of a folder or file on this machine, which others have no use for."""
  path = os.path.expanduser(split_name(name)[1])
  if os.path.isabs(path) or os.path.exists(path) or os.path.isfile(f"{path}.index"):
    return encoder_label(name)
  return name
