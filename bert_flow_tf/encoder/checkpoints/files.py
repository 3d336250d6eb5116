"""Folder of an encoder's files: each small file is read once, and checked where it enters; what the files declare."""

import dataclasses
import functools
import os
import pathlib
from collections.abc import Mapping
from typing import Any

from absl import logging

from bert_flow_tf.encoder.pooling import DECLARED_NAMES
from bert_flow_tf.encoder.settings import DEFAULT_MAX_SEQ_LENGTH, DEFAULT_POOLING
from bert_flow_tf.encoder.transformer import architectures
from bert_flow_tf.encoder.transformer.architectures import Architecture
from bert_flow_tf.encoder.transformer.config import check_config
from bert_flow_tf.errors import EncoderError, one_line
from bert_flow_tf.io import checksums, files
from bert_flow_tf.io.checks import is_integer

CONFIG, GOOGLE_CONFIG = "config.json", "bert_config.json"
# Files of sentence-transformers: the modules, what the whole model declares, and what its Transformer declares, of
# which the first that is not empty counts.
_MODULES, _MODEL = "modules.json", "config_sentence_transformers.json"
_KINDS = ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
_TRANSFORMERS = tuple(f"sentence_{kind}_config.json" for kind in _KINDS)
SENTENCE_TRANSFORMERS = (_MODULES, _MODEL, *_TRANSFORMERS, "*_Pooling/config.json")
# Ending of a file of each checkpoint of TensorFlow 1.
TF1_INDEX = ".index"
TOKENIZER_CONFIG = "tokenizer_config.json"
# Files of a tokenizer: any of these, in this order.
VOCABULARIES = ("tokenizer.json", "vocab.txt", "vocab.json", "sentencepiece.bpe.model", "spiece.model", "spm.model")
TOKENIZER_FILES = (*VOCABULARIES, "merges.txt", TOKENIZER_CONFIG, "special_tokens_map.json", "added_tokens.json")
TOKENIZERS = ("BertTokenizer", "BertTokenizerFast")
# The first of these has the weights.
WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "tf_model.h5", "tf_model.h5.index.json")
_PYTORCH = ("pytorch_model.bin", "pytorch_model.bin.index.json")
# Key of config.json that transformers writes and this program does not. transformers also keeps keys that it does not
# know, so the checksums of a folder that it has trained and saved again are the checksums of the folder before.
SAVED_BY_TRANSFORMERS = "transformers_version"
# Tokens of a text without a declared limit; an encoder has fewer positions.
_UNLIMITED = 2**31 - 1
_LFS_POINTER = b"version https://git-lfs"


