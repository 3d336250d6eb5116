"""Settings of the encoder: one dataclass goes whole from the flags to loading and to the identity of its embeddings.

A new setting is a field here, and the line of code that reads it. Runners make its flag, `from_pretrained` takes it as
a keyword, and an identity holds it, all from the field's metadata.
"""

import dataclasses
import enum
import os
from collections.abc import Collection, Mapping
from typing import Any

from bert_flow_tf.encoder import kinds
from bert_flow_tf.encoder.pooling import ALLOWED as ALLOWED_POOLINGS
from bert_flow_tf.encoder.transformer.activations import ACTIVATIONS
from bert_flow_tf.encoder.transformer.number_formats import PRECISIONS
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.io.settings import Settings, setting

# Length of encoders whose files declare none.
DEFAULT_MAX_SEQ_LENGTH = 64
# Largest `max_input_chars_per_word`: no text has a longer word.
MAX_CHARS_PER_WORD = 1_000_000
# No position has an embedding in a static encoder; this bounds the memory of a text.
STATIC_MAX_SEQ_LENGTH = 65536
STATIC_TOKEN_WEIGHTS = "idf"

# Parts of the settings: name of the encoder, loading, pooling, and settings that change no embedding.
NAME, LOADING, POOLING, COMPUTING = "name", "loading", "pooling", "computing"
# What computes the hidden states of a transformer.
TENSORFLOW, OPENVINO = ENGINES = ("tensorflow", "openvino")
# Reason why OpenVINO does not train.
NO_GRADIENTS = "it has no gradients, which a training needs"


def needs_tensorflow(name: str, engine: str) -> bool:
  """Returns whether TensorFlow computes the embeddings of an encoder: of a transformer, or of a SavedModel."""
  kind, _ = kinds.split_name(name)
  return kind is kinds.SAVED_MODEL or (kind.has_transformer and engine == TENSORFLOW)


class Role(enum.Enum):
  """Role of a setting in the identity of embeddings, and for a calibration that is loaded with another encoder."""

  DECIDES = "the identity holds it, and another value is another identity"
  DECIDES_PER_ENCODER = "as DECIDES, but the files of another encoder replace the identity's value"
  COVERED = "the identity holds it; a checksum or another entry of the identity decides"
  COVERED_PER_ENCODER = "as COVERED, but the files of another encoder replace the identity's value"
  LOCAL = "a place on this machine, which no identity holds"


DECIDING = (Role.DECIDES, Role.DECIDES_PER_ENCODER)
PER_ENCODER = (Role.DECIDES_PER_ENCODER, Role.COVERED_PER_ENCODER)
SAVED = (*DECIDING, Role.COVERED, Role.COVERED_PER_ENCODER)


