"""Check for a fork of a process that has used TensorFlow; in the fork, TensorFlow would wait forever."""

import os

from bert_flow_tf.errors import BertFlowError

# The process that used TensorFlow first; a fork inherits it.
_process: int | None = None


def check_not_forked(error: type[BertFlowError]) -> None:
  """Raises an error of this class in the fork of a process that has called this function."""
  global _process
  if _process is None:
    _process = os.getpid()
  if _process != os.getpid():
    raise error(
      "this process is a fork of one that had used TensorFlow, and TensorFlow would wait forever here; load the model "
      "after the fork (as gunicorn does without --preload), or start the process by multiprocessing's 'spawn'"
    )
