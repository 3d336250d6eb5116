"""Options and runners of Apache Beam by their names, checked before anything is started."""

import contextlib
import io

from bert_flow_tf.corpus.storage import INSTALL_BEAM
from bert_flow_tf.errors import ConfigError

DIRECT = "DirectRunner"
# Beam's workers on this machine warn in each bundle, so that errors alone are logged unless this is given.
_LOG_LEVEL = "default_sdk_harness_log_level"


def parse_options(runner, arguments):
  """Beam's options as it takes them from a command line.

  Args:
    runner: name of a runner.
    arguments: ["direct_num_workers=2", "--region=..."], with or without the dashes.

  Returns:
    list of str.

  Raises:
    ConfigError: Beam is not installed, or does not know the runner or an option.
  """
  try:
    from apache_beam.options.pipeline_options import PipelineOptions
    from apache_beam.runners.runner import create_runner
  except ImportError as error:
    raise ConfigError(f"--runner={runner}: found no Apache Beam ({error}); {INSTALL_BEAM}") from error
  given = [f"--{argument.strip().lstrip('-')}" for argument in arguments]
  names = {argument[2:].split("=")[0]: argument[2:] for argument in given}
  if "runner" in names:
    raise ConfigError(f"--beam_options={names['runner']}: the flag --runner says that")
  try:
    with contextlib.redirect_stderr(io.StringIO()) as said:  # argparse prints how Beam is used, hundreds of lines
      known = PipelineOptions(given).get_all_options().keys()
  except SystemExit as error:
    reason = said.getvalue().strip().split("error: ")[-1]
    raise ConfigError(f"--beam_options={','.join(arguments)}: Apache Beam says: {reason}") from error
  for name, argument in names.items():
    if name not in known:
      raise ConfigError(f"--beam_options={argument}: Apache Beam has no option {name!r}")
  try:
    create_runner(runner)
  except (ValueError, ImportError, AttributeError) as error:
    raise ConfigError(f"--runner={runner}: {' '.join(str(error).split())[:300]}") from error
  quiet = [f"--{_LOG_LEVEL}=ERROR"] if runner == DIRECT and _LOG_LEVEL not in names else []
  return [*given, *quiet, f"--runner={runner}"]
