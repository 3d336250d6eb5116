#!/usr/bin/env bash
# Guess: a JSON string stays a string when datasets or pyarrow reads a JSON-lines file, or at least where the features say so.
# Truth: a column in which every string looks like an ISO date or time is read as timestamp[s]. "2026-11-27" comes back as a
#        datetime, and a time zone's offset is gone. With `features` that declare strings, datasets converts after reading: the
#        string is then "2026-11-27 00:00:00". Only pyarrow's explicit_schema keeps the text.
# Why it matters: ids, titles or sentences such as "2026-11-27" change, and no longer join with the file that they come from.
# Versions: datasets 5.2.0, pyarrow 25.0.1. Seen on 2026-11-27.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check datasets==5.2.0 pyarrow==25.0.1

venv/bin/python > seen.txt << 'END'
import datasets
import pyarrow as pa
import pyarrow.json

print("datasets", datasets.__version__, "pyarrow", pa.__version__)
datasets.disable_progress_bars()
with open("texts.jsonl", "w") as file:
  file.write('{"id": "2026-11-27", "at": "2026-11-27T10:00:00+02:00"}\n')


def load(features=None):
  return datasets.load_dataset("json", data_files="texts.jsonl", split="train", cache_dir="cache", features=features)[0]


strings = datasets.Features({"id": datasets.Value("string"), "at": datasets.Value("string")})
schema = pa.schema([("id", pa.string()), ("at", pa.string())])
options = pyarrow.json.ParseOptions(explicit_schema=schema)
print("pyarrow", pyarrow.json.read_json("texts.jsonl").schema.field("id").type)
print("pyarrow, explicit_schema", pyarrow.json.read_json("texts.jsonl", parse_options=options).to_pylist()[0])
print("datasets", load())
print("datasets, features", load(strings))
END
cat seen.txt

diff - seen.txt << 'END' || { echo "json_dates_become_timestamps.sh: the behavior has changed: < seen on 2026-11-27, > seen now" >&2; exit 1; }
datasets 5.2.0 pyarrow 25.0.1
pyarrow timestamp[s]
pyarrow, explicit_schema {'id': '2026-11-27', 'at': '2026-11-27T10:00:00+02:00'}
datasets {'id': datetime.datetime(2026, 11, 27, 0, 0), 'at': datetime.datetime(2026, 11, 27, 8, 0)}
datasets, features {'id': '2026-11-27 00:00:00', 'at': '2026-11-27 08:00:00'}
END
