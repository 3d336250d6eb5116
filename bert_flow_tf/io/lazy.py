"""TensorFlow's import, which takes seconds: when it is needed, and never for a question about what others made."""

import contextlib
import importlib
import sys
from collections.abc import Callable
from typing import Any

from bert_flow_tf.io import openmp

# Makes the context of the import; a program may set another one, as the commands do.
_context: Callable[[], contextlib.AbstractContextManager] = contextlib.nullcontext


def load_tensorflow() -> Any:
  """Imports TensorFlow, if that is not done yet; its OpenMP's threads sleep while they wait. Returns the module."""
  if "tensorflow" not in sys.modules:
    with _context(), openmp.sleeping_threads():
      importlib.import_module("tensorflow")
  return importlib.import_module("tensorflow")


def import_within(context: Callable[[], contextlib.AbstractContextManager]) -> None:
  """Lets `load_tensorflow` import it within a context, which the function makes."""
  global _context
  _context = context


def imported_tensorflow() -> Any:
  """Returns TensorFlow if it is imported, else None: nothing is a tensor then, and no strategy has a scope."""
  # An import by another thread, which may be going on, is waited for.
  return importlib.import_module("tensorflow") if "tensorflow" in sys.modules else None