@dataclasses.dataclass(frozen=True)
class EncoderSettings(Settings):
  """Encoder, pooling, precision and caches.

  Metadata of a field, besides the keywords of `io.settings.setting`: `part` (above); `keyword`, its name in
  `SentenceEncoder.from_pretrained` if that is not the flag's; `role` (above), `Role.DECIDES` if it is left out;
  `absent`, the value in identities of earlier releases, which do not hold the setting.

  Raises:
    ConfigError: a value is not allowed.
  """

  model: str = setting(
    "mini",
    "Encoder: mini, base, large, large-wwm, their -cased versions, a hub id, or a folder of Hugging Face, KerasHub, "
    "Google (TF1), the Model Garden (TF2) or TensorFlow Hub (bert, roberta, xlm-roberta, camembert, mpnet, distilbert, "
    "electra, albert, modernbert or deberta-v2); "
    f"{kinds.HELP}.",
    part=NAME,
    named=False,  # it has its own part in an experiment's name
  )
  init_checkpoint: str | None = setting(
    None, "Folder, or TF1 checkpoint, of a fine-tuned encoder; used in place of model.", part=NAME, named=False
  )
  model_revision: str | None = setting(
    None,
    "Commit, branch or tag of a model of the hub; default: main, or the commit that a saved calibration names.",
    part=LOADING,
    keyword="revision",
    role=Role.COVERED_PER_ENCODER,  # weights_sha256 covers it
  )
  model_cache_dir: str | None = setting(
    None,
    "Cache folder of the model hub; default: the hub's default folder.",
    part=LOADING,
    keyword="cache_dir",
    role=Role.LOCAL,
    named=False,
  )
  sentence_embedding_type: str | None = setting(
    None,
    f"{ALLOWED_POOLINGS}. Default: what a folder of sentence-transformers declares, else avg-first-last; word-rows for "
    "static:NAME.",
    part=POOLING,
    role=Role.COVERED,  # the identity's `pooling` covers it: several names can mean the same pooling
    named=False,  # it has its own part in an experiment's name
  )
  token_weights: str | None = setting(
    None,
    "Weights of tokens in the mean: uniform, or idf-ALPHA (inverse document frequency to the power ALPHA, 0 for "
    "punctuation, [CLS] and [SEP]; idf = idf-0.75). Default: uniform; idf for static:NAME.",
    part=LOADING,
  )
  frequency_corpus: str | None = setting(
    None,
    "Text file, a sentence per line, whose word pieces are counted for token_weights=idf; default: a packaged table of "
    "English words.",
    part=LOADING,
    role=Role.COVERED,  # token_weights_sha256 covers it
  )
  number_weight: float | None = setting(
    None,
    "Weight of years, and of the digits that continue a number, with token_weights=idf: a share of a rare word's, from "
    "0, as in releases 0.1 and 0.2, to 1. Default: 0.1.",
    part=LOADING,
    role=Role.COVERED,  # token_weights_sha256 covers it
    minimum=0,
    maximum=1,
    flag=False,
    absent=0.0,
  )
  low_dim: int | None = setting(
    -1, "Groups of neighboring dimensions to average, after a calibration; -1 or 0 for none.", part=POOLING, minimum=-1
  )
  max_seq_length: int | None = setting(
    None,
    "Largest number of tokens of a sentence, [CLS] and [SEP] included. Default: what a folder of sentence-transformers "
    "declares, else 64; whole texts for static:NAME.",
    part=POOLING,
    unnamed=(DEFAULT_MAX_SEQ_LENGTH, STATIC_MAX_SEQ_LENGTH),
  )
  precision: str = setting(
    "float32",
    "Number format in which the encoder computes. Its weights and the flow are float32. bfloat16 and float16 are "
    "faster if the GPU or CPU has instructions for them; int8 is the fastest on x86 CPUs, and for them alone.",
    part=LOADING,
    choices=PRECISIONS,
  )
  engine: str = setting(
    TENSORFLOW,
    "Program that computes a transformer: tensorflow, or openvino, which was faster on the CPU that was measured "
    "(docs/benchmarks.md) and has the same embeddings in float32 (pip install 'bert-flow-tf[openvino]').",
    part=LOADING,
    choices=ENGINES,
    role=Role.COVERED,  # the identity's `precision` covers it: it decides rounding alone
    absent=TENSORFLOW,
  )
  hidden_act: str | None = setting(
    None,
    "Activation of the encoder, under transformers' name: gelu is the erf form of GELU, gelu_new the tanh form. "
    "Default: the one in the encoder's files; Google's gelu is gelu_new, as in Google's code.",
    part=LOADING,
    choices=tuple(ACTIVATIONS),
    role=Role.DECIDES_PER_ENCODER,
  )
  max_input_chars_per_word: int | None = setting(
    None,
    "Largest number of characters of a word that is cut into word pieces; a longer word becomes [UNK]. Default: 200 "
    "for Google's TF1 checkpoints, as in Google's code, and 100 for Hugging Face folders, as in transformers.",
    part=LOADING,
    minimum=1,
    maximum=MAX_CHARS_PER_WORD,
    role=Role.COVERED_PER_ENCODER,  # tokenizer_sha256 covers it
  )
  strip_accents: bool | None = setting(
    None,
    "Whether accents are removed before words are cut into word pieces; for a vocabulary that was made the other way. "
    "Default: tokenizer_config.json, else True if text is lower-cased.",
    part=LOADING,
    role=Role.COVERED_PER_ENCODER,  # tokenizer_sha256 covers it
  )
  prompt: str | None = setting(
    None,
    'Text that is put before each sentence, as "query: ". Default: the prompt that a folder of sentence-transformers '
    "declares, else none.",
    part=LOADING,
    role=Role.COVERED_PER_ENCODER,  # tokenizer_sha256 covers it
    absent="",
  )
  # `run_search` and `run_embed` alone have a flag for the first of the next two.
  query_prompt: str | None = setting(
    None,
    'Text that is put before each query of a search, as "query: ". Default: the prompt "query" that a folder of '
    "sentence-transformers declares, else prompt.",
    part=LOADING,
    role=Role.COVERED_PER_ENCODER,  # it changes no embedding of another text
    flag=False,
    named=False,
    absent=None,
  )
  document_prompt: str | None = setting(
    None,
    'Text that is put before each text that is searched, as "passage: ". Default: prompt if it is given, else the '
    'declared prompt "document", "passage" or "corpus".',
    part=LOADING,
    role=Role.COVERED_PER_ENCODER,
    flag=False,
    named=False,
    absent=None,
  )
  truncate_dim: int | None = setting(
    None,
    "Number of dimensions of an embedding that are kept, the first ones, for an encoder that was trained for it; 0 for "
    "all. Default: what a folder of sentence-transformers declares, else all.",
    part=LOADING,
    minimum=0,
    maximum=2**31 - 1,
    role=Role.DECIDES_PER_ENCODER,
    absent=0,
  )
  static_normalize: bool | None = setting(
    None,
    "Whether a static model of others divides an embedding by its length. Default: what its files say. false before a "
    "calibration that is to go into its vectors (bert-flow export --format=model2vec).",
    part=LOADING,
    role=Role.COVERED_PER_ENCODER,  # the identity's `architecture` covers it
    absent=None,
  )
  bert_config_file: str | None = setting(
    None,
    "Configuration of a checkpoint of TensorFlow (Google's, the Model Garden's); default: the one in its folder.",
    part=LOADING,
    role=Role.LOCAL,
    named=False,
  )
  vocab_file: str | None = setting(
    None,
    "Vocabulary of a checkpoint of TensorFlow, or of a KerasHub preset without a tokenizer; default: the one in its "
    "folder.",
    part=LOADING,
    role=Role.LOCAL,
    named=False,
  )
  saved_model_output: str | None = setting(
    None,
    "Output of saved_model:FOLDER with the vectors, or SIGNATURE:OUTPUT; default: the only one.",
    part=LOADING,
    role=Role.COVERED_PER_ENCODER,  # the identity's `architecture` covers it
  )
  predict_batch_size: int = setting(
    64, "Largest number of sentences embedded at once.", part=COMPUTING, named=False, minimum=1
  )
  cached_dir: str | None = setting(None, "Folder where embeddings are kept between runs.", part=COMPUTING, named=False)

  @classmethod
  def of(cls, name: str | os.PathLike | None = None, **arguments: Any) -> "EncoderSettings":
    """Returns the settings of the keywords of `SentenceEncoder.from_pretrained`, and of low_dim and the pooling's."""
    # Python's keywords are shorter than the names of some flags.
    fields = {keyword_of(field): field.name for field in _fields(cls, (LOADING, POOLING))}
    values: dict[str, Any] = {}
    if name is not None:
      values["model"] = name
    for keyword, value in arguments.items():
      if keyword not in fields:
        raise TypeError(f"unexpected keyword {keyword!r}; expected one of {', '.join(fields)}")
      values[fields[keyword]] = value
    return cls(**values)

  @property
  def encoder_name(self) -> str:
    """Name or folder of the encoder: init_checkpoint if it is given, else model."""
    return os.fspath(self.init_checkpoint or self.model)

  @property
  def pooling_name(self) -> str:
    """Name of the pooling for an experiment's name: sentence_embedding_type, or the default of this kind of encoder."""
    kind, _ = kinds.split_name(self.encoder_name)
    return self.sentence_embedding_type or kind.default_pooling

  def arguments(self, *parts: str) -> dict[str, Any]:
    """Returns {keyword: value} of the fields of some parts; low_dim is None for none."""
    values = {keyword_of(field): getattr(self, field.name) for field in _fields(type(self), parts)}
    if values.get("low_dim") in (-1, 0):
      values["low_dim"] = None
    return values

  def loading_arguments(self) -> dict[str, Any]:
    """Returns the settings of the encoder as `SentenceEncoder.from_pretrained` takes them."""
    return self.arguments(LOADING)

  def model_arguments(self) -> dict[str, Any]:
    """Returns sentence_embedding_type, max_seq_length and low_dim as `SentenceModel` takes them."""
    return self.arguments(POOLING)

  def pooling_arguments(self) -> dict[str, Any]:
    """Returns sentence_embedding_type and max_seq_length as the encoder's methods take them."""
    values = self.arguments(POOLING)
    del values["low_dim"]  # comes after a calibration
    return values

  def check_useful(self, reasons: Mapping[str, str]) -> None:
    """Raises ConfigError for a setting that is given to an encoder without a use for it: {keyword: reason}."""
    values, defaults = self.arguments(LOADING), type(self)().arguments(LOADING)
    for keyword, reason in reasons.items():
      if values[keyword] != defaults[keyword]:
        raise ConfigError(f"{keyword}={values[keyword]}: {self.encoder_name} {reason}; leave it out", keyword)

  def saved(self) -> dict[str, Any]:
    """Returns {keyword: value} of the settings that an identity holds."""
    values = self.arguments(LOADING, POOLING)
    return {name: values[name] for name in keywords(SAVED)}


