"""Parses a command line: a flag that is given again adds to a list, or is an error; --flagfile is overridden."""

import contextlib
import re
from collections.abc import Iterator, Sequence

from absl import flags

from bert_flow_tf.errors import ConfigError

FLAGS = flags.FLAGS

# Values of boolean flags that may follow after a blank, as in the published commands.
_BOOLEANS = ("0", "1", "true", "false", "True", "False")
# Flags of texts that may be several names, separated by commas.
_OF_NAMES = ("column", "query_column")
# {flag or alias: [(text, value) of each time that it is given]}
_Given = dict[str, list[tuple[str, object]]]


def parse(words: Sequence[str]) -> list[str]:
  """Parses the name of a program and its arguments; returns the name and the arguments without a flag.

  A flag on the command line replaces that of a --flagfile, wherever the file is named.

  Raises:
    flags.Error: a flag is unknown, or its value is wrong.
    ConfigError: a flag that is no list has two values, or a flag and another name of it do.
  """
  joined = _joined(words)
  files = [word for word in joined if re.match("--?flagfile=", word)]
  _parse_once([joined[0], *files])
  # absl adds to some lists if they are present.
  of_files = {name: FLAGS[name].present for name in FLAGS}
  for name in of_files:
    FLAGS[name].present = 0
  rest = _parse_once([word for word in joined if word not in files])
  for name, count in of_files.items():
    FLAGS[name].present += count
  return rest


def names_of_aliases() -> dict[str, str]:
  """Returns {alias of a flag: the flag's own name}."""
  matches = {name: re.fullmatch(r"Alias for --(\w+)\.?", FLAGS[name].help or "") for name in FLAGS}
  return {name: match[1] for name, match in matches.items() if match}


def _joined(words):
  """Joins boolean flags and their values, and --flagfile: for absl, `--flow 1` is a flag and an argument."""
  joined: list[str] = []
  for word in words:
    before = joined[-1].lstrip("-") if joined else ""
    is_boolean = word in _BOOLEANS and before in FLAGS and FLAGS[before].boolean
    if is_boolean or (before == "flagfile" and joined[-1] != before):
      joined[-1] += f"={word}"
    else:
      joined.append(word)
  return joined


def _parse_once(words):
  """Parses words, in which no flag but a list may have two values."""
  with _recorded() as given:
    rest = FLAGS(words)
  aliases = names_of_aliases()
  for name, pairs in given.items():
    texts = [text for text, _ in pairs]
    if len(set(texts)) == 1 or all(value == pairs[0][1] for _, value in pairs) or _is_list(FLAGS[name]):
      continue
    for alias in aliases:
      if aliases[alias] == name and 0 < len(given.get(alias, [])) < len(texts):
        raise ConfigError(f"--{alias} is another name of --{name}; give one of them")
    values = " and ".join(map(repr, dict.fromkeys(texts)))
    hint = f", as --{name}={','.join(dict.fromkeys(texts))}" if name in _OF_NAMES else ""
    raise ConfigError(f"--{name} is given twice: {values}; give it once{hint}")
  return rest


@contextlib.contextmanager
def _recorded() -> Iterator[_Given]:
  """Yields a dict that is filled while flags are parsed; a list gets the values of each time that it is given."""
  given: _Given = {}
  aliases = names_of_aliases()

  def recording(name, flag, parse):
    def record(text):
      earlier, before = given.setdefault(name, []), flag.value
      parse(text)
      # An alias parses by its flag, which adds the values.
      if earlier and name not in aliases and isinstance(flag.parser, flags.ListParser):
        flag.value = [*before, *flag.value]
      earlier.append((text, flag.value))

    return record

  # A short name is another key of the same flag.
  found = {FLAGS[name].name: FLAGS[name] for name in FLAGS}
  for name, flag in found.items():
    flag.parse = recording(name, flag, flag.parse)  # type: ignore[method-assign]
  try:
    yield given
  finally:
    for flag in found.values():
      del flag.parse


def _is_list(flag):
  return isinstance(flag, flags.MultiFlag) or isinstance(flag.parser, flags.ListParser)
