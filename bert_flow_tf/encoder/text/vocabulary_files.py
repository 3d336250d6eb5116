"""Backends of tokenizers from vocabulary files: vocab.txt, vocab.json with merges.txt, files of SentencePiece."""

# The backends are equal to transformers 4's for these files, including settings that change no ids: the checksum of a
# tokenizer hashes the backend's JSON and is in calibrations of release 0.1.0, and `save_encoder` writes the JSON as
# tokenizer.json, where transformers finds [CLS] and [SEP].

import json
import types
from collections.abc import Mapping, Sequence

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from bert_flow_tf.encoder.checkpoints.files import EncoderFiles
from bert_flow_tf.encoder.text.sentence_piece import symbols_of
from bert_flow_tf.encoder.text.sentence_piece_file import read_sentence_piece
from bert_flow_tf.encoder.transformer.architectures import ARCHITECTURES
from bert_flow_tf.encoder.transformer.families.architecture import Architecture
from bert_flow_tf.errors import EncoderError
from bert_flow_tf.io.files import Json

# Ids may have gaps, but none as large as this.
_MIN_IDS, _IDS_PER_TOKEN = 1 << 16, 8
# Letters that few vocabularies have.
_RARE = "\ua66e \U00013000"
_ALBERT, _MPNET = ARCHITECTURES["albert"], ARCHITECTURES["mpnet"]


def read_vocabulary(name: str, files: EncoderFiles, config: Json) -> tuple[tokenizers.Tokenizer, Json]:
  """Returns the backend of a vocabulary file, with the default settings of BERT's normalizer; and its symbols.

  The symbols are those of `sentence_piece.symbols_of`, none for other files.

  Args:
    name: name of the file.
    files: files of the encoder.
    config: content of tokenizer_config.json. Special tokens and settings of other normalizers are read from it.

  Raises:
    Exception: the file is damaged; `tokenizers` raises nothing narrower.
  """
  path, architecture = files.path(name), files.tokenizer_architecture
  specials = {}
  for key, default in architecture.specials.items():
    specials[key] = default if config.get(key) is None else config[key]
  if name == "vocab.txt":
    pieces = path.read_text(encoding="utf-8").split("\n")
    if specials["unk_token"] not in pieces:
      raise EncoderError(f"no line is {specials['unk_token']}")
    return word_piece_backend(pieces, specials, architecture), {}
  if name == "vocab.json":
    return _byte_pair_backend(path, specials, bool(config.get("add_prefix_space"))), {}
  if files.keras_hub:
    return _own_sentence_piece_backend(path, architecture)
  return _sentence_piece_backend(path, architecture, config)


def check_backend(backend: tokenizers.Tokenizer) -> None:
  """Raises an Exception if a backend cannot read all text, or an id is far above the number of tokens."""
  # Lists of all ids are made, here and by `to_str`.
  ids = backend.get_vocab(with_added_tokens=True)
  token, largest = max(ids.items(), key=lambda item: item[1], default=("", 0))
  if largest >= max(_MIN_IDS, _IDS_PER_TOKEN * len(ids)):
    raise ValueError(f"token {token[:40]!r} has the id {largest}, of {len(ids)} tokens")
  backend.encode(_RARE, add_special_tokens=False)  # fails without a token for what is in no vocabulary


def word_piece_backend(
  pieces: Sequence[str], specials: Mapping[str, str], architecture: Architecture
) -> tokenizers.Tokenizer:
  """Returns the backend of word pieces, the lines of a vocab.txt, with the default settings of BERT's normalizer."""
  # If a line is repeated, its last id is used. The last line of a file also ends with a line break.
  lines = pieces[: len(pieces) - (pieces[-1:] == [""])]
  model = models.WordPiece({piece: row for row, piece in enumerate(lines)}, unk_token=specials["unk_token"])
  backend = tokenizers.Tokenizer(model)
  backend.normalizer = normalizers.BertNormalizer()
  backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
  backend.decoder = decoders.WordPiece()
  cls_token, sep_token = specials["cls_token"], specials["sep_token"]
  between = f"{sep_token}:0"
  if architecture is _MPNET:
    between = f"{sep_token}:0 {sep_token}:0"
    backend.add_tokens(_fairseq_tokens(specials, normalized=True))
  else:
    backend.add_special_tokens(list(specials.values()))
  backend.post_processor = processors.TemplateProcessing(
    single=f"{cls_token}:0 $A:0 {sep_token}:0",
    pair=f"{cls_token}:0 $A:0 {between} $B:1 {sep_token}:1",
    special_tokens=[(token, backend.token_to_id(token)) for token in (cls_token, sep_token)],
  )
  return backend


