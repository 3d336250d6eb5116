"""Start and end of a runner: its command line, its help, its errors as one line, interrupts."""

import functools
import io
import os
import pathlib
import re
import resource
import signal
import sys
from collections.abc import Callable

from absl import app, flags, logging

import bert_flow_tf
from bert_flow_tf import progress
from bert_flow_tf.errors import BertFlowError, ConfigError
from run_scripts import command_line, common_flags, help_page, quiet

FLAGS = flags.FLAGS
# Flags of texts, of which an empty one is for none, in place of one that files declare.
_MAY_BE_EMPTY = ("prompt", "query_prompt")

flags.DEFINE_boolean(
  "quiet",
  False,
  "Write nothing but warnings and errors to standard error, neither log nor progress, as --verbosity=-1.",
  short_name="q",
)
help_page.put_under("quiet", "io")

# {argument of the library: its flags}, if names differ: messages name the first flag on the command line, or the last.
_FLAG_OF_ARGUMENT = {
  "folder": ("flow_folder",),
  "exp_name": ("output", "exp_name", "output_parent_dir", "exp_name"),
  "revision": ("model_revision",),
}
# Flags of what a command writes.
_OUTPUTS = ("output", "output_parent_dir", "export_dir")
# NumPy's errors of a write without room, which have no number.
_OF_NUMPY = ("requested and", "Not enough free space")
# Name of an argument within a message, before "=".
_ARGUMENT = re.compile(r"(?<![\w.'\"(=/-])(\w+)(?==)")
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
  prints_output: bool = False,
) -> Callable[[], None]:
  """Returns the function that starts a runner: it defines the flags, then does as `run`."""

  def console():
    define_flags()
    run(main, resumes, take_arguments, prints_output)

  return console


def run(
  main: Callable[[], None],
  resumes: bool = True,
  take_arguments: Callable[[list[str]], None] = take_inputs,
  prints_output: bool = False,
) -> None:
  """Parses the flags and calls `main`; an error that a user can mend becomes one line and exit status 1.

  `take_arguments` is called with the arguments that stand without a flag, if there are any. `prints_output`: whether
  `main` writes one file, which may be standard output.
  """
  if sys.version_info >= (3, 14):
    running = ".".join(map(str, sys.version_info[:2]))
    sys.exit(_fail(f"this is Python {running}: TensorFlow has no build for 3.14 or later; use 3.11, 3.12 or 3.13"))
  for stream in (sys.stdout, sys.stderr):
    if isinstance(stream, io.TextIOWrapper):
      stream.reconfigure(errors="backslashreplace")  # the name of a file may have any bytes
  _print_and_exit(main)
  quiet.silence_tensorflow()
  parse = functools.partial(_parse, take_arguments=take_arguments, prints_output=prints_output)
  app.run(lambda argv: sys.exit(_guarded(main, resumes, argv[1:])), flags_parser=parse)


def _print_and_exit(main):
  """Prints help or version and exits, if they are asked for; absl's own --help is not grouped, and exits with 1."""
  arguments = sys.argv[1:]
  if arguments == ["--version"]:  # with a value, it is a flag of the exporting runners
    help_page.show(f"bert-flow-tf {bert_flow_tf.__version__}")
  if {"--help", "-help", "-h", "--helpshort"} & set(arguments):
    help_page.show(help_page.text(sys.modules[main.__module__].__doc__, common_flags.runner_flags()))


def _parse(argv, take_arguments, prints_output):
  """Parses the command line, and expands ~ in paths, which a shell leaves alone after "="."""
  try:
    rest = command_line.parse(argv)
  except ConfigError as error:
    sys.exit(_fail(error))
  except flags.Error as error:
    # absl shows a wrong boolean as a tuple of its message and the value.
    message = re.sub(r"\('Non-boolean .*\)$", "expected true or false, or 1 or 0", str(error).strip())
    message = re.sub("invalid literal for int.*", "expected an integer", message)
    message = re.sub("could not convert string to float.*", "expected a number", message)
    message = re.sub("'saved_model'(?!\\w).*", "'saved_model' (expected --model=saved_model:FOLDER)", message)
    message = re.sub(r"\. Did you mean: (.*) \?$", r" (did you mean \1?)", message)
    sys.exit(_fail(f"{message.removeprefix('flag ')}; --help lists the flags"))
  except SystemExit:  # absl has printed --helpfull, and would exit with 1
    sys.exit(0)
  if len(rest) > 1:
    try:
      take_arguments(rest[1:])
    except BertFlowError as error:
      sys.exit(_fail(_with_flags(error, rest[1:])))
  for flag in common_flags.runner_flags():
    if flag.value == "" != flag.default and flag.name not in _MAY_BE_EMPTY:  # as an unset variable of a shell gives it
      sys.exit(_fail(f"--{_name_as_given(flag.name)}: empty; expected a value, or leave the flag out"))
    if flag.value == "-" and flag.name in _OUTPUTS and not prints_output:
      name = _name_as_given(flag.name)
      sys.exit(_fail(f"--{name}=-: is standard output; expected a folder, as this command writes files"))
    if isinstance(flag.value, str) and flag.value.startswith("~/"):
      flag.value = os.path.expanduser(flag.value)
  if FLAGS.quiet:
    logging.set_verbosity(logging.WARNING)
  elif FLAGS["verbosity"].using_default_value:
    logging.set_verbosity(logging.INFO)
  if logging.get_verbosity() <= logging.INFO:
    quiet.shorten_lines(logging.get_absl_handler())
  progress.allow(logging.level_info())
  return rest


