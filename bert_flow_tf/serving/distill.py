"""Distills an encoder into a table of vectors, one per token, with a calibration in it: a folder of model2vec."""

import dataclasses
import json
import os

import numpy as np
import tokenizers

from bert_flow_tf.calibration.linear import METHODS
from bert_flow_tf.calibration.names import CalibrationSpec, check_affine, parse_calibration
from bert_flow_tf.data.pairs import SentencePairs, Texts, sentences_or_pairs
from bert_flow_tf.encoder.checkpoints.declared import Declared
from bert_flow_tf.encoder.checkpoints.files import EncoderFiles
from bert_flow_tf.encoder.checkpoints.loaded_model import LoadedModel
from bert_flow_tf.encoder.kinds import STATIC
from bert_flow_tf.encoder.other.static_folder import text_tokenizer
from bert_flow_tf.encoder.other.static_model import TOKENIZER_JSON, StaticTokenizer
from bert_flow_tf.encoder.other.token_vectors import StaticModel
from bert_flow_tf.encoder.pooling import WORD_ROWS
from bert_flow_tf.encoder.sentence_encoder import SentenceEncoder
from bert_flow_tf.encoder.settings import STATIC_MAX_SEQ_LENGTH
from bert_flow_tf.encoder.text.token_weights import IDF, TokenWeights, make_token_weights
from bert_flow_tf.encoder.text_encoder import TextEncoder, check_loaded
from bert_flow_tf.errors import ConfigError, DataError, EncoderError
from bert_flow_tf.io.checks import check_counts, is_integer, shown
from bert_flow_tf.io.files import check_new_folder, owned
from bert_flow_tf.model import SentenceModel
from bert_flow_tf.progress import Progress, counted, either_name
from bert_flow_tf.serving.model2vec import (
  check_no_prompt,
  divides_by_lengths,
  fold,
  token_weights_of,
  write_table,
)
from bert_flow_tf.serving.settings import MODEL2VEC, ExportSettings

_ORDERED = [name for name, method in METHODS.items() if method.has_order]
_SHRUNK = "tempered-whitening"


@either_name
def distill(
  encoder: TextEncoder,
  folder: str | os.PathLike,
  *,
  sentences: Texts | SentencePairs | tuple[Texts, Texts] | None = None,
  calibration: str | None = None,
  dim: int | None = None,
  token_weights: str | None = None,
  frequency_corpus: str | os.PathLike | None = None,
  sentence_embedding_type: str | None = None,
  dtype: str = "float32",
  normalize: bool | None = None,
  batch_size: int = 64,
  show_progress: bool | None = None,
) -> SentenceModel:
  """Writes a table of vectors, one for each token of an encoder, as a folder of model2vec.

  The vector of a token is the encoder's embedding of [CLS] token [SEP], and an embedding of the table is the weighted
  mean of the vectors of a text's tokens, as of model2vec (Tulkens and van Dongen 2024). A calibration is fitted on such
  means, without labels, and goes into the vectors.

      encoder = SentenceEncoder.from_pretrained("sentence-transformers/all-MiniLM-L6-v2")
      static = distill(encoder, "static", sentences=corpus, calibration="soft-whitening")
      embeddings = static.encode(["A man is eating."])  # as model2vec's StaticModel.from_pretrained("static").encode

  Args:
    encoder: a transformer; or a static encoder, whose vectors are taken as they are, before any division by a length.
    folder: a new or empty folder.
    sentences: what the calibration is fitted on, as `SentenceModel.fit` takes it.
    calibration: mean, sn, whitening, whitening-K, soft-whitening, ... (`calibration.linear.METHODS`); None for none.
    dim: number of leading directions of a whitening, soft-whitening or tempered-whitening; None for all.
    token_weights: "uniform", or "idf" or "idf-ALPHA"; None for the weights that the encoder was loaded with, else idf.
    frequency_corpus: file of sentences, a line each, whose tokens are counted for idf; None for packaged English.
    sentence_embedding_type: see `SentenceEncoder.encode`.
    dtype: of the vectors: "float32", "float16", or "int8" with a scale per token.
    normalize: whether embeddings are divided by their length; None for yes if there is a calibration, which is fitted
      before a division, else as a static encoder does it.
    batch_size: largest number of tokens that are embedded at once.
    show_progress: see `SentenceEncoder.encode`.

  Returns:
    The model of the written folder: `SentenceModel.from_pretrained(f"static:{folder}")`.

  Raises:
    ConfigError, EncoderError, CalibrationError: an argument is not allowed, or the encoder's tokens cannot be embedded.
    DataError: sentences are missing, or as few as the dimensions.
    ExportError: the folder cannot be written.
  """
  check_loaded(encoder)
  path = check_new_folder(folder, "folder")
  if not isinstance(encoder, SentenceEncoder):
    message = f"it embeds whole texts, not tokens; give a transformer, or {STATIC.form}"
    raise EncoderError(f"model={encoder.name}: {message}", "model")
  check_no_prompt(encoder)
  ExportSettings(format=MODEL2VEC, dtype=dtype)
  check_counts(batch_size=batch_size)
  width = encoder.dim(sentence_embedding_type)
  texts = None
  if sentences is not None:
    texts = sentences_or_pairs(sentences)  # once, as it may be a generator
  spec = _check_calibration(calibration, texts, dim, width)
  if normalize is None:
    normalize = spec is not None or divides_by_lengths(encoder)
  with owned(path, "folder"):
    weights = _weights_of_tokens(encoder, token_weights, frequency_corpus)
    static = _static_encoder(encoder, weights, sentence_embedding_type, batch_size, show_progress)
    model = SentenceModel(static)
    if texts is not None:
      model.fit(texts, spec.name, show_progress=show_progress)
    table = fold(model)._replace(normalizes=normalize)
    if dim is not None:
      # A covariance may have fewer directions than the embedding.
      check_leading(spec, dim, table.rows.shape[1])
      table = table._replace(rows=table.rows[:, :dim])
    write_table(path, table, dtype, model, "folder")
  return SentenceModel.from_pretrained(f"{STATIC.prefix}{path}")


