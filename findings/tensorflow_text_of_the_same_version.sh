#!/usr/bin/env bash
# Guess: tensorflow-text works with the TensorFlow of the same version; its requirements and pip check say so.
# Truth: tensorflow-text 2.21.0 is installed beside TensorFlow 2.21.0, pip check finds nothing, and its import fails: its library
#        looks for data of ICU 77 in TensorFlow's, which has none of it. 2.21.1 loads.
# Why it matters: pip takes the newest, 2.21.1, but a lock file, or a resolver that takes the lowest versions, pins 2.21.0, and then
#        no SavedModel with a tokenizer can be made or loaded. Ask for tensorflow-text>=2.21.1.
# Versions: TensorFlow 2.21.0, tensorflow-text 2.21.0 and 2.21.1. Seen on 2026-11-29.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
for version in 2.21.0 2.21.1; do
  venv/bin/pip install --quiet --disable-pip-version-check tensorflow==2.21.0 tensorflow-text==$version
  if venv/bin/pip check --disable-pip-version-check > check.txt; then echo "$version: pip check finds nothing"; fi
  venv/bin/python 2> errors.txt << 'END' | sed "s/^/$version: /" || true
try:
  import tensorflow_text as text
  print("tokens", text.WhitespaceTokenizer().tokenize(["a dog"]).to_list())
except ImportError as error:
  print("ImportError:", str(error).rpartition("/")[2])
END
done > seen.txt
cat seen.txt

diff - seen.txt << 'END' || { echo "tensorflow_text_of_the_same_version.sh: the behavior has changed: < seen on 2026-11-29, > seen now" >&2; exit 1; }
2.21.0: pip check finds nothing
2.21.0: ImportError: libpybinds_library_common.so: undefined symbol: icudt77_dat
2.21.1: pip check finds nothing
2.21.1: tokens [[b'a', b'dog']]
END