class EncoderFiles:
  """Files of an encoder in a folder.

  Attributes:
    folder: the folder.
  """

  def __init__(self, folder: pathlib.Path) -> None:
    self.folder = folder
    self._contents: dict[str, Any] = {}

  def has(self, name: str) -> bool:
    """Returns whether the folder has a file."""
    return (self.folder / name).is_file()

  def json(self, name: str) -> dict[str, Any]:
    """Returns the content of a JSON file, {} if it is missing."""
    if name not in self._contents:
      content = {}
      if (self.folder / name).exists():
        content = read_json(self.folder / name)
      self._contents[name] = content
    return self._contents[name]

  @functools.cached_property
  def config(self) -> dict[str, Any]:
    """The checked content of config.json, without checksums, which are compared with the files."""
    if not self.has(CONFIG):
      raise EncoderError(f"{self.folder}: no config.json; expected Hugging Face's or Google's folder of a BERT")
    path = self.folder / CONFIG
    values = without_checksums(path, self.json(CONFIG))
    check_config(path, values)
    return values

  @functools.cached_property
  def architecture(self) -> Architecture:
    """The architecture of config.json."""
    return architectures.check_model_type(self.folder / CONFIG, self.json(CONFIG).get("model_type"))

  @functools.cached_property
  def reads_vocab_txt(self) -> bool:
    """True if the vocabulary is a vocab.txt that is read as Google's; EncoderError for no vocabulary."""
    if not self.has(CONFIG):
      return True
    for name in (CONFIG, TOKENIZER_CONFIG):
      if self.json(name).get("tokenizer_class") == "BertJapaneseTokenizer":
        raise EncoderError(f"{self.folder / name}: tokenizer_class is BertJapaneseTokenizer, which is not supported")
    available = [name for name in VOCABULARIES if self.has(name)]
    if self.json(CONFIG).get("model_type") == architectures.BERT:
      if "vocab.txt" not in available:
        return not available
      kind = self.json(TOKENIZER_CONFIG).get("tokenizer_class")
      return kind is None or kind in TOKENIZERS or available[0] == "vocab.txt"
    if not available:
      expected = "tokenizer.json, vocab.txt, vocab.json with merges.txt, sentencepiece.bpe.model or spiece.model"
      raise EncoderError(f"{self.folder}: no tokenizer; expected {expected}, which was saved with the model")
    return False

  def find_weights(self) -> list[pathlib.Path]:
    """Returns the paths of the weights: of the only file, or of an index and the files that it lists."""
    for name in WEIGHTS:
      if self.has(name):
        paths = self._paths_of(name)
        missing = [path for path in paths if not path.is_file()]
        if missing:
          raise EncoderError(
            f"{self.folder}: {len(missing)} files that {name} lists are missing, first {missing[0].name}"
          )
        return paths
    hint = ""
    for name in _PYTORCH:
      if self.has(name):
        convert = 'AutoModel.from_pretrained("FOLDER").save_pretrained("FOLDER")'
        hint = f"; got only {name}, which needs PyTorch; convert it: {convert}"
    raise EncoderError(f"{self.folder}: no weights; expected model.safetensors or tf_model.h5{hint}")

  def _paths_of(self, name):
    """Returns the path of a weights file, or the paths of an index and of the files that it lists."""
    if not name.endswith(".index.json"):
      return [self.folder / name]
    path = self.folder / name
    try:
      names = sorted(set(self.json(name)["weight_map"].values()))
      paths = [self.folder / pathlib.PurePath(listed).name for listed in names]
    except (KeyError, TypeError, AttributeError) as error:
      raise EncoderError(f"{path}: expected JSON with a weight_map; download or save it again") from error
    if [listed.name for listed in paths] != names:
      raise EncoderError(f"{path}: its weight_map names a file of another folder; download it again")
    return [path, *paths]


def read_json(path: pathlib.Path, kind: type = dict) -> Any:
  """Returns the content of a JSON file of an encoder, a dict or a list."""
  try:
    values = files.read_json(path)
  except (OSError, ValueError) as error:  # UnicodeDecodeError and JSONDecodeError are ValueErrors
    raise EncoderError(f"{path}: not readable as JSON ({error}); download or save it again") from error
  if not isinstance(values, kind):
    raise EncoderError(f"{path}: expected JSON with a {kind.__name__}; download or save it again")
  return values


def without_checksums(path: pathlib.Path, values: dict[str, Any]) -> dict[str, Any]:
  """Returns the values of a configuration without checksums, after a comparison of it and its folder's files."""
  # Checksums are there if this program was the last to write it.
  values = dict(values)
  if SAVED_BY_TRANSFORMERS in values:
    values.pop(checksums.KEY, None)
  try:
    return checksums.opened(values, path.parent)
  except (OSError, ValueError) as error:
    raise EncoderError(f"{path}: damaged ({error}); {checksums.KEEP_CHANGES}") from error


def check_vocabulary(path: pathlib.Path, vocab_size: int, least_share: float = 0.9) -> None:
  """Checks that a vocab.txt has at most `vocab_size` lines, and half as many; warns of less than `least_share`."""
  if not path.is_file():
    raise EncoderError(f"{path.parent}: no {path.name}; expected BERT's word pieces in this file, a line for each")
  with path.open("rb") as lines:
    count = sum(1 for _ in lines)
  counted = f"{path}: {count} word pieces for {vocab_size} word embeddings"
  if not vocab_size <= 2 * count <= 2 * vocab_size:
    raise EncoderError(f"{counted}; use the vocabulary of this model, or download it again")
  if count < least_share * vocab_size:
    logging.warning("%s: is it the whole vocabulary of this model?", counted)


def reason(path: pathlib.Path, error: BaseException) -> str:
  """Returns the reason why a file cannot be read, in one line."""
  with path.open("rb") as file:
    if file.read(40).startswith(_LFS_POINTER):
      return "the file is a Git LFS pointer; run git lfs pull"
  return f"{type(error).__name__}: {one_line(error)}"


def is_tf1_folder(folder: pathlib.Path) -> bool:
  """Returns whether a folder has bert_config.json and no config.json, or only a TensorFlow 1 checkpoint."""
  if (folder / GOOGLE_CONFIG).is_file() and not (folder / CONFIG).is_file():
    return True
  has_other_weights = any((folder / name).is_file() for name in WEIGHTS)
  return bool(tf1_prefixes_in(folder)) and not has_other_weights


