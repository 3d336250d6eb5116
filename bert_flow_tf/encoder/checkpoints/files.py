"""Folder of an encoder's files: each small file is read once, and checked where it enters."""

import functools
import hashlib
import io
import os
import pathlib
import re
from collections.abc import Mapping
from typing import Any

from absl import logging

from bert_flow_tf.encoder.transformer import architectures
from bert_flow_tf.encoder.transformer.config import check_config
from bert_flow_tf.encoder.transformer.families.architecture import Architecture
from bert_flow_tf.errors import EncoderError, one_line
from bert_flow_tf.io import archive, checksums, files
from bert_flow_tf.io.files import Json

CONFIG, GOOGLE_CONFIG = "config.json", "bert_config.json"
# Ending of a file of each checkpoint of TensorFlow.
CHECKPOINT_INDEX = ".index"
TOKENIZER_CONFIG = "tokenizer_config.json"
VOCAB_TXT = "vocab.txt"
# Files of a tokenizer: any of these, in this order.
VOCABULARIES = ("tokenizer.json", VOCAB_TXT, "vocab.json", "sentencepiece.bpe.model", "spiece.model", "spm.model")
TOKENIZER_FILES = (*VOCABULARIES, "merges.txt", TOKENIZER_CONFIG, "special_tokens_map.json", "added_tokens.json")
TOKENIZERS = ("BertTokenizer", "BertTokenizerFast")
# The first of these has the weights.
WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "tf_model.h5", "tf_model.h5.index.json")
_PYTORCH = ("pytorch_model.bin", "pytorch_model.bin.index.json")
# Key of config.json that transformers writes and this program does not. transformers also keeps keys that it does not
# know, so the checksums of a folder that it has trained and saved again are the checksums of the folder before.
SAVED_BY_TRANSFORMERS = "transformers_version"
# Small files that are read for their checksums, and again for their values.
_KEPT = (CONFIG, TOKENIZER_CONFIG, VOCAB_TXT)
_SAVED_MODEL = "saved_model.pb"
# Pieces in brackets are special tokens, "[CLS]" or "[unused1]", in capitals in every vocabulary.
_CAPITAL = re.compile(r"(?!\[.*\]$).*[A-Z]")
# Longer words become [UNK]: in transformers, and in Google's tokenization.py.
MAX_INPUT_CHARS_PER_WORD, MAX_OF_GOOGLE = 100, 200
_LFS_POINTER = b"version https://git-lfs"


