"""The encoder of sentences that a user loads, and its form as a Keras layer."""

import os
from typing import TYPE_CHECKING, Any

from bert_flow_tf.encoder.identity import EncoderIdentity, VectorsIdentity
from bert_flow_tf.encoder.kinds import SAVED_MODEL, WORD_VECTORS, split_name
from bert_flow_tf.encoder.pooling import Pooling
from bert_flow_tf.encoder.settings import LOADING, PER_ENCODER, EncoderSettings, keywords
from bert_flow_tf.encoder.text_encoder import TextEncoder
from bert_flow_tf.encoder.transformer.int8 import largest_of_kernels
from bert_flow_tf.encoder.transformer.precisions import INT8
from bert_flow_tf.encoder.transformer_encoder import TransformerEncoder
from bert_flow_tf.errors import ConfigError, EncoderError

if TYPE_CHECKING:  # imported where it is used: most encoders are no layers, and need no Keras
  from bert_flow_tf.encoder.layer import EncoderLayer


class SentenceEncoder(TransformerEncoder):
  """BERT, or another transformer, that turns sentences into embeddings u, the flow's input.

      encoder = SentenceEncoder.from_pretrained("mini")
      embeddings = encoder.encode(["A man is eating.", "A woman reads."])  # float32 [2, 256]
      encoder = SentenceEncoder(model, tokenizer)  # your TFBertModel, which is not changed
      layer = encoder.as_layer(trainable=True)  # a Keras layer from sentences to embeddings

  Args:
    bert: transformers' TFBertModel, TFRobertaModel, ..., whose variables the encoder computes on; or a `LoadedModel`.
    tokenizer: transformers' BertTokenizer or a fast tokenizer, its folder, or a `SentenceTokenizer`.
    token_weights: weights of tokens in the mean; None for equal ones.
    settings: `EncoderSettings`, of which a TFBertModel takes the precision.

  Attributes (besides `TextEncoder`'s):
    bert: the `Transformer`, from ids to hidden states, or the `WordRows` of a static encoder.
    tokenizer: the `SentenceTokenizer`.
    folder: folder of the tokenizer's files.
    loaded: the `LoadedModel`, with the files that it came from.

  Raises:
    EncoderError: `bert` is no TFBertModel, or has adapters or layers that the user added.
  """

  @classmethod
  def from_pretrained(cls, name: str | os.PathLike, **arguments: Any) -> TextEncoder:
    """Loads an encoder. Within a strategy's scope it gets a copy on each device, and they embed together.

    Args:
      name: `mini` (packaged), base, large, large-wwm, base-cased, large-cased, large-wwm-cased, a local
        Hugging Face folder, Google's TensorFlow 1 folder, or a hub id `org/name`; or "static:" and one of these, for
        its word rows without the transformer, or the folder of a static model, as of model2vec; or "saved_model:" and
        the folder of a SavedModel from text to vectors; or "glove:" and a file of word vectors.
      **arguments: the settings of `EncoderSettings` that decide how it is loaded, with the defaults and the meaning of
        the runners' flags: cache_dir and revision (of the hub), precision, hidden_act, max_input_chars_per_word,
        token_weights, frequency_corpus and number_weight; bert_config_file and vocab_file of a TensorFlow 1 checkpoint,
        if they are in another folder; saved_model_output.

    Raises:
      ConfigError: an argument is not allowed, or frequency_corpus cannot be read.
      EncoderError: it does not exist, is damaged or is not a BERT.
    """
    return load_encoder(EncoderSettings.of(name, **arguments))

  def as_layer(
    self,
    trainable: bool = False,
    sentence_embedding_type: str | Pooling | None = None,
    max_seq_length: int | None = None,
    **kwargs: Any,
  ) -> "EncoderLayer":
    """Returns a Keras layer from sentences or their ids to embeddings, on the weights of this encoder.

    The layer is a layer of the process's Keras, `tf.keras`.

    Args:
      trainable: whether it has the weights as `trainable_variables`, as far as the embedding depends on them, and
        `training=True` means dropout. The encoder returns the embeddings of the weights as they are at each time.
      sentence_embedding_type: see `pooling`.
      max_seq_length: see `encode`; ids are taken as they are.
      **kwargs: of a Keras layer, as `name`.

    Raises:
      ConfigError, EncoderError: an argument is not allowed, or a static encoder is to be trained.
    """
    from bert_flow_tf.encoder.layer import EncoderLayer

    max_seq_length = self.check_max_seq_length(max_seq_length)
    if trainable:
      self.check_has_transformer("be trained")
    # Copies of the weights in half precision would not be trained, and any Keras layer may be; graphs hold them, too.
    self.compute_in(self.precision, frozen=False)
    return EncoderLayer(self, self.pooling(sentence_embedding_type), max_seq_length, trainable, **kwargs)