def is_tf1_prefix(path: str | os.PathLike) -> bool:
  """Returns whether a path is a checkpoint's prefix: its files are PATH.index and PATH.data-..."""
  path = os.fspath(path)
  return bool(os.path.basename(path)) and os.path.isfile(path + TF1_INDEX)


def tf1_prefixes_in(folder: str | os.PathLike) -> list[str]:
  """Returns the sorted names of the checkpoints in a folder."""
  return sorted(
    path.name.removesuffix(TF1_INDEX) for path in pathlib.Path(folder).glob("?*" + TF1_INDEX) if path.is_file()
  )


@dataclasses.dataclass(frozen=True)
class Declared:
  """What an encoder's files or its kind declare; without a declaration the defaults of this package."""

  sentence_embedding_type: str = DEFAULT_POOLING
  max_seq_length: int = DEFAULT_MAX_SEQ_LENGTH
  # The file that declares them, and the part of the declaration that is not supported; "" for none.
  source: str = ""
  unsupported: str = ""
  # The file, if any, that declares that text is lower-cased before it reaches the tokenizer.
  lower_case_by: str = ""
  # Texts to put before a sentence, by their names; the one that is used by default, "" for none; and whether the
  # pooling reads its tokens.
  prompts: Mapping[str, str] = dataclasses.field(default_factory=dict)
  prompt: str = ""
  pools_prompt: bool = True
  # Number of dimensions that are kept; None for all.
  truncate_dim: int | None = None
  # No file declares them, but a static encoder has others.
  token_weights: str = "uniform"

  def pooling(self) -> str:
    """Returns the declared pooling; EncoderError if it is not supported."""
    if self.unsupported:
      raise EncoderError(
        f"sentence_embedding_type: {self.source} declares {self.unsupported}, which is not supported; give another",
        argument="sentence_embedding_type",
      )
    return self.sentence_embedding_type

  def check_prompt(self, prompt: str) -> None:
    """Raises an EncoderError for a prompt whose tokens are not to be pooled."""
    if prompt and not self.pools_prompt:
      raise EncoderError(
        f"prompt={prompt!r}: {self.source} declares include_prompt false, a pooling without the tokens of the prompt, "
        'which is not supported; give prompt=""',
        argument="prompt",
      )

  def check_letter_case(self, lower: bool) -> None:
    """Raises an EncoderError if text is to be lower-cased for a tokenizer that keeps capital letters."""
    if self.lower_case_by and not lower:
      raise EncoderError(
        f"{self.lower_case_by}: do_lower_case is true, and the tokenizer keeps capital letters; set it to false there "
        "and lower-case the sentences yourself"
      )

  def log(self, sentence_embedding_type: str, max_seq_length: int) -> None:
    """Logs what is used of the declaration, and what is not."""
    if self.source:
      logging.info(
        "%s: sentence_embedding_type %s (%s is declared), max_seq_length %s (%s is declared)",
        self.source,
        sentence_embedding_type,
        self.unsupported or self.sentence_embedding_type,
        max_seq_length,
        self.max_seq_length,
      )
    if self.truncate_dim is not None:
      logging.info("%s: truncate_dim %s is declared", self.source, self.truncate_dim)


def read_declared(folder: pathlib.Path) -> tuple[Declared, pathlib.Path]:
  """Returns what a folder declares, and the folder of BERT's files: `folder`, or a part, such as 0_Transformer."""
  path = folder / _MODULES
  if not path.is_file():
    return Declared(), folder
  modules = read_json(path, list)
  try:
    kinds = [(module["type"].rsplit(".", 1)[-1], folder / module["path"]) for module in modules]
    first, transformer = kinds[0]
  except (AttributeError, IndexError, KeyError, TypeError) as error:
    raise EncoderError(f"{path}: expected a list of modules, each with type and path; download it again") from error
  if first != "Transformer" or not transformer.is_dir():
    raise EncoderError(f"{path}: the first module is {first} in {transformer}, expected the folder of a Transformer")
  # The first pooling counts; any other module than a normalization is not supported.
  embedding_type, unsupported, pools_prompt = "", "", True
  for kind, place in kinds[1:]:
    if kind == "Pooling" and not embedding_type:
      embedding_type, unsupported, pools_prompt = _declared_pooling(place / "config.json")
    elif kind == "Normalize":
      logging.info("%s normalizes the embeddings; here they keep their length, with the same cosines", path)
    else:
      unsupported = unsupported or f"the module {kind}"
  if not embedding_type:
    embedding_type, unsupported = DEFAULT_POOLING, unsupported or "no pooling"
  declared = Declared(embedding_type, source=str(path), unsupported=unsupported, pools_prompt=pools_prompt)
  declared = dataclasses.replace(declared, **_declared_of_model(folder / _MODEL))
  return _with_transformer(declared, transformer), transformer


