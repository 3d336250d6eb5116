#!/usr/bin/env bash
# Checks and measures on a machine with one GPU, in about eight minutes, what no test on a CPU can; prints one table.
#
#   tools/gpu_check.sh            makes .venv with the extras and-cuda and test, or uses the Python that $PYTHON names
#   tools/gpu_check.sh --small    the same rows with small sizes, to try the script on a machine without a GPU
#
# A row that fails says so, the others follow, and the status is 1. Each row has a log in exp/gpu_check, or in $OUT.
set -uo pipefail
cd "$(dirname "$0")/.."

python=${PYTHON:-.venv/bin/python}
if ! command -v "$python" > /dev/null; then
  python3 -m venv .venv && .venv/bin/pip install -q -e '.[and-cuda,test]' || exit
fi
export PYTHONPATH=$PWD
# Two processes share the GPU in a row below; without this the first would take all of its memory.
export TF_FORCE_GPU_ALLOW_GROWTH=true
folder=${OUT:-exp/gpu_check}
mkdir -p "$folder"
runs=$(mktemp -d)
trap 'rm -rf "$runs"' EXIT

kind=GPU
shapes="bert bert-large"
sizes=(--repeats=3 --encoder_sentences=1400 --predict_batch_size=256)
if [ "${1:-}" = --small ]; then
  kind=CPU
  shapes=minilm
  sizes=(--repeats=1 --steps=40 --training_steps=1 --encoder_sentences=8)
fi

run() {  # arguments of Python; no row holds up the others for longer
  timeout 200 "$python" "$@"
}

devices() {
  run -c "
import tensorflow as tf
for device in tf.config.list_physical_devices('$kind'):
  print('device:', tf.config.experimental.get_device_details(device).get('device_name', device.name))
print('TensorFlow', tf.__version__)"
}

measure() {  # part of the benchmark, flags
  run benchmarks/run.py --benchmark="$1" --tasks=sample --model=mini "${sizes[@]}" --output_dir="$runs" "${@:2}"
}

fit() {  # name, flags
  run run_scripts/run_flow.py --output="$runs/$1" "${@:2}"
}

train_twice() {
  local name
  for name in first second; do
    run run_scripts/run_siamese.py --task=sample --model=mini --do_train --deterministic --output="$runs/$name" ||
      return
  done
  cmp "$runs"/{first,second}/encoder/model.safetensors && echo "two trainings, the same weights"
}

golden() {
  run -m pytest -q -o addopts= tests/flow/golden_test.py tests/tf1/golden_test.py \
    tests/training/flow_trainer_golden_test.py tests/training/siamese/golden_test.py \
    tests/encoder/transformer/golden_forward_test.py
}

table=""
failed=0
row() {  # name, expression of sed that prints the result from the output, command
  local start=$SECONDS log=$folder/${1//[^a-z0-9]/_}.log status result
  "${@:3}" > "$log" 2>&1
  status=$?
  result=$(sed -nE "$2" "$log" | paste -sd ';' | sed 's/;/; /g')
  if [ $status != 0 ] || [ -z "$result" ]; then
    result="FAILED with status $status: $(tail -n 1 "$log")"
    failed=1
  fi
  result=$(printf '%-26s %4d s  %s' "$1" $((SECONDS - start)) "$result")
  echo "$result"
  table+=$result$'\n'
}

score='s/^test +[0-9]+ +(Spearman) +/\1 /p'
rate='s/^\| (ours[^(]*) \([^|]*\| ([^|]*) \|.*\| ([^|]*) \|$/\1: \2 sentences\/s, largest difference \3/p'
step='s/^\| (with[^|]*) \| ([^|]*) \| ([^|]*) \|$/\1: \2 s to start, \3 ms per step/p'
training='s/^\| (p[^|]*pairs) \| ([^|]*) \|.*/\1: \2 s per step/p'
row "device" 's/^device: //p' devices
row "main command" "$score" fit main
row "flow, with XLA and without" "$step" measure step
for shape in $shapes; do
  for precision in bfloat16 float16; do
    row "encoder, $shape, $precision" "$rate" measure encoder --architecture="$shape" --precision=$precision
  done
done
row "training step" "$training" measure training_step --random_base
row "fit with XLA" "$score" fit xla --use_xla
row "fit, MirroredStrategy" "$score" fit mirrored --distribution_strategy=mirrored
row "fit, deterministic" "$score" fit deterministic --deterministic
row "training, deterministic" 's/^two trainings, //p' train_twice
# Numbers that are compared: TF32 would round the factors of float32's products to 10 bits.
export NVIDIA_TF32_OVERRIDE=0
row "export" 's/.* ([0-9]+ requests, 0 wrong answers).*/\1/p' measure serving --load_seconds=5
row "golden files" '/ passed/p' golden

echo
echo "$table"
exit $failed
