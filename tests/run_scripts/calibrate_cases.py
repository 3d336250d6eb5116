"""Command lines of run_calibrate, good and bad, in one process.

Run as a module with a folder to work in, it prints json as `hostile` does.
"""

import json
import pathlib
import sys

from tests.run_scripts.command_lines import run_all


def good(folder):
  """Returns {case: flags} of command lines that work, in their order."""
  return {
    "fit": [f"--vectors={folder}/a.npy", "--calibration=whitening-4", f"--output={folder}/w", "--vectors_of=mine"],
    "apply": [f"--vectors={folder}/b.npy", f"--calibration_folder={folder}/w", f"--output={folder}/new/b.npy"],
    "fit a flow": [
      *(f"--vectors={folder}/[ab].npy", "--calibration=flow", f"--output={folder}/flow"),
      *(f"--flow_model_config={folder}/small.json", "--train_batch_size=4"),
    ],
    "apply to shards": [
      f"--vectors={folder}/[ab].npy",
      f"--calibration_folder={folder}/w",
      f"--output={folder}/shards",
    ],
    "fit views": [f"--vectors={folder}/a.npy", "--calibration=sn", f"--output={folder}/views", "--shares=0.6,0.4"],
  }


def bad(folder):
  """Returns {case: (flags, text of the error)}: the flag, or the file at fault."""
  vectors, sn, out = f"--vectors={folder}/a.npy", "--calibration=sn", f"--output={folder}/out"
  apply = f"--calibration_folder={folder}/w"
  return {
    "no vectors": ([sn, out], "--vectors"),
    "no output": ([vectors, sn], "--output"),
    "neither fit nor apply": ([vectors, out], "--calibration"),
    "both": ([vectors, sn, apply, out], "--calibration"),
    "absent vectors": ([f"--vectors={folder}/absent.npy", sn, out], "--vectors"),
    "a text file": ([f"--vectors={folder}/small.json", sn, out], "--vectors"),
    "unknown calibration": ([vectors, "--calibration=zca", out], "--calibration=zca"),
    "auto without text": ([vectors, "--calibration=auto", out], "--calibration=auto"),
    "k on dev": ([vectors, "--calibration=natsv", out], "--calibration=natsv"),
    "output exists": ([vectors, sn, f"--output={folder}/a.npy"], "--output"),
    "settings of the flow": ([vectors, sn, out, "--seed=2"], "--seed"),
    "settings without a fit": ([vectors, apply, out, "--seed=2"], "--seed"),
    "shares of 1.2": ([vectors, sn, out, "--shares=0.6,0.6"], "--shares"),
    "shares of 4 views": ([vectors, sn, out, "--shares=0.2,0.2,0.3,0.3"], "--shares"),
    "shares without a fit": ([vectors, apply, out, "--shares=0.6,0.4"], "--shares"),
    "a NaN": ([f"--vectors={folder}/nan.npy", sn, out], "nan.npy, row 5 "),
    "one row": ([f"--vectors={folder}/one.npy", sn, out], "at least 2"),
    "other dimensions": ([f"--vectors={folder}/narrow.npy", apply, out], "--calibration_folder"),
    "other vectors": ([vectors, apply, out, "--vectors_of=yours"], "--calibration_folder"),
    "no calibration": ([vectors, f"--calibration_folder={folder}", out], "--calibration_folder"),
  }


def main(folder):
  """Runs every case."""
  import numpy as np

  from run_scripts import run_calibrate

  folder = pathlib.Path(folder)
  rows = np.random.default_rng(0).normal(size=[40, 6]).astype(np.float32)
  broken = rows.copy()
  broken[5, 2] = np.nan
  arrays = {"a": rows, "b": rows[::-1], "nan": broken, "one": rows[:1], "narrow": rows[:, :3]}
  for name, array in arrays.items():
    np.save(folder / f"{name}.npy", array)
  (folder / "small.json").write_text('{"n_levels": 1, "depth": 1, "coupling_width": 8}')
  run_calibrate.define_flags()
  refused = {name: arguments for name, (arguments, _) in bad(folder).items()}
  print(json.dumps(run_all(run_calibrate.main, {**good(folder), **refused})))


if __name__ == "__main__":
  main(sys.argv[1])
