"""Input of other programs to `encode`: sentences in several forms, and further arguments."""

from collections.abc import Mapping
from typing import Any

from bert_flow_tf.errors import ConfigError, DataError

# Arguments of sentence-transformers, each with the values that change nothing here.
_NEUTRAL = {
  "output_value": ("sentence_embedding",),
  "precision": (None, "float32"),
  "prompt": (None, ""),
  "truncate_dim": (None,),
  "pool": (None,),
}
# The origin of a sentence, or how a program runs: no embedding here depends on it.
_IGNORED = (
  "task_name",
  "task_metadata",
  "hf_split",
  "hf_subset",
  "prompt_type",
  "prompt_name",
  "request_qid",
  "device",
  "chunk_size",
  "num_proc",
  "num_workers",
)


def texts_of(sentences: Any) -> tuple[list, bool]:
  """Returns the sentences as a list of str, and whether they were a single str.

  Args:
    sentences: a str, a sequence of str, or an iterable of batches, each a dict with a list of str under "text", as
      mteb 2 gives them (or a single str, as its corpora).

  Raises:
    DataError: a batch without text; `SentenceEncoder.encode` checks that the others are str.
  """
  if isinstance(sentences, str):
    return [sentences], True
  try:
    items = list(sentences)
  except TypeError as error:
    raise DataError(
      f"sentences: {type(sentences).__name__}, expected a sentence or a list of sentences", argument="sentences"
    ) from error
  if not items or not all(isinstance(item, Mapping) for item in items):
    return items, False
  for position, batch in enumerate(items):
    if "text" not in batch:
      raise DataError(
        f"sentences: batch {position} (from 0) has {', '.join(map(str, batch)) or 'nothing'}, expected text; this "
        "model embeds sentences alone",
        argument="sentences",
      )
  columns = (batch["text"] for batch in items)
  return [text for column in columns for text in ([column] if isinstance(column, str) else column)], False


def check_others(arguments: Mapping[str, Any]) -> None:
  """Checks the arguments of `encode` that are not the model's own.

  Args:
    arguments: {name: value}.

  Raises:
    ConfigError: an argument is unknown, or asks for what this model does not do.
  """
  for name, value in arguments.items():
    if name in _IGNORED:
      continue
    if name not in _NEUTRAL:
      raise ConfigError(
        f"{name}: unknown; expected sentences, batch_size, show_progress_bar, normalize_embeddings, convert_to_numpy, "
        f"convert_to_tensor, or without effect {', '.join((*_NEUTRAL, *_IGNORED))}",
        argument=name,
      )
    if value not in _NEUTRAL[name]:
      allowed = " or ".join(map(repr, _NEUTRAL[name]))
      raise ConfigError(f"{name}={value!r}: expected {allowed}; this model has nothing else", argument=name)
