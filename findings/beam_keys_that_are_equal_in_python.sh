#!/usr/bin/env bash
# Guess: Beam groups keys that are equal in Python: 1, 1.0 and True; 0.0 and -0.0.
# Truth: GroupByKey groups by the encoded key: three groups, and two. Distinct, which combines before it groups, keeps one
#        of the three that meet in a bundle, so its result depends on how the input is cut. Keys of NumPy's types (np.int64,
#        np.str_) raise a TypeError unless a type hint is given.
# Why it matters: labels and ids come as int from JSON and as float from a table with missing values; a join by key loses them.
# Versions: apache-beam 2.77.0. Seen on 2026-11-27.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check apache-beam==2.77.0

venv/bin/python 2> log.txt > seen.txt << 'END' || { cat log.txt >&2; exit 1; }
import apache_beam as beam

print("apache-beam", beam.__version__)


def run(name, values, transform):
  results = []
  with beam.Pipeline(runner="DirectRunner") as pipeline:
    keys = pipeline | beam.Create(values) | "any type" >> beam.Map(lambda value: value)
    lines = keys | transform | "text" >> beam.Map(repr)
    lines | beam.combiners.ToList() | "sorted" >> beam.Map(lambda found: print(name, values, "->", sorted(found)))


class Groups(beam.PTransform):
  def expand(self, keys):
    return keys | "pair" >> beam.Map(lambda key: (key, None)) | beam.GroupByKey() | beam.Keys()


run("GroupByKey", [1, 1.0, True], Groups())
run("GroupByKey", [0.0, -0.0], Groups())
run("Distinct", [1, 1.0, True], beam.Distinct())
END
cat seen.txt

diff - seen.txt << 'END' || { echo "beam_keys_that_are_equal_in_python.sh: the behavior has changed: < seen on 2026-11-27, > seen now" >&2; exit 1; }
apache-beam 2.77.0
GroupByKey [1, 1.0, True] -> ['1', '1.0', 'True']
GroupByKey [0.0, -0.0] -> ['-0.0', '0.0']
Distinct [1, 1.0, True] -> ['1']
END
