#!/usr/bin/env bash
# Guess: with quantize_dynamic a text has one embedding, whatever else is in its batch; per_channel=True makes sure of it.
# Truth: each product has one scale for all rows of its input; per_channel is for the weights alone. A row beside longer
#        ones loses digits, up to all of them. Alone, or in another order of batches, it is another embedding. Keras's
#        quantize("int8") has a scale per row: a row does not depend on its neighbors.
# Why it matters: the same text twice is no exact duplicate, and scores change with the batch size.
# Versions: ONNX Runtime 1.32.0, onnx 1.23.2, Keras 3.15.1, TensorFlow 2.21.0, NumPy 2.4.6, on a CPU. Seen on 2026-11-28.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check onnxruntime==1.32.0 onnx==1.23.2 keras==3.15.1 tensorflow==2.21.0 numpy==2.4.6

venv/bin/python 2> log.txt > seen.txt << 'END' || { cat log.txt >&2; exit 1; }
import keras
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic

print("ONNX Runtime", onnxruntime.__version__, "Keras", keras.__version__)
generator = np.random.default_rng(0)
weights = generator.normal(size=[64, 64]).astype(np.float32)
row, neighbor = generator.normal(size=[2, 1, 64]).astype(np.float32)


def report(name, embed):
  exact = (row @ weights)[0]
  alone = embed(row)[0]
  print(name)
  for factor in (1, 10, 100, 1000):
    beside = embed(np.concatenate([row, factor * neighbor]))[0]
    cosine = beside @ exact / max(np.linalg.norm(beside) * np.linalg.norm(exact), 1e-9)
    equal = np.array_equal(beside, alone)
    print(f"  beside a row {factor} times as long: as alone {equal}, cosine to float32 above .999 {bool(cosine > 0.999)}")


node = helper.make_node("MatMul", ["x", "weights"], ["y"])
ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", 64]) for name in ("x", "y")]
graph = helper.make_graph([node], "product", ends[:1], ends[1:], [numpy_helper.from_array(weights, "weights")])
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "float32.onnx")
for per_channel in (False, True):
  quantize_dynamic("float32.onnx", "int8.onnx", weight_type=QuantType.QInt8, per_channel=per_channel)
  session = onnxruntime.InferenceSession("int8.onnx", providers=["CPUExecutionProvider"])
  report(f"ONNX Runtime, per_channel={per_channel}", lambda x: session.run(None, {"x": x})[0])
inputs = keras.Input([64])
model = keras.Model(inputs, keras.layers.Dense(64, use_bias=False)(inputs))
model.layers[1].set_weights([weights])
model.quantize("int8")
report("Keras", lambda x: np.array(model(x)))
END
cat seen.txt

diff - seen.txt << 'END' || { echo "onnxruntime_int8_depends_on_the_batch.sh: the behavior has changed: < seen on 2026-11-28, > seen now" >&2; exit 1; }
ONNX Runtime 1.32.0 Keras 3.15.1
ONNX Runtime, per_channel=False
  beside a row 1 times as long: as alone False, cosine to float32 above .999 True
  beside a row 10 times as long: as alone False, cosine to float32 above .999 False
  beside a row 100 times as long: as alone False, cosine to float32 above .999 False
  beside a row 1000 times as long: as alone False, cosine to float32 above .999 False
ONNX Runtime, per_channel=True
  beside a row 1 times as long: as alone False, cosine to float32 above .999 True
  beside a row 10 times as long: as alone False, cosine to float32 above .999 False
  beside a row 100 times as long: as alone False, cosine to float32 above .999 False
  beside a row 1000 times as long: as alone False, cosine to float32 above .999 False
Keras
  beside a row 1 times as long: as alone True, cosine to float32 above .999 True
  beside a row 10 times as long: as alone True, cosine to float32 above .999 True
  beside a row 100 times as long: as alone True, cosine to float32 above .999 True
  beside a row 1000 times as long: as alone True, cosine to float32 above .999 True
END
