#!/usr/bin/env bash
# Guess: what a callback of AsyncInferQueue reads is the answer to its request, for good.
# Truth: get_output_tensor().data is a view of memory that the next request overwrites: kept in a list, the rows are those
#        of the last requests. The request's `results` are copies, as are those of compiled_model(x).
# Why it matters: embedding many batches by a queue is the fast way, and gives as many rows as expected, many of them of
#        other texts.
# Versions: OpenVINO 2026.4.1, NumPy 2.4.6, on a CPU. Seen on 2026-11-28.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check openvino==2026.4.1 numpy==2.4.6

CI=true venv/bin/python 2> log.txt > seen.txt << 'END' || { cat log.txt >&2; exit 1; }
from importlib import metadata

import numpy as np
import openvino
from openvino import opset15

print("OpenVINO", metadata.version("openvino"))
x = opset15.parameter([1, 1], np.float32)
x.output(0).set_names({"x"})
compiled = openvino.compile_model(openvino.Model([opset15.relu(x)], [x], "model"), "CPU")


def from_data(request):
  return request.get_output_tensor().data


def from_results(request):
  return next(iter(request.results.values()))


for read in (from_data, from_results):
  queue = openvino.AsyncInferQueue(compiled, 1)
  answers = {}
  queue.set_callback(lambda request, number: answers.update({number: read(request)}))
  for number in range(1, 5):
    queue.start_async({"x": np.full([1, 1], number, np.float32)}, number)
  queue.wait_all()
  print(read.__name__, {number: answer.item() for number, answer in sorted(answers.items())})
END
cat seen.txt

diff - seen.txt << 'END' || { echo "openvino_callbacks_get_a_view.sh: the behavior has changed: < seen on 2026-11-28, > seen now" >&2; exit 1; }
OpenVINO 2026.4.1
from_data {1: 4.0, 2: 4.0, 3: 4.0, 4: 4.0}
from_results {1: 1.0, 2: 2.0, 3: 3.0, 4: 4.0}
END
