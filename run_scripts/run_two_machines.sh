#!/bin/sh
# Fits one flow on two machines, each with half of the pairs of each step.
#
#   on the first:   run_scripts/run_two_machines.sh 0 HOST0:PORT HOST1:PORT --task=STS-B --data_dir=DATA --model=large
#   on the second:  run_scripts/run_two_machines.sh 1 HOST0:PORT HOST1:PORT --task=STS-B --data_dir=DATA --model=large
#
# Addresses and flags are the same on both; a difference is an error. Both need encoder and data, and each must reach the
# other's port. Either may be started first: it waits ten minutes for the other. The first one writes the experiment's
# folder. If one stops, the other stops within about a minute; the same two commands resume from the last checkpoint.
#
# To try it on one machine: localhost:23456 and localhost:23457 as addresses.
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
