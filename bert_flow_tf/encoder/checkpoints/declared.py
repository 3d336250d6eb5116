"""Pooling and length that an encoder's files declare, as those of sentence-transformers do."""

import dataclasses
import pathlib

from absl import logging

from bert_flow_tf.encoder.checkpoints.files import read_json
from bert_flow_tf.encoder.pooling import DECLARED_NAMES
from bert_flow_tf.encoder.settings import DEFAULT_MAX_SEQ_LENGTH, DEFAULT_POOLING
from bert_flow_tf.errors import EncoderError
from bert_flow_tf.io.checks import is_integer

_MODULES = "modules.json"


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
  embedding_type, unsupported = "", ""
  for kind, place in kinds[1:]:
    if kind == "Pooling" and not embedding_type:
      embedding_type, unsupported = _pooling(place / "config.json")
    elif kind == "Normalize":
      logging.info("%s normalizes the embeddings; here they keep their length, with the same cosines", path)
    else:
      unsupported = unsupported or f"the module {kind}"
  if not embedding_type:
    embedding_type, unsupported = DEFAULT_POOLING, unsupported or "no pooling"
  length, lower_case_by = _of_transformer(transformer / "sentence_bert_config.json")
  return Declared(embedding_type, length, str(path), unsupported, lower_case_by), transformer


def _pooling(path):
  """Returns the sentence_embedding_type of a 1_Pooling/config.json and "", or the default and the unsupported part."""
  values = read_json(path)
  # Newer versions name the modes; the others have a flag for each.
  modes = values.get("pooling_mode", [])
  if isinstance(modes, str):
    modes = [modes]
  flags = [key for key, on in values.items() if key.startswith("pooling_mode_") and on]
  names = list(map(str, modes)) + [flag.removeprefix("pooling_mode_") for flag in flags]
  name = " and ".join(names) or "none"
  if name in DECLARED_NAMES:
    return DECLARED_NAMES[name], ""
  return DEFAULT_POOLING, f"the pooling {name}"


def _of_transformer(path):
  """Returns the declared length, or the default, and the path if it declares do_lower_case, else ""."""
  values = {}
  if path.is_file():
    values = read_json(path)
  length = values.get("max_seq_length")
  if length is None:
    length = DEFAULT_MAX_SEQ_LENGTH
  if not is_integer(length, 3):
    raise EncoderError(f"{path}: max_seq_length is {length!r}, expected an integer of at least 3; download it again")
  lower_case_by = ""
  if values.get("do_lower_case"):
    lower_case_by = str(path)
  return int(length), lower_case_by