def _byte_pair_backend(path, specials, add_prefix_space):
  """Returns the backend of a vocab.json and its merges.txt."""
  merges_file = path.with_name("merges.txt")
  if not merges_file.is_file():
    raise EncoderError(f"no {merges_file.name} next to it")
  # As in transformers, a last line without a line break does not count, nor does the first, which is a version;
  # KerasHub leaves that out.
  lines = merges_file.read_text(encoding="utf-8").split("\n")[:-1]
  if path.name == "vocab.json" or "".join(lines[:1]).startswith("#version"):
    lines = lines[1:]
  merges = dict.fromkeys(tuple(line.split()) for line in lines)
  vocabulary = json.loads(path.read_text(encoding="utf-8"))
  model = models.BPE(vocabulary, list(merges), continuing_subword_prefix="", end_of_word_suffix="")
  backend = tokenizers.Tokenizer(model)
  backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space)
  backend.decoder = decoders.ByteLevel()
  backend.add_tokens(_fairseq_tokens(specials, normalized=False))
  sep, cls = [(specials[name], backend.token_to_id(specials[name])) for name in ("sep_token", "cls_token")]
  backend.post_processor = processors.RobertaProcessing(sep, cls, trim_offsets=True, add_prefix_space=add_prefix_space)
  return backend


def _fairseq_tokens(specials, normalized):
  """Returns the added tokens of RoBERTa and MPNet; the mask takes the space before it, and is `normalized` or not."""
  names = [token for name, token in specials.items() if name != "mask_token"]
  # Their tokenizers know the tokens around a sentence also as bos_token and eos_token, which have other settings.
  added = {}
  for name in ("<s>", "</s>", *names):
    added[name] = tokenizers.AddedToken(name, normalized=True, special=True)
  mask = specials["mask_token"]
  added.setdefault(mask, tokenizers.AddedToken(mask, lstrip=True, normalized=normalized, special=True))
  return list(added.values())


def _own_sentence_piece_backend(path, architecture):
  """Returns the backend of a file of SentencePiece that cuts a text as SentencePiece itself does, and its symbols."""
  # transformers has rules of its own, as lower scores of ALBERT's pieces that end in a digit and a comma.
  converter = _converter(path, architecture, {})
  if architecture is _ALBERT:
    converter.vocab = super(type(converter), converter).vocab
  converter.special_tokens = set(architecture.specials.values())
  backend = converter.converted()
  rules = converter.proto.normalizer_spec
  steps: list[normalizers.Normalizer] = []
  if rules.precompiled_charsmap:
    steps.append(normalizers.Precompiled(rules.precompiled_charsmap))
  if rules.remove_extra_whitespaces:
    steps += [normalizers.Strip(), normalizers.Replace(tokenizers.Regex(" {2,}"), " ")]
  backend.normalizer = normalizers.Sequence(steps)
  scheme = "always" if rules.add_dummy_prefix else "never"
  backend.pre_tokenizer = pre_tokenizers.Metaspace(replacement="\u2581", prepend_scheme=scheme)
  return backend, _symbols(converter)


def _sentence_piece_backend(path, architecture, config):
  """Returns the backend of a file of SentencePiece as transformers makes it, and its symbols."""
  converter = _converter(path, architecture, config)
  return converter.converted(), _symbols(converter)


def _symbols(converter):
  return symbols_of(converter.proto, [piece for piece, _ in converter.vocab(converter.proto)])


def _converter(path, architecture, config):
  """Returns transformers' converter of a file of SentencePiece."""
  from transformers.convert_slow_tokenizer import SLOW_TO_FAST_CONVERTERS

  ids: dict[str, int] = {}
  lower = config.get("do_lower_case")
  slow = types.SimpleNamespace(
    vocab_file=str(path),
    do_lower_case=lower is True or (lower is None and architecture is _ALBERT),
    keep_accents=bool(config.get("keep_accents")),
    split_by_punct=bool(config.get("split_by_punct")),
    convert_tokens_to_ids=lambda token: ids.get(token, 0),
  )
  # Its constructor alone needs protobuf, and with SentencePiece's package a version of it that TensorFlow may not have.
  converter = object.__new__(SLOW_TO_FAST_CONVERTERS[f"{architecture.name}Tokenizer"])
  converter.original_tokenizer, converter.proto = slow, read_sentence_piece(path)
  # Only the template of two sentences reads the ids of special tokens, which the vocabulary has by now.
  pieces = [piece for piece, _ in converter.vocab(converter.proto)]
  ids |= {piece: row for row, piece in enumerate(pieces)}
  return converter
