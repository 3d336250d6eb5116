"""Distills an encoder into a table of vectors, one per token, with a calibration in it: a folder of model2vec."""

import os
from collections.abc import Sequence

import numpy as np
import tokenizers

from bert_flow_tf.calibration.linear import METHODS
from bert_flow_tf.calibration.names import parse_calibration
from bert_flow_tf.data.pairs import SentencePairs, Texts, sentences_or_pairs
from bert_flow_tf.encoder.checkpoints.declared import Declared
from bert_flow_tf.encoder.checkpoints.files import EncoderFiles
from bert_flow_tf.encoder.checkpoints.loaded_model import LoadedModel
from bert_flow_tf.encoder.kinds import STATIC
from bert_flow_tf.encoder.other.static_folder import check_new_folder, text_tokenizer
from bert_flow_tf.encoder.other.static_model import TOKENIZER_JSON, StaticTokenizer
from bert_flow_tf.encoder.other.token_vectors import StaticModel
from bert_flow_tf.encoder.pooling import WORD_ROWS
from bert_flow_tf.encoder.sentence_encoder import SentenceEncoder
from bert_flow_tf.encoder.settings import STATIC_MAX_SEQ_LENGTH
from bert_flow_tf.encoder.text.token_weights import TokenWeights, make_token_weights
from bert_flow_tf.encoder.text_encoder import TextEncoder
from bert_flow_tf.errors import ConfigError, DataError, EncoderError
from bert_flow_tf.model import SentenceModel
from bert_flow_tf.progress import Progress, either_name
from bert_flow_tf.serving.model2vec import export_model2vec, token_weights_of

IDF = "idf"


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
    token_weights: "uniform", or "idf" or "idf-ALPHA"; None for idf, or for the weights of a static encoder.
    frequency_corpus: file of sentences, a line each, whose tokens are counted for idf; None for packaged English.
    sentence_embedding_type: see `SentenceEncoder.encode`.
    dtype: of the vectors: "float32", "float16", or "int8" with a scale per token.
    normalize: whether embeddings are divided by their length; None for yes if there is a calibration, which is fitted
      before a division, else no.
    batch_size: largest number of tokens that are embedded at once.
    show_progress: see `SentenceEncoder.encode`.

  Returns:
    The model of the written folder: `SentenceModel.from_pretrained(f"static:{folder}")`.

  Raises:
    ConfigError, EncoderError, CalibrationError: an argument is not allowed, or the encoder's tokens cannot be embedded.
    DataError: sentences are missing, or as few as the dimensions.
    ExportError: the folder cannot be written.
  """
  path = check_new_folder(folder, "folder")
  spec = _check_calibration(calibration, sentences, dim)
  static = _static_encoder(encoder, token_weights, frequency_corpus, sentence_embedding_type, batch_size, show_progress)
  model = SentenceModel(static)
  if spec is not None:
    texts = sentences_or_pairs(sentences)
    if isinstance(texts, tuple):
      texts = [*texts[0], *texts[1]]
    _check_count(texts, spec.method, static.dim())
    model.fit(sentences, calibration, show_progress=show_progress)
  if normalize is None:
    normalize = spec is not None
  export_model2vec(model, path, dtype=dtype, normalize=normalize, dim=dim, encoder_name=encoder.name)
  return SentenceModel.from_pretrained(f"{STATIC.prefix}{path}")


def _check_calibration(calibration, sentences, dim):
  """Returns the spec of a calibration that a table can hold; None without one."""
  if calibration is None:
    if sentences is not None:
      raise ConfigError("sentences: only a calibration is fitted on them; give calibration=soft-whitening", "sentences")
    if dim is not None:
      raise ConfigError(f"dim={dim}: keeps the leading directions of a calibration; give one", "dim")
    return None
  spec = parse_calibration(calibration)
  if spec.method not in METHODS or spec.second is not None or spec.characters is not None:
    message = "is not affine, so that no table of vectors can hold it; expected mean, sn, whitening, soft-whitening"
    raise ConfigError(f"calibration={calibration}: {message}", "calibration")
  if spec.k_on_dev:
    message = f"give its k, as in {calibration}-6: there are no labels"
    raise ConfigError(f"calibration={calibration}: {message}", "calibration")
  if sentences is None:
    raise ConfigError(f"calibration={calibration}: needs sentences, on which it is fitted", "sentences")
  return spec


def _check_count(texts: Sequence[str], method: str | None, dim: int) -> None:
  """Raises a DataError if a covariance of texts leaves out some of the dimensions."""
  count = len(set(texts))
  if method is not None and METHODS[method].cross and count <= dim:
    message = f"for the covariance of {dim} dimensions; expected more, at best 10 times as many"
    raise DataError(f"sentences: {count} distinct ones {message}, or calibration=mean", "sentences")


def _static_encoder(encoder, token_weights, frequency_corpus, pooling, batch_size, show_progress):
  """Returns a static encoder, which does not divide by lengths, of the vectors of an encoder's tokens."""
  if not isinstance(encoder, SentenceEncoder):
    kind = "an encoder of whole texts, whose tokens cannot be embedded alone; give a transformer, or static:NAME"
    raise EncoderError(f"model={encoder.name}: {kind}", "model")
  if any(encoder.prompt_of(role) for role in ("query", "document")):
    raise ConfigError("prompt: a table of vectors puts no text before a sentence; give prompt=''", "prompt")
  content, ids = text_tokenizer(encoder.tokenizer, spaced=not encoder.is_static)
  if encoder.is_static:
    for argument, value in (("token_weights", token_weights), ("frequency_corpus", frequency_corpus)):
      if value is not None:
        raise ConfigError(
          f"{argument}: {encoder.name} is static, and is loaded with its weights; leave it out", argument
        )
    rows, weights = encoder.bert.rows[ids, : encoder.truncate_dim], token_weights_of(encoder)
  else:
    weights = np.ones(encoder.tokenizer.vocab_size)
    found = make_token_weights(token_weights or IDF, encoder.tokenizer, frequency_corpus)
    if found is not None:
      weights = found.table
    rows = _embed_tokens(encoder, ids, pooling, batch_size, show_progress)
  # The last row is of the ends of a text.
  table = np.append(weights[ids], 0)
  rows = np.append(rows, np.zeros([1, rows.shape[1]], np.float32), axis=0)
  unknown = ids == encoder.tokenizer.unknown_id
  table[:-1][unknown] = 0
  rows[:-1][unknown] = 0
  backend = tokenizers.Tokenizer.from_str(content)
  tokenizer = StaticTokenizer(encoder.folder / TOKENIZER_JSON, backend, reads_as_model2vec=False)
  length = min(encoder.declared.max_seq_length, STATIC_MAX_SEQ_LENGTH) if encoder.is_static else STATIC_MAX_SEQ_LENGTH
  declared = Declared(WORD_ROWS, length)
  model = LoadedModel(StaticModel(rows, normalizes=False), encoder.name, EncoderFiles(encoder.folder), declared)
  return SentenceEncoder(model, tokenizer, TokenWeights(token_weights or IDF, table))


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