def _declared_pooling(path):
  """Returns what a 1_Pooling/config.json declares.

  The sentence_embedding_type and "", or the default and the unsupported part; and whether it reads a prompt's tokens.
  """
  values = read_json(path)
  # Newer versions name the modes; the others have a flag for each.
  modes = values.get("pooling_mode", [])
  if isinstance(modes, str):
    modes = [modes]
  flags = [key for key, on in values.items() if key.startswith("pooling_mode_") and on]
  names = list(map(str, modes)) + [flag.removeprefix("pooling_mode_") for flag in flags]
  name = " and ".join(names) or "none"
  pools_prompt = values.get("include_prompt") is not False
  if name in DECLARED_NAMES:
    return DECLARED_NAMES[name], "", pools_prompt
  return DEFAULT_POOLING, f"the pooling {name}", pools_prompt


def _declared_of_model(path):
  """Returns the prompts and the truncate_dim of a config_sentence_transformers.json as fields of `Declared`."""
  values = {}
  if path.is_file():
    values = read_json(path)
  prompts, default = values.get("prompts") or {}, values.get("default_prompt_name")
  texts = {}
  if isinstance(prompts, dict):
    texts = {name: text or "" for name, text in prompts.items()}
  if not isinstance(prompts, dict) or not all(isinstance(text, str) for text in texts.values()):
    raise EncoderError(f"{path}: prompts is {str(prompts)[:40]}, expected texts by their names; download it again")
  if default is not None and default not in texts:
    names = ", ".join(texts) or "none"
    raise EncoderError(f"{path}: default_prompt_name is {default!r}, expected one of the prompts ({names})")
  truncate_dim = values.get("truncate_dim")
  if truncate_dim is not None and not is_integer(truncate_dim, 1):
    raise EncoderError(f"{path}: truncate_dim is {truncate_dim!r}, expected a positive integer; download it again")
  similarity = values.get("similarity_fn_name")
  if similarity not in (None, "cosine"):
    logging.warning("%s: similarity_fn_name is %s; similarities are cosines here", path, similarity)
  return {"prompts": texts, "prompt": texts.get(default, ""), "truncate_dim": truncate_dim}


# Keys of a Transformer's configuration that decide embeddings, each with the values that are supported.
_SUPPORTED = {
  "transformer_task": (None, "feature-extraction"),
  "module_output_name": (None, "token_embeddings"),
  **dict.fromkeys(("processing_kwargs", "query_length", "document_length", "query_expansion"), (None, {})),
  **dict.fromkeys(("tokenizer_args", "processor_kwargs"), (None, {})),
}


def _with_transformer(declared, folder):
  """Returns a declaration with the length and the letter case that the folder of a Transformer declares."""
  for name in _TRANSFORMERS:
    path, values = folder / name, {}
    if path.is_file():
      values = read_json(path)
    if values:
      break
  for key, supported in _SUPPORTED.items():
    if values.get(key) not in supported and not declared.unsupported:
      declared = dataclasses.replace(declared, unsupported=f"{key} {values[key]} in {path.name}")
  lower_case_by = ""
  if values.get("do_lower_case"):
    lower_case_by = str(path)
  length = _length(folder, path, values.get("max_seq_length"))
  return dataclasses.replace(declared, max_seq_length=length, lower_case_by=lower_case_by)


def _length(folder, path, length):
  """Returns the largest number of tokens that the file at `path` declares, or else the tokenizer's in a folder."""
  key = "max_seq_length"
  if length is None:
    # sentence-transformers 6 saves it as transformers does. Without one, the positions are the limit.
    key, path = "model_max_length", folder / TOKENIZER_CONFIG
    if path.is_file():
      length = read_json(path).get(key)
    if length is None:
      length = _UNLIMITED
  if isinstance(length, float) and length.is_integer():
    length = int(length)  # 1e30, which stands for no limit
  if not is_integer(length, 3):
    raise EncoderError(f"{path}: {key} is {length!r}, expected an integer of at least 3; download it again")
  return min(int(length), _UNLIMITED)