def reject_openvino(engine: str, reason: str) -> None:
  """Raises a ConfigError with a reason if the engine is OpenVINO."""
  if engine == OPENVINO:
    raise ConfigError(f"engine={OPENVINO}: {reason}; use engine={TENSORFLOW}", "engine")


def check_graph_engine(engine: str, precision: str) -> None:
  """Raises a ConfigError if graphs, which TensorFlow computes, would give other embeddings than the engine."""
  if precision != "float32":
    reason = f"TensorFlow computes graphs and Keras layers, with other embeddings in {precision}"
    reject_openvino(engine, f"{reason} (in float32 they are the same)")


def keyword_of(field: dataclasses.Field) -> str:
  """Returns the name of a setting in Python's calls."""
  return field.metadata.get("keyword", field.name)


def keywords(roles: Collection[Role]) -> list[str]:
  """Returns the keywords of the settings of loading and pooling that have one of the roles."""
  fields = _fields(EncoderSettings, (LOADING, POOLING))
  return [keyword_of(field) for field in fields if field.metadata.get("role", Role.DECIDES) in roles]


def absent_values() -> dict[str, Any]:
  """Returns {keyword: value} of the settings that identities of earlier releases do not hold."""
  fields = _fields(EncoderSettings, (LOADING, POOLING))
  return {keyword_of(field): field.metadata["absent"] for field in fields if "absent" in field.metadata}


def _fields(cls: type, parts: Collection[str]) -> list[dataclasses.Field]:
  return [field for field in dataclasses.fields(cls) if field.metadata.get("part") in parts]
