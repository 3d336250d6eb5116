"""The direct runner in a process of its own, begun again when one of its workers dies.

Beam's direct runner waits for ever for a worker process that was killed, by the kernel for its memory say. Here
the runner and its workers are one process group: when a worker dies the group is ended, and another one goes on with
the shards that are not finished. Other runners see to this themselves.

What Beam and the workers print, with every step of a traceback, goes to a file, which a failure names.
"""

import contextlib
import functools
import multiprocessing
import os
import pathlib
import signal
import tempfile
import threading

from absl import logging

from bert_flow_tf.corpus.beam_execute import reason_of, run_pipeline
from bert_flow_tf.corpus.storage import storage_of
from bert_flow_tf.corpus.streaming import pending
from bert_flow_tf.errors import BertFlowError
from bert_flow_tf.progress import Progress

# A group that dies so many times in a row, with no shard finished between, will not do better.
ATTEMPTS = 3
_POLL_SECONDS = 0.5
_DIED, _FAILED = "died", "failed"


def run_attempts(index, folder, arguments, show_progress=True):
  """Runs the pipeline until all shards are finished.

  Args:
    index: `Index`.
    folder: `ShardFolder`.
    arguments: (wanted, load, options) of `run_pipeline`.
    show_progress: as in `Progress`.

  Raises:
    BertFlowError: the pipeline fails, or workers die without finishing a shard.
  """
  tasks, done = pending(index, folder)
  already = sum(task.records for task in index.shards if task.number in done)
  in_vain, log = 0, _log_of(folder)
  with (
    tempfile.TemporaryDirectory(prefix="bert_flow_tf_") as scratch,
    Progress(index.records, show_progress, done=already) as progress,
  ):
    while tasks:
      before = len(tasks)
      died = _attempt(tasks, folder, arguments, (log, scratch), progress)
      storage_of(folder.folder).clear(folder.folder)
      tasks, _ = pending(index, folder)
      if not tasks:
        break
      died = died or f"{len(tasks)} shards are missing though the pipeline ended"
      in_vain = in_vain + 1 if len(tasks) == before else 0
      if in_vain >= ATTEMPTS:
        raise BertFlowError(
          f"--runner=DirectRunner: {died}, {ATTEMPTS} times without finishing a shard; fewer direct_num_workers, or a "
          f"smaller --predict_batch_size, need less memory; Beam's log is {log}"
        )
      logging.warning("%s: going on with %d of %d shards", died, len(tasks), len(index.shards))
  log.unlink(missing_ok=True)


def _log_of(folder):
  """Where the output of the runner and its workers goes."""
  if "://" in folder.folder:
    return pathlib.Path(tempfile.gettempdir(), f"bert_flow_tf_runner_{os.getpid()}.log")
  return pathlib.Path(folder.folder, ".runner.log")


def _attempt(tasks, folder, arguments, places, progress):
  """Runs one process group, its log and scratch folder in `places`; returns how it died, or None if it did not."""
  context = multiprocessing.get_context("spawn")  # not fork: TensorFlow has threads
  receive, send = context.Pipe(duplex=False)
  process = context.Process(target=_run, args=(send, places, tasks, folder, *arguments))
  process.start()
  send.close()
  waiting = {task.number: task.records for task in tasks}
  try:
    while process.is_alive():
      process.join(_POLL_SECONDS)
      _show(folder, waiting, progress)
    kind, text = _received(receive)
  finally:
    with contextlib.suppress(ProcessLookupError):
      os.killpg(process.pid, signal.SIGKILL)
    process.kill()  # before it leads a group
    process.join()
  if kind == _FAILED:
    raise BertFlowError(f"{text}; Beam's log is {places[0]}")
  if kind == _DIED or process.exitcode == 0:
    return text
  return f"the process of the runner died ({process.exitcode})"


def _run(send, places, tasks, folder, wanted, load, options):
  """In the new process: the runner; its workers are children of it, and write where it does."""
  os.setsid()
  log, scratch = places
  os.environ["TMPDIR"] = tempfile.tempdir = scratch  # a killed pipeline leaves a folder there
  with log.open("ab") as file:
    os.dup2(file.fileno(), 1)
    os.dup2(file.fileno(), 2)
  threading.excepthook = functools.partial(_on_thread_error, send)
  threading.Thread(target=_end_with_parent, daemon=True).start()
  try:
    run_pipeline(tasks, folder, wanted, load, options)
  except BertFlowError as error:
    send.send((_FAILED, str(error)))
  except Exception as error:
    send.send((_FAILED, reason_of(error)))
  send.close()
  os._exit(0)  # the threads of a failed pipeline would be waited for


def _on_thread_error(send, arguments):
  """Beam waits for each worker in a thread of this name, which raises when it ends in any but the proper way."""
  if arguments.thread is None or arguments.thread.name != "run_worker":
    threading.__excepthook__(arguments)
    return
  with contextlib.suppress(OSError):  # closed: the pipeline has ended
    send.send((_DIED, "a worker died"))
    os.killpg(os.getpgrp(), signal.SIGKILL)


def _end_with_parent():
  """Workers whose run was killed must not go on in secret."""
  multiprocessing.parent_process().join()
  os.killpg(os.getpgrp(), signal.SIGKILL)


def _received(receive):
  """What the process said last: kind and text, (None, None) for nothing."""
  said = (None, None)
  with receive, contextlib.suppress(EOFError):
    while receive.poll():
      said = receive.recv()
  return said


def _show(folder, waiting, progress):
  """Moves the progress by the shards that are there now."""
  names = set(folder.names())
  for number in [number for number in waiting if folder.name(number, "json") in names]:
    progress.update(waiting.pop(number))
