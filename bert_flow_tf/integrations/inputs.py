"""What other programs give to `encode`: sentences in several forms, and arguments of their own."""

from collections.abc import Mapping

from bert_flow_tf.errors import ConfigError, DataError

# Of sentence-transformers, each with the values that change nothing here.
_NEUTRAL = {
  "output_value": ("sentence_embedding",),
  "precision": (None, "float32"),
  "prompt": (None, ""),
  "truncate_dim": (None,),
  "pool": (None,),
}
# What says where a sentence comes from, or how a program runs: no embedding here depends on it.
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


def texts_of(sentences):
  """The sentences as a list of str, and whether they were a lone str.

  Args:
    sentences: a str, a sequence of str, or an iterable of batches, each a dict with a list of str under "text", as
      mteb 2 gives them (or a lone str, as its corpora).

  Raises:
    DataError: a batch without text. Whether the others are str, `SentenceEncoder.encode` checks.
  """
  if isinstance(sentences, str):
    return [sentences], True
  try:
    items = list(sentences)
  except TypeError as error:
    raise DataError(f"found {type(sentences).__name__}, expected a sentence or a list of sentences") from error
  if not items or not all(isinstance(item, Mapping) for item in items):
    return items, False
  for position, batch in enumerate(items):
    if "text" not in batch:
      raise DataError(
        f"batch {position} (counted from 0) has {', '.join(map(str, batch)) or 'nothing'}, expected text: this model "
        "embeds sentences alone"
      )
  columns = (batch["text"] for batch in items)
  return [text for column in columns for text in ([column] if isinstance(column, str) else column)], False


def check_others(arguments):
  """Refuses an argument of `encode` that asks for what this model does not do, or that nobody knows.

  Args:
    arguments: {name: value} of those that are not the model's own.

  Raises:
    ConfigError: there is one.
  """
  for name, value in arguments.items():
    if name in _IGNORED:
      continue
    if name not in _NEUTRAL:
      raise ConfigError(
        f"encode: unknown argument {name}; expected sentences, batch_size, show_progress_bar, normalize_embeddings, "
        f"convert_to_numpy, convert_to_tensor, or without effect {', '.join((*_NEUTRAL, *_IGNORED))}"
      )
    if value not in _NEUTRAL[name]:
      allowed = " or ".join(map(repr, _NEUTRAL[name]))
      raise ConfigError(f"encode: {name} is {value!r}, expected {allowed}: this model has nothing else")
