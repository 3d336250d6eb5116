#!/usr/bin/env bash
# Runs run_siamese.py as the published script of the same name:
#
#   train_siamese.sh train|eval|predict|predict_pool|predict_dev|predict_full|do_senteval "--FLAG=VALUE --FLAG=VALUE"
#
#   BERT_PREMODELS      folder of Google's BERT folders; default ../bert_premodels
#   BERT_NAME           base, large, or a folder's name; default base
#   GLUE_DIR            folder of the tasks' folders; default ../glue_data
#   TASK_NAME           default STS-B
#   INIT_CKPT           checkpoint to start from; default bert_model.ckpt in the BERT's folder
#   OUTPUT_PARENT_DIR   folder of the experiments; default ../exp
#   RANDOM_SEED         default 1234
#   PYTHON              default python3
set -euo pipefail

fail() { echo "error: $*" >&2; exit 1; }

case "${1:-}" in
  train) mode=(--do_train=true) ;;
  eval) mode=(--do_eval=true) ;;
  predict) mode=(--do_predict=true) ;;
  predict_pool) mode=(--do_predict=true --predict_pool=true) ;;
  predict_dev) mode=(--do_predict=true --do_predict_on_dev=true) ;;
  predict_full) mode=(--do_predict=true --do_predict_on_full=true) ;;
  do_senteval) mode=(--do_senteval=true) ;;
  *) fail "'${1:-}': expected train, eval, predict, predict_pool, predict_dev, predict_full or do_senteval" ;;
esac
[ $# -le 2 ] || fail "'$3': expected the flags in one pair of quotes"

case "${BERT_NAME:=base}" in
  base) folder=uncased_L-12_H-768_A-12 ;;
  large) folder=uncased_L-24_H-1024_A-16 ;;
  *) folder=$BERT_NAME ;;
esac
bert=${BERT_PREMODELS:=../bert_premodels}/$folder
[ -d "$bert" ] || fail "BERT_PREMODELS=$BERT_PREMODELS: no folder $folder in it; expected Google's BERT (BERT_NAME=$BERT_NAME)"
task=${TASK_NAME:=STS-B} data=${GLUE_DIR:=../glue_data}
[ ! -d "$data/$task" ] || data=$data/$task # ALLNLI reads MNLI and SNLI in GLUE_DIR

set -f # the flags are split at blanks, but not expanded as patterns
exec "${PYTHON:-python3}" "$(dirname "${BASH_SOURCE[0]}")/run_siamese.py" \
  --task_name="$task" --data_dir="$data" --max_seq_length=64 \
  --bert_config_file="$bert/bert_config.json" --vocab_file="$bert/vocab.txt" \
  --init_checkpoint="${INIT_CKPT:-$bert/bert_model.ckpt}" \
  --output_parent_dir="${OUTPUT_PARENT_DIR:-../exp}" --seed="${RANDOM_SEED:-1234}" \
  "${mode[@]}" ${2:-}