class EncoderFiles:
  """Files of an encoder in a folder.

  Attributes:
    folder: the folder.
    keras_hub: class and settings of KerasHub's tokenizer, whose ids are wanted; empty for other folders.
  """

  keras_hub: Json = {}  # noqa: RUF012 (never changed)

  def __init__(self, folder: pathlib.Path) -> None:
    self.folder = folder
    self._contents: dict[str, bytes] = {}
    self._values: Json = {}
    self._parts: dict[pathlib.Path, EncoderFiles] = {}

  def has(self, name: str) -> bool:
    """Returns whether the folder has a file."""
    return name in self._contents or (self.folder / name).is_file()

  def path(self, name: str) -> pathlib.Path:
    """Returns the path of a file."""
    return self.folder / name

  def part(self, path: str) -> "EncoderFiles":
    """Returns the files of a folder in this folder, as 1_Pooling; itself for ""."""
    folder = self.folder / path
    if folder == self.folder:
      return self
    return self._parts.setdefault(folder, EncoderFiles(folder))

  def content(self, name: str) -> bytes:
    """Returns the content of a small file."""
    if name not in self._contents:
      self._contents[name] = self.path(name).read_bytes()
    return self._contents[name]

  def json(self, name: str, kind: type = dict, required: bool = False) -> Any:
    """Returns the content of a JSON file, a dict or a list; an empty one if it is missing and not `required`."""
    if name in self._values:
      return self._values[name]
    path, values = self.path(name), kind()
    if required or self.has(name) or path.exists():
      try:
        values = files.parse_json(self.content(name))
      except (OSError, ValueError) as error:  # UnicodeDecodeError and JSONDecodeError are ValueErrors
        raise EncoderError(f"{path}: not readable as JSON ({error}); download or save it again") from error
      if not isinstance(values, kind):
        raise EncoderError(f"{path}: expected JSON with a {kind.__name__}; download or save it again")
    self._values[name] = values
    return values

  def without_checksums(self, name: str) -> Json:
    """Returns the values of a configuration without checksums, after a comparison of it and the folder's files."""
    # Checksums are there if this program was the last to write it.
    values = dict(self.json(name))
    if SAVED_BY_TRANSFORMERS in values:
      values.pop(checksums.KEY, None)
    try:
      return checksums.verified(values, self.folder, self._digest)
    except (OSError, ValueError) as error:
      raise EncoderError(f"{self.folder / name}: damaged ({error}); {checksums.KEEP_CHANGES}") from error

  def _digest(self, path):
    """Returns the hexadecimal SHA-256 of a file of the folder."""
    files = self.part(str(path.parent.relative_to(self.folder)))
    if path.name in _KEPT or path.name in files._contents:
      return hashlib.sha256(files.content(path.name)).hexdigest()
    return checksums.of_file(path)

  @functools.cached_property
  def config(self) -> Json:
    """The checked content of config.json, without checksums, which are compared with the files."""
    if not self.has(CONFIG):
      expected = "expected Hugging Face's, KerasHub's or Google's folder of a BERT"
      saved = [path.parent for path in sorted(self.folder.glob(f"*/{_SAVED_MODEL}"))]
      if saved:
        names = ", ".join(folder.name for folder in saved)
        place = saved[0] if len(saved) == 1 else "FOLDER"
        expected = f"name an encoder of TensorFlow Hub by its own folder ({names}); one that takes texts is "
        expected += f"saved_model:{place}"
      check_is_no_part(self.folder)
      if archive.is_in(self.folder, "calibration") or archive.is_in(self.folder, "model"):
        message = (
          f"model={self.folder}: a model of SentenceModel.save, and no encoder; search and other commands read it "
        )
        raise EncoderError(f"{message}by --flow_folder={self.folder}, Python by SentenceModel.load", "model")
      raise EncoderError(f"{self.folder}: no config.json; {expected}")
    path = self.folder / CONFIG
    values = self.without_checksums(CONFIG)
    check_config(path, values)
    return values

  @functools.cached_property
  def architecture(self) -> Architecture:
    """The architecture of config.json."""
    return architectures.check_model_type(self.folder / CONFIG, self.json(CONFIG).get("model_type"))

  @property
  def tokenizer_architecture(self) -> Architecture:
    """The architecture whose tokenizer reads the vocabulary."""
    return self.architecture

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
      if VOCAB_TXT not in available:
        return not available
      kind = self.json(TOKENIZER_CONFIG).get("tokenizer_class")
      return kind is None or kind in TOKENIZERS or available[0] == VOCAB_TXT
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


class TranslatedFiles(EncoderFiles):
  """Files of another format in the form of a Hugging Face folder: in memory, or files of other names.

  Args:
    folder: the folder of the other format.
    contents: {name in a Hugging Face folder: content}.
    paths: {name in a Hugging Face folder: path of the file that it is, or is made from}.
    tokenizer_type: model_type whose tokenizer reads the vocabulary; None for the encoder's.
    keras_hub: see `EncoderFiles`.
  """

  def __init__(
    self,
    folder: pathlib.Path,
    contents: Mapping[str, bytes],
    paths: Mapping[str, pathlib.Path],
    tokenizer_type: str | None = None,
    keras_hub: Json | None = None,
  ) -> None:
    super().__init__(folder)
    self._contents, self._paths, self._tokenizer_type = dict(contents), dict(paths), tokenizer_type
    self.keras_hub = keras_hub or {}

  def has(self, name: str) -> bool:
    """See the base class."""
    return name in self._contents or name in self._paths

  def path(self, name: str) -> pathlib.Path:
    """Returns the path of the file that a file is, or is made from."""
    return self._paths.get(name, self.folder / name)

  def part(self, path: str) -> EncoderFiles:
    """See the base class."""
    if not path:
      return self
    start = f"{path}/"
    contents = {name.removeprefix(start): value for name, value in self._contents.items() if name.startswith(start)}
    paths = {name.removeprefix(start): value for name, value in self._paths.items() if name.startswith(start)}
    return TranslatedFiles(self.folder / path, contents, paths)

  @property
  def tokenizer_architecture(self) -> Architecture:
    """See the base class."""
    if self._tokenizer_type is None:
      return self.architecture
    return architectures.ARCHITECTURES[self._tokenizer_type]


