"""Start and end of a runner: its command line, its help, its errors as one line, interrupts."""

import errno
import functools
import io
import os
import re
import signal
import sys
from collections.abc import Callable

from absl import app, flags, logging

import bert_flow_tf
from bert_flow_tf.errors import BertFlowError, ConfigError
from run_scripts import common_flags, help_page, quiet

FLAGS = flags.FLAGS
# Flags of texts, of which an empty one is for none, in place of one that files declare.
_MAY_BE_EMPTY = ("prompt", "query_prompt")

# {argument of the library: its flags}, if names differ: messages name the first flag on the command line, or the last.
_FLAG_OF_ARGUMENT = {
  "folder": ("flow_folder",),
  "k": ("calibration",),
  "exp_name": ("output", "exp_name", "output_parent_dir", "exp_name"),
  "revision": ("model_revision",),
}
# Name of an argument within a message, before "=".
_ARGUMENT = re.compile(r"(?<![\w.'\"(=/-])(\w+)(?==)")
# Values of boolean flags that may follow after a blank, as in the published commands.
_BOOLEANS = ("0", "1", "true", "false", "True", "False")
# {whether the runner saves its progress: advice to repeat an interrupted run}
_AGAIN = {True: "the same command resumes from what is saved, if anything is", False: "start the same command again"}


def take_inputs(arguments: list[str]) -> None:
  """Adds the arguments without a flag, which are files, to --input; raises a ConfigError if there is no such flag."""
  if "input" not in FLAGS:
    raise ConfigError(f"argument {arguments[0]!r}: expected only flags, as --flag=value")
  FLAGS.input = [*FLAGS.input, *arguments]


def command(
  define_flags: Callable[[], None],
  main: Callable[[], None],
  resumes: bool = True,
  take_arguments: Callable[[list[str]], None] = take_inputs,
) -> Callable[[], None]:
  """Returns the function that starts a runner: it defines the flags, then does as `run`."""

  def console():
    define_flags()
    run(main, resumes, take_arguments)

  return console


def run(
  main: Callable[[], None], resumes: bool = True, take_arguments: Callable[[list[str]], None] = take_inputs
) -> None:
  """Parses the flags and calls `main`; an error that a user can mend becomes one line and exit status 1.

  `take_arguments` is called with the arguments that stand without a flag, if there are any.
  """
  if sys.version_info >= (3, 14):
    running = ".".join(map(str, sys.version_info[:2]))
    sys.exit(_fail(f"this is Python {running}: TensorFlow has no build for 3.14 or later; use 3.11, 3.12 or 3.13"))
  for stream in (sys.stdout, sys.stderr):
    if isinstance(stream, io.TextIOWrapper):
      stream.reconfigure(errors="backslashreplace")  # the name of a file may have any bytes
  _print_and_exit(main)
  parse = functools.partial(_parse, take_arguments=take_arguments)
  app.run(lambda argv: sys.exit(_guarded(main, resumes, argv[1:])), flags_parser=parse)


def _print_and_exit(main):
  """Prints help or version and exits, if they are asked for; absl's own --help is not grouped, and exits with 1."""
  arguments = sys.argv[1:]
  if arguments == ["--version"]:  # with a value, it is a flag of the exporting runners
    help_page.show(f"bert-flow-tf {bert_flow_tf.__version__}")
  if {"--help", "-help", "-h", "--helpshort"} & set(arguments):
    help_page.show(help_page.text(sys.modules[main.__module__].__doc__, common_flags.runner_flags()))


def _parse(argv, take_arguments):
  """Parses the command line, and expands ~ in paths, which a shell leaves alone after "="."""
  try:
    rest = FLAGS(_joined(argv))
  except flags.Error as error:
    # absl shows a wrong boolean as a tuple of its message and the value.
    message = re.sub(r"\('Non-boolean .*\)$", "expected true or false, or 1 or 0", str(error).strip())
    message = re.sub(r"\. Did you mean: (.*) \?$", r" (did you mean \1?)", message)
    sys.exit(_fail(f"{message.removeprefix('flag ')}; --help lists the flags"))
  except SystemExit:  # absl has printed --helpfull, and would exit with 1
    sys.exit(0)
  for alias, name in _names_of_aliases().items():
    if 0 < FLAGS[alias].present < FLAGS[name].present:  # an alias counts for its flag, too
      sys.exit(_fail(f"--{alias} is another name of --{name}; give one of them"))
  if len(rest) > 1:
    try:
      take_arguments(rest[1:])
    except BertFlowError as error:
      sys.exit(_fail(_with_flags(error, rest[1:])))
  for flag in common_flags.runner_flags():
    if flag.value == "" != flag.default and flag.name not in _MAY_BE_EMPTY:  # as an unset variable of a shell gives it
      sys.exit(_fail(f"--{_name_as_given(flag.name)}: empty; expected a value, or leave the flag out"))
    if isinstance(flag.value, str) and flag.value.startswith("~/"):
      flag.value = os.path.expanduser(flag.value)
  if FLAGS["verbosity"].using_default_value:
    logging.set_verbosity(logging.INFO)
    quiet.shorten_lines(logging.get_absl_handler())
  return rest


