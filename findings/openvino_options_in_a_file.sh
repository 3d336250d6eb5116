#!/usr/bin/env bash
# Guess: `runtime_options` in a model's file are options as if compile_model had got them; one that is unknown is an error.
# Truth: two of these were read: the group size of int8 and the precision of a key-value cache. Hints of execution,
#        performance and streams, and options that do not exist, are ignored without a word; so is
#        INFERENCE_PRECISION_HINT (not shown: its default depends on the CPU).
# Why it matters: a file cannot say that its embeddings need float32, or accuracy; whoever loads it must.
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
options = {
  "EXECUTION_MODE_HINT": "ACCURACY",
  "PERFORMANCE_HINT": "THROUGHPUT",
  "NUM_STREAMS": "2",
  "DYNAMIC_QUANTIZATION_GROUP_SIZE": "64",
  "KV_CACHE_PRECISION": "f16",
}
x = opset15.parameter([-1, 4], np.float32)
model = openvino.Model([opset15.relu(x)], [x], "model")
core = openvino.Core()
given = core.compile_model(model, "CPU", options)
for name, value in {**options, "NO_SUCH_OPTION": "1"}.items():
  model.set_rt_info(value, ["runtime_options", name])
openvino.save_model(model, "model.xml")
read = core.compile_model("model.xml", "CPU")
default = core.compile_model(openvino.Model([opset15.relu(x)], [x], "plain"), "CPU")
for name in options:
  taken = read.get_property(name) == given.get_property(name)
  print(f"{name}: from the file {taken}, default differs {default.get_property(name) != given.get_property(name)}")
END
cat seen.txt

diff - seen.txt << 'END' || { echo "openvino_options_in_a_file.sh: the behavior has changed: < seen on 2026-11-28, > seen now" >&2; exit 1; }
OpenVINO 2026.4.1
EXECUTION_MODE_HINT: from the file False, default differs True
PERFORMANCE_HINT: from the file False, default differs True
NUM_STREAMS: from the file False, default differs True
DYNAMIC_QUANTIZATION_GROUP_SIZE: from the file True, default differs True
KV_CACHE_PRECISION: from the file True, default differs True
END
