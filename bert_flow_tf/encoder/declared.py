"""Pooling and length that an encoder's files declare, as those of sentence-transformers do."""

import dataclasses
import pathlib

from absl import logging

from bert_flow_tf.encoder.folder import read_json
from bert_flow_tf.encoder.settings import DEFAULT_MAX_SEQ_LENGTH, DEFAULT_POOLING
from bert_flow_tf.errors import EncoderError
from bert_flow_tf.io.checks import is_integer

MODULES = "modules.json"
# {pooling in 1_Pooling/config.json: our sentence_embedding_type}
_POOLINGS = {"mean": "avg", "mean_tokens": "avg", "cls": "cls-token", "cls_token": "cls-token"}


@dataclasses.dataclass(frozen=True)
class Declared:
  """What an encoder's files or its kind declare; without a declaration the defaults of this package.

  Attributes:
    sentence_embedding_type: the pooling.
    max_seq_length: the largest number of tokens.
    source: the file that declares them; "" if nothing does.
    refused: the part of the declaration that is not supported; "" if there is none.
    token_weights: the weights of tokens; no file declares them.
  """

  sentence_embedding_type: str = DEFAULT_POOLING
  max_seq_length: int = DEFAULT_MAX_SEQ_LENGTH
  source: str = ""
  refused: str = ""
  token_weights: str = "uniform"

  def pooling(self) -> str:
    """Returns the declared pooling.

    Raises:
      EncoderError: it is not supported.
    """
    if self.refused:
      raise EncoderError(
        f"sentence_embedding_type: {self.source} declares {self.refused}, which is not supported; give a "
        "sentence_embedding_type, such as avg, to embed without it",
        argument="sentence_embedding_type",
      )
    return self.sentence_embedding_type

  def log(self, sentence_embedding_type: str, max_seq_length: int) -> None:
    """Logs what is used of the declaration, and what is not."""
    used = {"sentence_embedding_type": sentence_embedding_type, "max_seq_length": max_seq_length}
    declared = {"sentence_embedding_type": self.refused or self.sentence_embedding_type}
    declared["max_seq_length"] = str(self.max_seq_length)
    if self.source:
      texts = [
        f"{name} {value}" + ("" if str(value) == declared[name] else f" ({declared[name]} is declared)")
        for name, value in used.items()
      ]
      logging.info("%s: %s", self.source, ", ".join(texts))


def read_declared(folder: pathlib.Path) -> tuple[Declared, pathlib.Path]:
  """Reads the declaration of a folder of sentence-transformers.

  Args:
    folder: any encoder's folder.

  Returns:
    The declaration, and the folder of BERT's own files: `folder`, or its subfolder, such as 0_Transformer.

  Raises:
    EncoderError: a file is damaged.
  """
  path = folder / MODULES
  if not path.is_file():
    return Declared(), folder
  modules = read_json(path)
  try:
    kinds = [(module["type"].rsplit(".", 1)[-1], folder / module["path"]) for module in modules]
    assert kinds
  except (AssertionError, AttributeError, KeyError, TypeError) as error:
    raise EncoderError(f"{path}: expected a list of modules, each with type and path; download it again") from error
  (first, transformer), others = kinds[0], kinds[1:]
  if first != "Transformer" or not transformer.is_dir():
    raise EncoderError(f"{path}: the first module is {first} in {transformer}, expected the folder of a Transformer")
  embedding_type, refused = "", ""
  for kind, place in others:
    if kind == "Pooling" and not embedding_type:
      embedding_type, refused = _pooling(place / "config.json")
    elif kind != "Normalize":  # which changes no cosine
      refused = refused or f"the module {kind}"
  if not embedding_type:
    refused = refused or "no pooling"
  length = _max_seq_length(transformer)
  return Declared(embedding_type or DEFAULT_POOLING, length, source=str(path), refused=refused), transformer


def _pooling(path):
  """Returns the sentence_embedding_type of a 1_Pooling/config.json and "", or the default and what is refused."""
  values = read_json(path)
  if not isinstance(values, dict):
    raise EncoderError(f"{path}: expected a JSON object with a pooling mode; download it again")
  modes = values.get("pooling_mode", [])  # newer versions; the others have a flag for each mode
  modes = [modes] if isinstance(modes, str) else list(modes)
  modes += [key.removeprefix("pooling_mode_") for key, on in values.items() if key.startswith("pooling_mode_") and on]
  name = " and ".join(map(str, modes)) or "none"
  return _POOLINGS.get(name, DEFAULT_POOLING), "" if name in _POOLINGS else f"the pooling {name}"


def _max_seq_length(folder):
  """Returns the declared length, or the default."""
  path = folder / "sentence_bert_config.json"
  values = read_json(path) if path.is_file() else {}
  length = values.get("max_seq_length") if isinstance(values, dict) else values
  if length is None:
    return DEFAULT_MAX_SEQ_LENGTH
  if not is_integer(length, 3):
    raise EncoderError(f"{path}: max_seq_length is {length!r}, expected an integer of at least 3; download it again")
  return int(length)