def _guarded(main, resumes=True, files=()):
  """Calls `main` and returns the exit status; `files` are the arguments without a flag."""
  # TensorFlow may turn an interrupt into another exception, so the signal itself is remembered.
  interrupted = False
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
    reason = _unwritten(error.__cause__)
    if reason:
      return _fail(f"{reason}, and {_AGAIN[resumes]}")
    return _fail(_with_flags(error, files))
  except BrokenPipeError:  # ... | head
    help_page.close_output()
    return 0
  except OSError as error:  # a full disk, a name that is too long, a file without permission
    reason = _unwritten(error)
    if reason:
      return _fail(f"{reason}, and {_AGAIN[resumes]}")
    if error.filename and error.strerror:
      return _fail(f"{error.filename}: {error.strerror}")
    return _fail(error)
  except KeyboardInterrupt:
    return _fail(stopped, 130)
  except MemoryError as error:  # NumPy's says how much one array needs
    return _fail(_exhausted(error))
  except Exception as error:
    if interrupted:  # TensorFlow turns an interrupt while it traces into other errors
      return _fail(stopped, 130)
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow is None or not isinstance(error, tensorflow.errors.OpError):
      raise
    reason = _unwritten(error)
    if reason:
      return _fail(f"{reason}, and {_AGAIN[resumes]}")
    if not isinstance(error, tensorflow.errors.ResourceExhaustedError):
      raise
    reason = " ".join(error.message.split())[:200]
    return _fail(f"out of memory ({reason}); use a smaller batch size")
  return 0


def _exhausted(error):
  """Returns that memory is not enough, and what takes less."""
  reason = f" ({error})" if str(error) else ""
  way = "give fewer records at once, or more memory"
  if "vectors" in FLAGS and FLAGS.vectors is None:
    way += ", or the vectors that bert-flow embed wrote, which may be larger than memory (--vectors=FOLDER)"
  return f"out of memory{reason}; {way}"


def _unwritten(error):
  """Returns why a file could not be written and what mends it, if a disk is full or the file too large, else None."""
  full, large = help_page.FULL, help_page.TOO_LARGE
  if isinstance(error, OSError) and error.errno is not None:
    reason = help_page.UNWRITTEN.get(error.errno)
    return f"{error.filename}: {reason}" if reason and error.filename else reason
  if isinstance(error, OSError) and any(text in str(error) for text in _OF_NUMPY):
    is_limited = resource.getrlimit(resource.RLIMIT_FSIZE)[0] != resource.RLIM_INFINITY
    outputs = [
      f"--{_name_as_given(name)}={FLAGS[name].value}: " for name in _OUTPUTS if name in FLAGS and FLAGS[name].value
    ]
    return "".join(outputs[:1]) + (large if is_limited else full)
  # TensorFlow's have the system's text.
  texts = {"No space left": full, "quota": full, "File too large": large}
  return next((reason for text, reason in texts.items() if text in getattr(error, "message", "")), None)


def _with_flags(error, files):
  """Returns the error's message, with flags in place of arguments' names; one of `files` stands without a flag."""
  message, argument, flag = str(error), error.argument, ""
  if argument is not None and message.startswith(argument):
    names = [name for name in _FLAG_OF_ARGUMENT.get(argument, (argument,)) if name in FLAGS]
    if names:
      given = [*common_flags.given(names), names[-1]]
      flag = f"--{_name_as_given(given[0])}"
      message = message.removeprefix(argument)
    for file in () if argument in _OUTPUTS else files:  # an output has its flag
      written = "|".join({re.escape(file), re.escape(str(pathlib.Path(file).expanduser()))})  # exp/NAME/ is exp/NAME
      start = re.match(rf"(=|: )({written})[:, ]", message)
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
  names = command_line.names_of_aliases()
  flag = names.get(name, name)
  aliases = [alias for alias in names if names[alias] == flag]
  return [*common_flags.given(aliases), flag][0]


def _fail(message, status=1):
  """Prints an error as one line and returns the exit status."""
  line = " ".join(str(message).split())  # it may quote a file, whose control characters a terminal would obey
  line = "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in line)
  print(f"error: {line}", file=sys.stderr, flush=True)
  return status