def _joined(argv):
  """Joins boolean flags and their values: for absl, `--flow 1` is a flag without a value and an argument."""
  joined = []
  for word in argv:
    before = joined[-1].lstrip("-") if joined else ""
    if word in _BOOLEANS and before in FLAGS and FLAGS[before].boolean:
      joined[-1] += f"={word}"
    else:
      joined.append(word)
  return joined


def _guarded(main, resumes=True, files=()):
  """Calls `main` and returns the exit status; `files` are the arguments without a flag."""
  # TensorFlow may turn an interrupt into another exception, so the signal itself is remembered.
  interrupted = False
  disk_full = f"the disk is full; free some space, and {_AGAIN[resumes]}"
  stopped = f"interrupted; {_AGAIN[resumes]}"

  def interrupt(*unused):
    nonlocal interrupted
    if interrupted:  # second signal: an exception in code that ends now would abort the process
      os._exit(_fail(stopped, 130))
    interrupted = True
    raise KeyboardInterrupt

  signal.signal(signal.SIGINT, interrupt)
  try:
    main()
  except BertFlowError as error:
    if _is_disk_full(error.__cause__):
      return _fail(disk_full)
    return _fail(_with_flags(error, files))
  except BrokenPipeError:  # ... | head
    help_page.close_output()
    return 0
  except OSError as error:  # a full disk, a name that is too long, a file without permission
    if _is_disk_full(error):
      return _fail(disk_full)
    if error.filename and error.strerror:
      return _fail(f"{error.filename}: {error.strerror}")
    return _fail(error)
  except KeyboardInterrupt:
    return _fail(stopped, 130)
  except Exception as error:
    if interrupted:  # TensorFlow turns an interrupt while it traces into other errors
      return _fail(stopped, 130)
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow is None or not isinstance(error, tensorflow.errors.ResourceExhaustedError):
      raise
    if "No space left" in error.message or "quota" in error.message:
      return _fail(disk_full)
    reason = " ".join(error.message.split())[:200]
    return _fail(f"out of memory ({reason}); use a smaller batch size")
  return 0


def _is_disk_full(error):
  """Returns whether an error is of a write to a full disk."""
  if not isinstance(error, OSError):
    return False
  return error.errno in (errno.ENOSPC, errno.EDQUOT) or "requested and" in str(error)  # NumPy's has no number


def _with_flags(error, files):
  """Returns the error's message, with flags in place of arguments' names; one of `files` stands without a flag."""
  message, argument, flag = str(error), error.argument, ""
  if argument is not None and message.startswith(argument):
    names = [name for name in _FLAG_OF_ARGUMENT.get(argument, (argument,)) if name in FLAGS]
    if names:
      given = [*common_flags.given(names), names[-1]]
      flag = f"--{_name_as_given(given[0])}"
      # k is the end of the flag's value.
      message = f": {message}" if argument == "k" else message.removeprefix(argument)
    for file in files:
      start = re.match(rf"(=|: ){re.escape(file)}[:, ]", message)
      if start:
        flag, message = "", message.removeprefix(start[1])
  return flag + _ARGUMENT.sub(lambda match: _as_flag(match[1]), message)


def _as_flag(name):
  """Returns --NAME for the name of one of the runner's flags, and other names as they are."""
  if name in {flag.name for flag in common_flags.runner_flags()}:
    return f"--{_name_as_given(name)}"
  return name


def _name_as_given(name):
  """Returns that name of a flag, an alias or its own, which is on the command line; its own if none is."""
  names = _names_of_aliases()
  flag = names.get(name, name)
  aliases = [alias for alias in names if names[alias] == flag]
  return [*common_flags.given(aliases), flag][0]


def _names_of_aliases():
  """Returns {alias of a flag: the flag's own name}."""
  matches = {name: re.fullmatch(r"Alias for --(\w+)\.?", FLAGS[name].help or "") for name in FLAGS}
  return {name: match[1] for name, match in matches.items() if match}


def _fail(message, status=1):
  """Prints an error as one line and returns the exit status."""
  line = " ".join(str(message).split())  # it may quote a file, whose control characters a terminal would obey
  line = "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in line)
  print(f"error: {line}", file=sys.stderr, flush=True)
  return status