def load_encoder(settings: EncoderSettings) -> TextEncoder:
  """Loads the encoder of the settings, of the kind that its name says; see `SentenceEncoder.from_pretrained`."""
  if settings.precision == INT8:
    largest_of_kernels()  # an error here comes before the long loading
  kind, _ = split_name(settings.encoder_name)
  if kind is SAVED_MODEL:
    from bert_flow_tf.encoder.other.saved_model import SavedModelEncoder

    return SavedModelEncoder(settings)
  if kind is WORD_VECTORS:
    from bert_flow_tf.encoder.other.word_encoder import WordEncoder

    return WordEncoder(settings)
  return SentenceEncoder.load(settings)


def load_encoder_of(
  identity: EncoderIdentity | VectorsIdentity | None,
  where: str,
  model: str | TextEncoder | None = None,
  cache_dir: str | os.PathLike | None = None,
  **settings: Any,
) -> tuple[TextEncoder, dict[str, Any]]:
  """Loads the encoder that an identity at `where` names, or `model`; `settings` replace the identity's.

  Returns the encoder, and the arguments sentence_embedding_type, max_seq_length and low_dim as far as they are known.
  """
  # First the settings of the fit, then the user's in their place.
  arguments: dict[str, Any] = {}
  name: Any = model
  if isinstance(identity, EncoderIdentity):
    arguments = identity.settings.saved()
    name = model or identity.name
  if name is None:
    message = f"{where}: fitted on {identity or 'an unknown encoder'}; name the encoder, as model=mini"
    if identity is not None:
      message += ", with allow_other_encoder=True"
    raise EncoderError(message, "folder")
  # The files of another model decide some settings; without one, a hub model is loaded at the commit of the identity.
  fit_settings = {}
  if model is not None:
    for keyword in arguments.keys() & keywords(PER_ENCODER):
      fit_settings[keyword] = arguments.pop(keyword)
  if settings.get("token_weights") == "uniform":
    for keyword in ("frequency_corpus", "number_weight"):  # only idf has a use for them
      arguments.pop(keyword, None)
  arguments |= settings
  loading_keywords = EncoderSettings().arguments(LOADING).keys() & arguments.keys()
  loading = {keyword: arguments.pop(keyword) for keyword in loading_keywords}
  if isinstance(model, TextEncoder):
    loaded = model.settings.arguments(LOADING)
    for keyword in loaded.keys() & settings.keys():
      if settings[keyword] != loaded[keyword]:
        message = f"{keyword}={settings[keyword]}: the encoder is already loaded, with {loaded[keyword]}"
        raise ConfigError(message, keyword)
    return model, arguments
  try:
    encoder = SentenceEncoder.from_pretrained(name, cache_dir=cache_dir, **loading)
    # The encoder of the fit, in whatever folder, is loaded with the settings of the fit.
    if model and isinstance(identity, EncoderIdentity) and encoder.weights_checksum == identity.weights_sha256:
      del fit_settings["revision"]
      fit_settings |= loading
      if not fit_settings.items() <= encoder.settings.arguments(LOADING).items():
        encoder = SentenceEncoder.from_pretrained(name, cache_dir=cache_dir, **fit_settings)
    return encoder, arguments
  except EncoderError as error:
    if model is not None:
      raise
    reason = str(error).partition("; expected ")[0]  # the user did not give the name
    message = f"{where}: its encoder cannot be loaded; give its folder, with model=FOLDER ({reason})"
    raise EncoderError(message, "folder") from error
