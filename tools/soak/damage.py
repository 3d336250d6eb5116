"""Damages every kind of folder that is loaded 220 times: python -m tools.soak.damage [TRUNCATIONS FLIPS [NAME ...]].

Prints a table: how often a damaged folder was rejected with one sentence, gave the same numbers, or gave others, which
is possible only for folders without checksums.
"""

import pathlib
import sys
import tempfile
import time

from absl import logging

from tests.damage import HARMLESS, OTHER, REFUSED, run
from tests.damage_cases import CASES


def main() -> int:
  """Returns the exit status: 1 if an outcome is wrong."""
  truncations, flips = map(int, sys.argv[1:3] or (20, 200))
  logging.set_verbosity(logging.FATAL)
  print(
    f"| folder | damaged | {REFUSED} | {HARMLESS} | {OTHER} | seconds |\n| --- | ---: | ---: | ---: | ---: | ---: |"
  )
  failed = []
  for name in sys.argv[3:] or CASES:
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
      counts, wrong = run(CASES[name], pathlib.Path(folder), truncations, flips)
    numbers = [counts.total(), *(counts[outcome] for outcome in (REFUSED, HARMLESS, OTHER))]
    print(f"| {name} | {' | '.join(map(str, numbers))} | {time.monotonic() - start:.0f} |", flush=True)
    failed += [f"{name}: {what}" for what in wrong]
  print("\n".join(failed))
  return int(bool(failed))


if __name__ == "__main__":
  sys.exit(main())
