"""Starts runners as forks of a process that has imported everything, but has not used TensorFlow.

    python -m tools.soak.forks FOLDER run_flow,run_siamese

prints json, {case: content of its output}; the cases' inputs are in FOLDER/inputs.
"""

import importlib
import json
import os
import pathlib
import pkgutil
import shutil
import sys
import traceback

from tools.soak import folders
from tools.soak.cases import cases


def import_all():
  """Imports what a runner would import, which takes most of the time of a small command."""
  import transformers

  import bert_flow_tf
  import run_scripts

  for package in (bert_flow_tf, run_scripts):
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
      importlib.import_module(module.name)
  return transformers.TFBertModel


def become(case, log):
  """Makes this process the runner; does not return."""
  try:
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    sys.argv = [case.module, *case.flags]
    importlib.import_module(f"run_scripts.{case.module}").console()
    status = 0
  except SystemExit as stop:
    status = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
  except BaseException:
    traceback.print_exc()
    status = 99
  sys.stdout.flush()
  sys.stderr.flush()
  os._exit(status)


def state(folder):
  """Returns what changes when a file is created, written, renamed or deleted."""
  found = []
  for root, _, names in os.walk(folder):
    for name in names:
      try:
        stat = os.stat(os.path.join(root, name))
      except OSError:
        continue
      found.append((root, name, stat.st_size, stat.st_mtime_ns))
  return sorted(found)


def contents(folder):
  """Returns `folders.contents`, read by another process."""
  reader, writer = os.pipe()
  pid = os.fork()
  if not pid:
    with open(writer, "w", encoding="utf-8") as file:
      json.dump(folders.contents(folder), file)
    os._exit(0)
  os.close(writer)
  with open(reader, encoding="utf-8") as file:
    found = json.load(file)
  os.waitpid(pid, 0)
  return found


def main(folder, names):
  """Runs cases undisturbed and prints what they have written."""
  folder, found = pathlib.Path(folder), {}
  out, log = folder / "out", folder / "log"
  import_all()
  for name in names.split(","):
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    pid = os.fork()
    if not pid:
      become(cases(folder / "inputs", out)[name], log)
    _, status = os.waitpid(pid, 0)
    assert status == 0, log.read_text()[-3000:]
    found[name] = contents(out)
  print(json.dumps(found))


if __name__ == "__main__":
  main(*sys.argv[1:])
