#!/usr/bin/env bash
# Runs run_siamese.py as the published script of the same name:
#
#   train_siamese.sh train|eval|predict|predict_pool|predict_dev|predict_full|do_senteval "--FLAG=VALUE --FLAG=VALUE"
#
#   BERT_PREMODELS      folder of Google's BERT folders; default ../bert_premodels
#   BERT_NAME           base, large, large-wwm, or a folder's name; default base
#   GLUE_DIR            folder of the tasks' folders; default ../glue_data
#   TASK_NAME           default STS-B
#   INIT_CKPT           checkpoint to start from; default bert_model.ckpt in the BERT's folder
#   OUTPUT_PARENT_DIR   folder of the experiments; default ../exp
#   PYTHON              default python3
#
# The prediction of embeddings, by predict_pool, predict_dev and predict_full, needs the checkpoint of an experiment.
set -euo pipefail

fail() { echo "error: $*" >&2; exit 1; }

start=1 # whether the mode takes INIT_CKPT
case "${1:-}" in
  train) mode=(--do_train --do_eval) ;;
  eval) mode=(--do_eval) ;;
  predict) mode=(--do_predict) ;;
  predict_pool) mode=(--do_predict --predict_pool) start= ;;
  predict_dev) mode=(--do_predict --do_predict_on_dev --predict_pool) start= ;;
  predict_full) mode=(--do_predict --do_predict_on_full --predict_pool) start= ;;
  do_senteval) mode=(--do_senteval) ;;
  *) fail "'${1:-}': expected train, eval, predict, predict_pool, predict_dev, predict_full or do_senteval" ;;
esac
[ $# -le 2 ] || fail "'$3': expected the flags in one pair of quotes"

premodels=${BERT_PREMODELS:-../bert_premodels} name=${BERT_NAME:-base}
case "$name" in
  large-wwm) folder=wwm_uncased_L-24_H-1024_A-16 ;;
  large) folder=uncased_L-24_H-1024_A-16 ;;
  *) folder=uncased_L-12_H-768_A-12 ;;
esac
[ ! -d "$premodels/$name" ] || folder=$name
bert=$premodels/$folder
[ -d "$bert" ] || fail "BERT_PREMODELS=$premodels: no folder $folder in it; expected Google's BERT (BERT_NAME=$name)"
[ -z "$start" ] || mode+=(--init_checkpoint="${INIT_CKPT:-$bert/bert_model.ckpt}")
task=${TASK_NAME:-STS-B}

# A flag in the quotes replaces that of this script.
flags=()
for flag in --task_name="$task" --data_dir="${GLUE_DIR:-../glue_data}/$task" --max_seq_length=64 \
  --bert_config_file="$bert/bert_config.json" --vocab_file="$bert/vocab.txt" \
  --output_parent_dir="${OUTPUT_PARENT_DIR:-../exp}" "${mode[@]}"; do
  [[ " ${2:-} " == *" ${flag%%=*}"[\ =]* ]] || flags+=("$flag")
done

set -f # the flags are split at blanks, but not expanded as patterns
exec "${PYTHON:-python3}" "$(dirname "${BASH_SOURCE[0]}")/run_siamese.py" "${flags[@]}" ${2:-}
