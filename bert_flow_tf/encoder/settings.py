"""Settings of the encoder: which one, and how it makes an embedding."""

import dataclasses
from typing import Any

from bert_flow_tf.errors import ConfigError
from bert_flow_tf.io.experiment import STATIC
from bert_flow_tf.io.settings import Settings, setting

# Of encoders whose files declare none.
DEFAULT_POOLING = "avg-first-last"
DEFAULT_MAX_SEQ_LENGTH = 64
# Of static encoders.
WORD_ROWS = "word-rows"


@dataclasses.dataclass(frozen=True)
class EmbeddingSettings(Settings):
  """Encoder, pooling, precision and caches.

  Raises:
    ConfigError: low_dim is below -1.
  """

  model: str = setting(
    "mini",
    "Encoder: mini, base, large, large-wwm, their -cased versions, a hub id, or a Hugging Face or Google (TF1) folder; "
    "static:NAME for the word embeddings of one of these without its transformer, which is much faster.",
    named=False,  # it has its own part in an experiment's name
  )
  init_checkpoint: str | None = setting(
    None, "Folder, or TF1 checkpoint, of a fine-tuned encoder; used in place of model.", named=False
  )
  model_revision: str | None = setting(
    None, "Commit, branch or tag of a model of the hub; default: main, or the commit that a saved calibration names."
  )
  model_cache_dir: str | None = setting(None, "Cache folder of the model hub; default: the hub's own.", named=False)
  sentence_embedding_type: str | None = setting(
    None,
    "avg, cls, cls-token, avg-first-last (= avg-last-2), avg-last-N (= avg-last-concat-N), avg-last-last-N, avg-top-N, "
    "concat-top-N, word-rows (the word embeddings alone), or mix-S (word-rows with share S, and avg; mix = mix-0.6). "
    "Default: what a folder of sentence-transformers declares, else avg-first-last; word-rows for static:NAME.",
    named=False,  # it has its own part in an experiment's name
  )
  token_weights: str | None = setting(
    None,
    "Weights of tokens in the mean: uniform, or idf-ALPHA (inverse document frequency to the power ALPHA, 0 for "
    "punctuation, [CLS] and [SEP]; idf = idf-0.75). Default: uniform; idf for static:NAME.",
  )
  frequency_corpus: str | None = setting(
    None,
    "Text file, a sentence per line, whose word pieces are counted for token_weights=idf; default: a packaged table of "
    "English words.",
  )
  low_dim: int = setting(-1, "Groups of neighboring dimensions to average, after a calibration; -1 or 0 for none.")
  max_seq_length: int | None = setting(
    None,
    "Largest number of tokens of a sentence, [CLS] and [SEP] included. Default: what a folder of sentence-transformers "
    "declares, else 64.",
    unnamed=DEFAULT_MAX_SEQ_LENGTH,
  )
  precision: str = setting(
    "float32",
    "Number format in which the encoder computes. Its weights and the flow are float32. bfloat16 and float16 are "
    "faster if the GPU or CPU has instructions for them.",
    choices=("float32", "bfloat16", "float16"),
  )
  hidden_act: str | None = setting(
    None,
    "Activation of the encoder, under transformers' name: gelu is the erf form of GELU, gelu_new the tanh form. "
    "Default: the one in the encoder's files; Google's gelu is gelu_new, as in Google's code.",
    choices=("gelu", "gelu_new", "relu"),
  )
  max_input_chars_per_word: int | None = setting(
    None,
    "Largest number of characters of a word that is cut into word pieces; a longer word becomes [UNK]. Default: 200 "
    "for Google's TF1 checkpoints, as in Google's code, and 100 for Hugging Face folders, as in transformers.",
    minimum=1,
  )
  predict_batch_size: int = setting(64, "Largest number of sentences embedded at once.", named=False, minimum=1)
  cached_dir: str | None = setting(None, "Folder where embeddings are kept between runs.", named=False)

  def __post_init__(self) -> None:
    super().__post_init__()
    if self.low_dim < -1:
      raise ConfigError(f"low_dim={self.low_dim}: expected a positive number, or -1 for none", argument="low_dim")

  @property
  def encoder_name(self) -> str:
    """Name or folder of the encoder: init_checkpoint if it is given, else model."""
    return self.init_checkpoint or self.model

  @property
  def pooling_name(self) -> str:
    """Name of the pooling for an experiment's name: sentence_embedding_type, or the default of such encoders."""
    return self.sentence_embedding_type or (WORD_ROWS if self.encoder_name.startswith(STATIC) else DEFAULT_POOLING)

  def loading_arguments(self) -> dict[str, Any]:
    """Returns the settings of the encoder as `SentenceEncoder.from_pretrained` takes them."""
    names = ("precision", "hidden_act", "max_input_chars_per_word", "token_weights", "frequency_corpus")
    places = {"cache_dir": self.model_cache_dir, "revision": self.model_revision}
    return {**places, **{name: getattr(self, name) for name in names}}

  def pooling_arguments(self) -> dict[str, Any]:
    """Returns sentence_embedding_type and max_seq_length as the encoder's methods take them."""
    return {"sentence_embedding_type": self.sentence_embedding_type, "max_seq_length": self.max_seq_length}

  def model_arguments(self) -> dict[str, Any]:
    """Returns sentence_embedding_type, max_seq_length and low_dim as `SentenceModel` takes them."""
    return {**self.pooling_arguments(), "low_dim": self.low_dim if self.low_dim > 0 else None}
