#!/bin/sh
# Fits one flow on two machines, half of each step's pairs on either.
#
#   on the first:   run_two_machines.sh 0 HOST0:PORT HOST1:PORT --task=STS-B --data_dir=DATA --model=large
#   on the second:  run_two_machines.sh 1 HOST0:PORT HOST1:PORT --task=STS-B --data_dir=DATA --model=large
#
# The same flags on both, which refuse to go on together otherwise; encoder and data have to be on both. The addresses
# are the same two on both, and each must be able to reach the other's port. The order of the starts does not matter:
# each waits ten minutes for the other. The first one writes the experiment's folder, the second one writes nothing.
# If either stops, so does the other within half a minute; the same two commands go on from the last checkpoint.
#
# Both on one machine, to try it: localhost:23456 and localhost:23457 as addresses.
set -eu
if [ $# -lt 3 ]; then
  echo "usage: $0 0|1 HOST0:PORT HOST1:PORT [flags of run_flow.py]" >&2
  exit 1
fi
index=$1 first=$2 second=$3
shift 3
TF_CONFIG="{\"cluster\": {\"worker\": [\"$first\", \"$second\"]}, \"task\": {\"type\": \"worker\", \"index\": $index}}"
export TF_CONFIG
exec "${PYTHON:-python}" "$(dirname "$0")/run_flow.py" --distribution_strategy=multi_worker_mirrored "$@"