def check_vocabulary(encoder: EncoderFiles, name: str, vocab_size: int, least_share: float = 0.9) -> None:
  """Checks that a vocab.txt has at most `vocab_size` lines, and half as many; warns of less than `least_share`."""
  path = encoder.path(name)
  if not encoder.has(name):
    raise EncoderError(f"{path.parent}: no {name}; expected BERT's word pieces in this file, a line for each")
  count = sum(1 for _ in io.BytesIO(encoder.content(name)))
  counted = f"{path}: {count} word pieces for {vocab_size} word embeddings"
  if not vocab_size <= 2 * count <= 2 * vocab_size:
    raise EncoderError(f"{counted}; use the vocabulary of this model, or download it again")
  if count < least_share * vocab_size:
    logging.warning("%s: is it the whole vocabulary of this model?", counted)


def capital_pieces(content: bytes) -> int:
  """Returns how many pieces of a vocab.txt have capital letters; the vocabulary of an uncased model has none."""
  pieces = re.split("\r\n?|\n", content.decode("utf-8", "replace"))
  return sum(1 for piece in pieces if _CAPITAL.match(piece))


def lower_case_of_google(vocab_file: str | os.PathLike, content: bytes | None = None) -> bool:
  """Returns whether text must be lower-cased for a vocabulary of Google, and logs the reason."""
  # The names of Google's folders contain "cased" or "uncased" (cased_L-12_H-768_A-12). In a folder with another name,
  # capital letters decide: the vocabulary of an uncased model has none outside brackets.
  vocab_file = pathlib.Path(vocab_file)
  name = vocab_file.resolve().parent.name.lower()
  capitals = capital_pieces(content or vocab_file.read_bytes())
  pieces = f"{vocab_file.name} has {capitals or 'no'} word pieces with capital letters"
  if "cased" not in name:
    log_letter_case(vocab_file.parent, not capitals, f"as {pieces}")
    return not capitals
  lower = "uncased" in name
  reason = f"by the name '{name}'"
  if lower == bool(capitals):
    reason += f" (though {pieces})"
  log_letter_case(vocab_file.parent, lower, reason)
  return lower


def log_letter_case(folder: pathlib.Path, lower: bool, reason: str) -> None:
  """Logs a letter case that no file declares, and why it is taken."""
  logging.info("%s: no do_lower_case in tokenizer_config.json; do_lower_case=%s, %s", folder, lower, reason)


def failure(path: pathlib.Path, error: BaseException) -> str:
  """Returns the reason why a file cannot be read, in one line."""
  with path.open("rb") as file:
    if file.read(40).startswith(_LFS_POINTER):
      return "the file is a Git LFS pointer; run git lfs pull"
  return f"{type(error).__name__}: {one_line(error)}"


def is_checkpoint_folder(folder: pathlib.Path) -> bool:
  """Returns whether a folder has bert_config.json and no config.json, or checkpoints of TensorFlow alone."""
  if (folder / GOOGLE_CONFIG).is_file() and not (folder / CONFIG).is_file():
    return True
  has_other_weights = any((folder / name).is_file() for name in WEIGHTS)
  return bool(checkpoint_prefixes_in(folder)) and not has_other_weights


def is_saved_model(folder: str | os.PathLike) -> bool:
  """Returns whether a folder has a SavedModel and no config.json, by which its other files are read."""
  folder = pathlib.Path(folder)
  return (folder / _SAVED_MODEL).is_file() and not (folder / CONFIG).is_file()


def check_is_no_part(folder: str | os.PathLike) -> None:
  """Raises an EncoderError for a folder with the variables of a SavedModel and without its program."""
  folder = pathlib.Path(folder)
  if is_checkpoint_prefix(folder / "variables" / "variables") and not (folder / _SAVED_MODEL).is_file():
    raise EncoderError(f"{folder}: variables/ of a SavedModel without its {_SAVED_MODEL}; copy or download it again")


def is_checkpoint_prefix(path: str | os.PathLike) -> bool:
  """Returns whether a path is a checkpoint's prefix: its files are PATH.index and PATH.data-..."""
  path = os.fspath(path)
  return bool(os.path.basename(path)) and os.path.isfile(path + CHECKPOINT_INDEX)


def checkpoint_prefixes_in(folder: str | os.PathLike) -> list[str]:
  """Returns the sorted names of the checkpoints in a folder."""
  return sorted(
    path.name.removesuffix(CHECKPOINT_INDEX)
    for path in pathlib.Path(folder).glob("?*" + CHECKPOINT_INDEX)
    if path.is_file()
  )
