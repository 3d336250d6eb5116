#!/usr/bin/env bash
# Guess: pandas.read_json keeps a JSON string of digits as text, or at worst makes an integer of it.
# Truth: a column of strings that all look like numbers becomes numbers; ids of 20 digits become float64, and neighbors equal.
#        Without the quotes, as JSON numbers, the same ids raise an error instead. `dtype=False` keeps text.
# Why it matters: ids are quoted in JSON so that they stay exact. Rows of different texts then share an id.
# Versions: pandas 3.1.1. Seen on 2026-11-27.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check pandas==3.1.1

venv/bin/python > seen.txt << 'END'
import io

import pandas as pd

print("pandas", pd.__version__)
quoted = '{"id": "100000000000000000001"}\n{"id": "100000000000000000002"}\n'
for settings in ({}, {"dtype": False}):
  ids = pd.read_json(io.StringIO(quoted), lines=True, **settings)["id"]
  print("quoted", settings, ids.tolist(), "different:", ids.nunique())
try:
  print("numbers", pd.read_json(io.StringIO(quoted.replace(' "1', " 1").replace('"}', "}")), lines=True)["id"].tolist())
except ValueError as error:
  print("numbers:", type(error).__name__, error)
END
cat seen.txt

diff - seen.txt << 'END' || { echo "pandas_read_json_of_long_ids.sh: the behavior has changed: < seen on 2026-11-27, > seen now" >&2; exit 1; }
pandas 3.1.1
quoted {} [1e+20, 1e+20] different: 1
quoted {'dtype': False} ['100000000000000000001', '100000000000000000002'] different: 2
numbers: ValueError Value is too big! at position 7
END