def _check_calibration(calibration, texts, dim, width):
  """Returns the spec of a calibration that a table can hold, of embeddings [n, width]; None without a calibration.

  `texts`: those of the fit, a list or a tuple of two; None for none.
  """
  if calibration is None:
    for argument, value in (("sentences", texts), ("dim", dim)):
      if value is not None:
        example = "soft-whitening, fitted on sentences"
        raise ConfigError(f"{argument}: has no use without a calibration; give one, as {example}", argument)
    return None
  spec = parse_calibration(calibration)
  check_affine(spec)
  if spec.k_on_dev:
    message = f"there are no labels to choose its k; give it, as in {spec.name}-6"
    raise ConfigError(f"calibration={calibration}: {message}", "calibration")
  if texts is None:
    raise ConfigError(f"calibration={calibration}: needs sentences, on which it is fitted", "sentences")
  if dim is not None:
    check_leading(spec, dim, spec.output_dim_of(width))
  if isinstance(texts, tuple):
    texts = [*texts[0], *texts[1]]
  count = len({text for text in texts if text.strip()})
  if METHODS[spec.method].cross and spec.method != _SHRUNK and count <= width:
    found = f"has {counted(count, 'different sentence')}, too few for the covariance of {width} dimensions"
    expected = f"expected at least {width + 1}, better {10 * width}, or calibration={_SHRUNK}, which takes fewer"
    raise DataError(f"sentences: {found}; {expected}", "sentences")
  return spec


def check_leading(spec: CalibrationSpec, dim: int, width: int) -> None:
  """Raises a ConfigError unless a calibration to `width` dimensions has `dim` leading ones."""
  if spec.method not in _ORDERED:
    message = f"keeps the leading directions of {', '.join(_ORDERED)}, which {spec.name} does not have"
    raise ConfigError(f"dim={dim}: {message}; leave it out, or give one of these", "dim")
  if not is_integer(dim) or not 1 <= dim <= width:
    raise ConfigError(f"dim={shown(dim)}: expected 1 to {width}, the directions of {spec.name}", "dim")


def _weights_of_tokens(encoder, token_weights, frequency_corpus):
  """Returns the weights of an encoder's tokens: those that it was loaded with, else of a `token_weights`."""
  given = {"token_weights": token_weights, "frequency_corpus": frequency_corpus}
  if encoder.is_static or encoder.token_weights is not None:
    for argument, value in given.items():
      if value is not None:
        message = f"{encoder.name} has the weights of tokens that it was loaded with; leave it out"
        raise ConfigError(f"{argument}={value}: {message}", argument)
    table = token_weights_of(encoder)
    return TokenWeights(encoder.token_weights.name, table)
  name = token_weights or IDF
  weights = make_token_weights(name, encoder.tokenizer, frequency_corpus)
  return weights or TokenWeights(name, np.ones(encoder.tokenizer.vocab_size))


def _static_encoder(encoder, weights, pooling, batch_size, show_progress):
  """Returns a static encoder, which does not divide by lengths, of the vectors of an encoder's tokens."""
  content, ids = text_tokenizer(encoder.tokenizer, spaced=not encoder.is_static)
  max_seq_length = STATIC_MAX_SEQ_LENGTH
  if encoder.is_static:
    vectors = encoder.bert.rows[ids, : encoder.truncate_dim]
    max_seq_length = encoder.check_max_seq_length(None)
  else:
    vectors = _embed_tokens(encoder, ids, pooling, batch_size, show_progress)
  # The last row is of the ends of a text.
  rows = np.zeros([len(ids) + 1, vectors.shape[1]], np.float32)
  table = np.zeros(len(ids) + 1, np.float32)
  is_known = ids != encoder.tokenizer.unknown_id
  rows[:-1][is_known] = vectors[is_known]
  table[:-1][is_known] = weights.table[ids[is_known]]
  backend = tokenizers.Tokenizer.from_str(json.dumps(content))
  tokenizer = StaticTokenizer(encoder.folder / TOKENIZER_JSON, backend, reads_as_model2vec=False)
  model = LoadedModel(StaticModel(rows, normalizes=False), encoder.name, EncoderFiles(encoder.folder))
  model = dataclasses.replace(model, declared=Declared(WORD_ROWS, max_seq_length))
  return SentenceEncoder(model, tokenizer, TokenWeights(weights.name, table))


def _embed_tokens(encoder, ids, pooling, batch_size, show_progress):
  """Returns the embeddings of [CLS] token [SEP] of tokens with ids, float32 [n, dim]."""
  first, last = encoder.tokenizer.special_ids[:2]
  texts = [np.array([first, row, last], np.int32) for row in ids]
  with Progress(len(texts), show=show_progress is not False, work="distilling", unit="token") as progress:
    rows = encoder.embed_ids(texts, pooling, batch_size, progress)
  bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
  if bad.size:
    token = encoder.tokenizer.vocab[ids[bad[0]]]
    raise EncoderError(f"model={encoder.name}: the embedding of the token {token!r} is not finite", "model")
  return rows
