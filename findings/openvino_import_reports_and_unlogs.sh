#!/usr/bin/env bash
# Guess: importing an inference library from a package index tells nobody, and leaves the program's logging alone.
# Truth: `import openvino` forks a process that sends an event to Google Analytics: an id that is kept in ~/intel, the
#        version, the system, whether it is a container, and a count of uses. CI=true leaves it out, as does an
#        environment without openvino-telemetry. In any case absl's handler is gone from the root logger, and absl's
#        lines have another form.
# Why it matters: a service that embeds confidential text may call nobody, and TensorFlow programs log by absl.
# Versions: OpenVINO 2026.4.1, openvino-telemetry 2025.2.0, absl-py 2.5.1, on Linux. Seen on 2026-11-28; the script stops
#           the event before it is sent.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check openvino==2026.4.1 openvino-telemetry==2025.2.0 absl-py==2.5.1

venv/bin/python 2> log.txt > seen.txt << 'END' || { cat log.txt >&2; exit 1; }
import os
import pathlib
import subprocess
import sys
from importlib import metadata

program = """
import json
import logging
import sys

from absl import logging as absl_logging


def stop(event, values):
  if event == "os.fork":
    print("  a fork", flush=True)
  if event == "urllib.Request":
    sent = json.loads(values[1])
    print("  to", values[0].split("/")[2], sorted(sent), flush=True)
    print("  event:", sorted(sent["events"][0]["params"]), flush=True)
    raise OSError("not sent")


sys.addaudithook(stop)
absl_logging.use_absl_handler()
absl_logging.set_verbosity(absl_logging.INFO)
print("  handlers of the root logger before", len(logging.root.handlers))
import openvino

print("  handlers of the root logger behind", len(logging.root.handlers))
absl_logging.info("a line")
"""
print("OpenVINO", metadata.version("openvino"), "absl-py", metadata.version("absl-py"))
for ci in ("false", "true"):
  home = pathlib.Path(f"home_{ci}").absolute()
  home.mkdir()
  environment = {**os.environ, "HOME": str(home), "CI": ci}
  done = subprocess.run([sys.executable, "-c", program], env=environment, cwd=home, capture_output=True, text=True, check=True)
  print(f"CI={ci}")
  print("\n".join(sorted(done.stdout.splitlines())))  # a thread forks
  print("  in ~/intel:", sorted(path.name for path in (home / "intel").rglob("*") if path.is_file()))
  print("  on stderr:", [line for line in done.stderr.splitlines() if line.startswith("INFO:")])
END
cat seen.txt

diff - seen.txt << 'END' || { echo "openvino_import_reports_and_unlogs.sh: the behavior has changed: < seen on 2026-11-28, > seen now" >&2; exit 1; }
OpenVINO 2026.4.1 absl-py 2.5.1
CI=false
  a fork
  event: ['app_name', 'app_version', 'docker', 'event_category', 'event_count', 'event_label', 'os', 'session_id', 'usage_count', 'usage_group']
  handlers of the root logger before 1
  handlers of the root logger behind 0
  to www.google-analytics.com ['client_id', 'events', 'non_personalized_ads']
  in ~/intel: ['openvino_ga_cid', 'stats']
  on stderr: ['INFO:absl:a line']
CI=true
  handlers of the root logger before 1
  handlers of the root logger behind 0
  in ~/intel: []
  on stderr: ['INFO:absl:a line']
END
