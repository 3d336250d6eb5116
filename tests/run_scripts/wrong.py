"""Wrong command lines of the runners, a line each: what the one line of the error names :: the flags.

"each FLAGS :: ..." is a command line for each of the flags behind it, each of which the error names. "|" separates
texts of which one suffices. @ is the folder that the test's `prepare` has filled; LONG is a name of 300
letters; other words in capitals stand for the flags of `_SHORT`. Some lines need what a line above them, or a right
command line, has left in the folder.
"""

import shlex

_SHORT = {
  "flow": {},
  "calibrate": {
    "A": "--vectors=@/a.npy",
    "SN": "--calibration=sn",
    "OUT": "--output=@/out",
    "APPLY": "--calibration_folder=@/w",
  },
  "eval": {
    "STSB": "--task=STS-B --data_dir=@/data",
    "SENTEVAL": "--senteval=@/SentEval --senteval_trusted --senteval_tasks=STS12",
  },
  "siamese": {"TRAIN": "--task=SICK-E --do_train", "FLOW": "--flow --flow_loss", "STSB": "--task=STS-B --do_train"},
  "convert": {
    "NEVER": "--output_dir=@/never --max_seq_length=16",
    "BACK": "--encoder=@/to/all/encoder --output_checkpoint=@/back/never/model.ckpt",
  },
  "embed": {
    "MODEL": "--model=@/model --max_seq_length=9",
    "OTHER": "--model=@/other --max_seq_length=9",
    "TEXT": "--input=@/plain.txt",
    "FLOW": "--flow_folder=@/whitening",
  },
  "distill": {
    "TINY": "--model=@/tiny --output=@/never",
    "FIT": "--calibration=soft-whitening --corpus=@/corpus.txt",
  },
  "table": {"WORDS": "--model=glove:@/tiny.vec.txt"},
}

_WRONG = {
  "flow": """
each --beir=@/beir :: --task=STS-B --columns=a,b --split=dev
each :: --split=test --fit_queries
--queries :: --beir=@/beir --fit_queries --queries=@/corpus.txt
each :: --flow_model_config= --flow_model_config=@ --low_dim=-2 --low_dim=7 --max_seq_length=1 --max_seq_length=100000
each :: --train_batch_size=0 --predict_batch_size=0 --num_train_epochs=0 --flow_learning_rate=0
each :: --save_checkpoints_steps=0 --actnorm_init=zeros
each :: --output_parent_dir=@/file --output_parent_dir=@/file/below
each :: --output_parent_dir=/proc/nobody --task --task=STS-C --task= --model=gpt --data_dir=@/empty
each :: --calibration=flow,pca --calibration=SN,flow,sn --calibration= --calibration=flow+auto --flow_corpus=@/absent
median :: --sentence_embedding_type=median
avg-top-9 :: --sentence_embedding_type=avg-top-9
cls :: --sentence_embedding_type=cls
absent.json :: --flow_model_config=@/absent.json
nnn :: --flow_model_config=LONG
garbage.json :: --flow_model_config=@/garbage.json
binary.json :: --flow_model_config=@/binary.json
list.json :: --flow_model_config=@/list.json
levels :: --flow_model_config=@/unknown.json
use_fp16 :: --flow_model_config=@/fp16.json
low_dim :: --calibration=whitening-6 --low_dim=4
--train_batch_size=1: a flow starts :: --train_batch_size=1
no step :: --train_batch_size=100000
no step :: --num_train_epochs=1e-9
at step :: --flow_learning_rate=1e30 --exp_name=kept --save_checkpoints_steps=1
seed 1234 :: --flow_learning_rate=1e30 --exp_name=kept --seed=2
learning_rate 1e+30 :: --exp_name=kept
nnn :: --exp_name=LONG
file :: --cached_dir=@/file
'sample' :: sample
'--x' :: --task=sample -- --x
file :: --model=@/file
empty :: --init_checkpoint=@/empty
each :: --vocab_file=@/file --bert_config_file=@/file
--model=nnn :: --model=LONG
absent :: --task=STS-B --data_dir=@/absent
empty :: --task=STS-B --data_dir=@/empty
nnn :: --task=STS-B --data_dir=LONG
--use_full_for_training :: --task=hard-sample --nouse_full_for_training
--calibration :: --task=hard-sample --calibration=natsv
--encoder_dropout :: --calibration=sn --encoder_dropout
--precision=int8: encoder_dropout :: --precision=int8 --encoder_dropout
--precision=bfloat16 :: --precision=bfloat16 --export_dir=@/v
--engine=openvino: TensorFlow computes graphs :: --engine=openvino --precision=int8 --export_dir=@/v
--calibration=whitening-999: the covariance :: --calibration=flow,whitening-999 --exp_name=k
--flow_corpus :: --flow_corpus=train --use_full_for_training
empty :: --flow_corpus=@/empty
file :: --flow_corpus=@/file
ragged.tsv, line 2 :: --flow_corpus=@/ragged.tsv
no step :: --flow_corpus=@/short.txt
error: --flow_corpus=train :: --task=hard-sample --flow_corpus=train
error: --data_dir :: --task=custom --data_dir=@/absent.tsv
SNLI :: --flow_corpus=nli --data_dir=@/empty
--data_dir :: --flow_corpus=@/short.txt --data_dir=@/empty
--exp_name|STS-B :: --calibration=sn --exp_name=several
--exp_name|STS-14 :: --exp_name=one_pass
--exp_name|mean :: --task=hard-sample --num_train_epochs=2 --calibration=mean --exp_name=good
another run uses this folder :: --output_parent_dir=@ --exp_name=held
tsak :: --tsak=sample
""",
  "calibrate": """
each A SN OUT :: --seed=2
each A APPLY OUT :: --seed=2
--queries :: A SN OUT --queries=@/narrow.npy
--queries :: A SN OUT --queries=@/absent.npy
--queries :: A APPLY OUT --queries=@/a.npy
--role :: A SN OUT --role=query
--input :: SN OUT
--output :: A SN
--calibration :: A SN APPLY OUT
--vectors :: --vectors=@/absent.npy SN OUT
small.json: is no .npy file :: --vectors=@/small.json SN OUT
--calibration=zca :: A --calibration=zca OUT
--calibration=auto :: A --calibration=auto OUT
--calibration=natsv :: A --calibration=natsv OUT
--output :: A SN --output=@/a.npy
nan.npy, row 5  :: --vectors=@/nan.npy SN OUT
at least 2 :: --vectors=@/one.npy SN OUT
no.npy: no vectors :: --vectors=@/no.npy SN OUT
--calibration_folder :: --vectors=@/narrow.npy APPLY OUT
--calibration_folder :: A APPLY OUT --vectors_of=yours
--calibration_folder :: A --calibration_folder=@ OUT
another run uses this folder :: A APPLY --output=@/held
""",
  "eval": """
each :: --task= --data_dir=@/data --senteval= --senteval=@/absent --senteval=@/exp
each :: --predictions= --predictions=@/lines.txt
each STSB :: --metric=auc --flow_folder= --flow_folder=@/exp/sn,@/exp/../exp/sn --flow_folder=@/exp/mean
each STSB :: --flow_folder=@/gone --allow_other_encoder --senteval_trusted --model_revision=main
each STSB :: --senteval_tasks=STS12 --output_dir=
each --predictions=@/table.tsv :: --flow_folder=@/exp/sn --model=mini --split=dev --metric=auc
--task=STS-B,stsb :: --task=STS-B,stsb --data_dir=@/data
--task=STS-C :: --task=STS-B,STS-C --data_dir=@/data
--split=dev :: --task=hard-sample --split=dev
each --beir=@/beir :: --task=STS-B --metric=auc --predictions=@/table.tsv --data_dir=@/data --senteval=@ --split=dev
--beir=@/data: corpus.jsonl is missing :: --beir=@/data
queries.jsonl, line 25: the _id 'q0' repeats :: --beir=@/twice
--metric=auc :: --task=custom --data_dir=@/pairs.tsv --metric=auc
error: --flow_folder :: STSB --flow_folder=@/absent
@/exp/flow :: STSB --flow_folder=@/exp
low_dim :: STSB --flow_folder=@/damaged
weights_sha256 :: STSB --flow_folder=@/gone --model=mini
pooling :: STSB --flow_folder=@/exp/flow --sentence_embedding_type=avg-top-2
max_seq_length :: STSB --flow_folder=@/exp/sn --max_seq_length=64
--flow_folder :: STSB --flow_folder=@/exp/sn --sentence_embedding_type=concat-top-2 --allow_other_encoder
--task :: STSB --senteval=@/data
--senteval_tasks :: SENTEVAL --senteval_tasks=
--senteval_tasks=STS12,STS17 :: SENTEVAL --senteval_tasks=STS12,STS17
--senteval_trusted :: --senteval=@/SentEval
--output_dir :: STSB --output_dir=@/lines.txt
another run uses this folder :: STSB --output_dir=@/held --model=@/data
--output_dir: @/several has :: STSB --output_dir=@/several
--output_dir :: STSB --output_dir=@/senteval
--output_dir :: SENTEVAL --output_dir=@/bare
error: --predictions :: --predictions=@/absent
exp :: --predictions=@/exp
--task :: --predictions=@/lines.txt --task=STS-B,SICK-R --data_dir=@/data
few.txt :: --predictions=@/few.txt STSB
word.txt, line 4 :: --predictions=@/word.txt STSB
line 4 :: --predictions=@/underscore.txt STSB
gap.txt, line 4 :: --predictions=@/gap.txt STSB
nan.txt, line 4 :: --predictions=@/nan.txt STSB
othergold.tsv, line 4 :: --predictions=@/othergold.tsv STSB
ragged.tsv, line 4 :: --predictions=@/ragged.tsv
line 1 :: --predictions=@/noheader.tsv
nomethod.tsv, line 1 :: --predictions=@/nomethod.tsv
headeronly.tsv :: --predictions=@/headeronly.tsv
nogold.tsv :: --predictions=@/nogold.tsv
empty.txt :: --predictions=@/empty.txt
binary.txt, line 1 :: --predictions=@/binary.txt
""",
  "siamese": """
--do_train: nothing to do :: --task=SNLI --do_predict_on_dev
each --task=SNLI --do_eval :: --predict_pool --eval_checkpoint_name=model.ckpt-1
each TRAIN :: --flow_loss --num_examples=0 --num_examples=-2 --dupe_factor=0 --train_batch_size=0
each TRAIN :: --train_batch_size=640 --num_train_epochs=nan --warmup_proportion=2 --l2_penalty=nan --precision=float16
each TRAIN :: --precision=int8
each TRAIN :: --distribution_strategy=multi_worker_mirrored --train_splits=train,train
each TRAIN :: --train_splits= --stsb_gold=@/small.json --max_seq_length=64
each TRAIN :: --bert_config_file=@/exp/joint/bert_config.json --init_checkpoint=exp/model.ckpt-9
each TRAIN --init_checkpoint=@/exp/joint/model.ckpt-5 :: --bert_config_file=@/absent.json
each TRAIN --init_checkpoint=@/exp/joint/model.ckpt-5 :: --vocab_file=@/absent/vocab.txt
--task: missing :: --do_train
--task=WNLI :: --task=WNLI --do_train
--do_train :: --task=SNLI
--eval_checkpoint_name=model.ckpt-7 :: --task=STS-B --do_predict --eval_checkpoint_name=model.ckpt-7 --exp_name=joint
--flow=2: expected true or false, or 1 or 0 :: TRAIN --flow=2
--num_examples=0 :: TRAIN --num_examples=0 --flow
worker_wait_seconds :: TRAIN --worker_wait_seconds=9
--learning_rate=-1.0 :: TRAIN --learning_rate=-1
--train_splits=train :: --task=SNLI --do_train
--do_predict :: --task=SNLI --do_train --train_splits=dev --do_predict
--early_stopping :: TRAIN --train_splits=dev --early_stopping
--early_stopping :: STSB FLOW --num_examples=0 --early_stopping
early_stopping_patience :: TRAIN --early_stopping --early_stopping_patience=0
--task=SICK-E :: --task=SICK-E --do_eval --exp_name=none
--flow :: --task=STS-B --do_eval --flow --flow_model_config=@/small.json --exp_name=none
--num_examples=0 :: TRAIN FLOW --num_examples=0 --do_eval
--flow_model_config= :: STSB FLOW --flow_model_config=@/garbage.json
of this flow; train first :: --task=STS-B --do_eval --flow --flow_model_config=@/deeper.json --exp_name=frozen
--sentence_embedding_type=cls :: --task=STS-B --do_eval FLOW --low_dim=4 --sentence_embedding_type=cls --exp_name=joint
sentence_embedding_type=median :: TRAIN --sentence_embedding_type=median
--do_lower_case=False :: TRAIN --do_lower_case=false
word rows without a transformer cannot be trained :: TRAIN --model=static:@/model
--senteval= :: --task=STS-B --do_senteval --senteval=@/absent
--exp_name :: --task=STS-B --do_eval --exp_name=sick
belongs to another fit :: TRAIN --exp_name=sick --learning_rate=1e-3 --num_train_epochs=1 --seed=2
""",
  "convert": """
each --tf1_checkpoint=@/all NEVER :: --encoder=mini --bert_config_file=@/absent --vocab_file=@/absent
each --tf1_checkpoint=@/all NEVER :: --sentence_embedding_type=median --max_seq_length=17 --model_revision=v1
each BACK :: --vocab_file=x --model_revision=v1 --classifier_folder=@/other_classifier
--checkpoint: missing ::
--output :: --tf1_checkpoint=@/all
error: --tf1_checkpoint :: --tf1_checkpoint=@/absent/model.ckpt-1 NEVER
taken :: --tf1_checkpoint=@/taken NEVER
bert/extra, bert/gone/adam_m :: --tf1_checkpoint=@/more NEVER
revnet_0/revnet_step_0/actnorm/actnorm_center/b :: --tf1_checkpoint=@/lessflow NEVER
revnet_0/revnet_step_0/extra :: --tf1_checkpoint=@/moreflow NEVER
bert/embeddings/LayerNorm/beta,  :: --tf1_checkpoint=@/noencoder NEVER
loss/output_weights :: --tf1_checkpoint=@/nan NEVER
output_weights :: --tf1_checkpoint=@/turned NEVER
--sentence_embedding_type :: --tf1_checkpoint=@/wide NEVER
--sentence_embedding_type :: --tf1_checkpoint=@/low NEVER --low_dim=4
sentence_embedding_type :: --tf1_checkpoint=@/low NEVER --sentence_embedding_type=cls --output_dir=@/cls
--output_dir :: --tf1_checkpoint=@/all --output_dir=@/taken --max_seq_length=16
flow.json :: --tf1_checkpoint=@/all --output_dir=@/flow.json/x --max_seq_length=16
--output_checkpoint :: --encoder=@/to/all/encoder --output_checkpoint=@/back/all/model.ckpt-1234
--output_checkpoint :: --encoder=@/to/all/encoder --output_checkpoint=@/back
--output_checkpoint :: --encoder=@/to/cased/encoder --output_checkpoint=@/back/all/model.ckpt-2
error: --encoder :: --encoder=@/absent --output_checkpoint=@/back/never
error: --flow_folder :: BACK --flow_folder=@/absent
mean :: BACK --flow_folder=@/mean
error: --classifier_folder :: BACK --classifier_folder=@/mean
--flow_folder :: --encoder=@/to/low/encoder --output_checkpoint=@/back/never --flow_folder=@/to/all/flow
flow.json :: --encoder=@/to/all/encoder --output_checkpoint=@/flow.json/x/model.ckpt
""",
  "embed": """
each MODEL TEXT :: --output_dir= --id_column=2 --shard_size=0 --cached_dir=@/cache --allow_other_encoder
each MODEL TEXT :: --beam_options=direct_num_workers=2
each MODEL --input=@/rows.tsv :: --column=0 --column=
--input :: MODEL
--input :: MODEL --input=@/absent*.txt
--input :: MODEL TEXT,
empty.txt is empty :: MODEL --input=@/empty.txt
cut.txt.gz :: MODEL --input=@/cut.txt.gz
plain.txt :: MODEL TEXT --input_format=tfrecord --column=a
--input_format :: MODEL TEXT,@/rows.tsv
rows.parquet :: MODEL --input=@/rows.parquet
--input :: MODEL --input=@/pairs.tsv
--header :: MODEL --input=@/rows.jsonl --column=sentence --header
rows.csv, line 1: 0 columns 'text' :: MODEL --input=@/rows.csv --column=text
--column :: MODEL TEXT --input_format=text --column=2
--header :: MODEL TEXT --noheader
rows.tsv, line 1 :: MODEL --input=@/rows.tsv --column=text
--column=text :: MODEL --input=@/rows.tsv --column=text --noheader
--header :: MODEL --input=@/rows.tfrecord --column=a --header
--model=gpt|gpt :: --model=gpt TEXT
error: --flow_folder :: --flow_folder=@/absent TEXT
give --vocab_file=vocab.txt|give --vocab_file=vocabulary.txt :: --model=@/preset TEXT --max_seq_length=9
--vocab_file=@/absent: no such file :: --model=@/preset TEXT --vocab_file=@/absent
no checkpoint and no KerasHub preset :: MODEL TEXT --vocab_file=@/plain.txt
weights_sha256 :: FLOW OTHER TEXT
max_seq_length :: FLOW --max_seq_length=10 TEXT
12 dimensions :: FLOW --sentence_embedding_type=concat-top-2 --allow_other_encoder TEXT
low_dim 2, now none :: FLOW --low_dim=-1 TEXT
error: --model: has no use with saved_model :: --model=mini --saved_model=@/saved/3 TEXT
error: --saved_model=@/model: :: --saved_model=@/model TEXT
name one of its folders: 3 :: --saved_model=@/saved TEXT
error: --saved_model=@/unsigned: :: --saved_model=@/unsigned TEXT
error: --saved_model=@/saved: expected FOLDER with saved_model.pb :: --saved_model=@/saved TEXT
error: --model=saved_model:@/unsigned: :: --model=saved_model:@/unsigned TEXT
each --saved_model=@/saved/3 TEXT :: --sentence_embedding_type=avg --max_seq_length=9 --query_prompt=q
shard_size 100, now 16384 :: MODEL TEXT --output_dir=@/plain
embedder.weights_sha256 :: OTHER TEXT --shard_size=100 --output_dir=@/plain
--output_dir :: MODEL TEXT --output_dir=@/model
--output_dir :: MODEL TEXT --output_dir=@/plain.txt
pip install 'bert-flow-tf[beam]' :: MODEL TEXT --runner=DirectRunner
gcsfs :: MODEL --input=gs://bucket/*.txt
--output_dir: gs://bucket/out :: MODEL TEXT --output_dir=gs://bucket/out
""",
  "distill": """
--output: missing :: --model=mini
--output=@/full: exists :: --model=mini --output=@/full
--output=@/corpus.txt: exists :: --model=mini --output=@/corpus.txt
--output=@/held: another run :: --model=@/tiny --output=@/held
@/corpus.txt/out :: --model=@/tiny --output=@/corpus.txt/out
--model=@/absent :: --model=@/absent --output=@/never
embeds whole texts :: --model=glove:@/glove.txt --output=@/never
saved_model.pb :: --model=saved_model:@/tiny --output=@/never
each TINY FIT :: --dim=13 --dim=0
each TINY :: --corpus=@/corpus.txt --dim=3
--calibration=soft-whitening: needs --corpus :: TINY --calibration=soft-whitening
--calibration=flow: is not affine :: TINY FIT --calibration=flow
--calibration=natsv: there are no labels :: TINY FIT --calibration=natsv
--calibration=pca: expected :: TINY FIT --calibration=pca
--corpus: has 5 different sentences :: TINY FIT --corpus=@/short.txt
--corpus: @/absent does not exist :: TINY FIT --corpus=@/absent
--prompt='a' :: TINY --prompt=a
--token_weights=x :: TINY --token_weights=x
--sentence_embedding_type=avg :: --model=static:@/static --output=@/never --sentence_embedding_type=avg
--static_normalize :: TINY --static_normalize=false
--dtype :: TINY --dtype=float64
""",
  "table": """
each :: --table=7 --figure=1 --table=1
each --table=2 :: --task=STS-C --nli_model=mini --model= --model=mini,mini --transfer_corpus=nli
each --table=1 :: --num_seeds=2 --frequency_file=absent
each --table=5 :: --calibration=SN,sn --model=gpt
each --table=transfer :: --transfer_corpus=target --transfer_corpus=nli,NLI
each --table=8 :: --seed=2147483645 --output_dir=
--table ::
--table=9 :: --table=2,9
--task=QNLI :: --table=2 --task=STS-B,QNLI
--task: is not used by this run :: --table=5 --task=STS-B
--edit_unit: is not used by this run :: --table=2 --edit_unit=characters
--frequency_file :: --table=1 --corpus=@/corpus.txt --frequency_file=@/counts.txt
bad_counts.txt, line 1 :: --table=1 --frequency_file=@/bad_counts.txt
pca :: --table=5 --calibration=pca
'tuned' :: --table=3,4 --model=@/tuned --nli_model=@/tuned
--table=5 :: --table=5 WORDS
--table=5 :: --table=5 --model=static:mini
--figure=2 :: --figure=2 WORDS
--nli_model :: --table=3 --nli_model=glove:@/tiny.vec.txt
absent :: --table=2 --model=glove:absent --train_batch_size=8
names no file|glove: :: --table=2 --model=glove: --train_batch_size=8
batch :: --table=transfer --task=STS-B --transfer_corpus=@/one.txt
--num_seeds :: --table=ablation --num_seeds=2
--table=beyond :: --table=beyond WORDS
MRPC :: --table=gains --data_dir=@/data
9999 :: --table=8 --train_batch_size=9999
max_seq_length=1 :: --table=8 --max_seq_length=1
absent :: --table=8 --flow_model_config=absent
absent :: --table=2 --task=STS-B --data_dir=@/absent
QNLI :: --table=4 --data_dir=@/no_dev
--table=6|sts-dev|sts-train :: --table=6 --data_dir=@/no_dev
--figure=2|sts-dev|sts-train :: --figure=2 --data_dir=@/no_dev
--output_dir :: --table=8 --output_dir=@/one.txt
another run uses this folder :: --table=8 --output_dir=@/held --model=@/absent
""",
}


def wrong(runner, folder):
  """Returns {line of flags: (its flags, text of the error)} of a runner, in order."""
  cases = {}
  for line in _WRONG[runner].strip().splitlines():
    text, _, flags = line.partition(" ::")
    lines = {flags.strip(): text}
    if text.startswith("each"):
      lines = {f"{text[5:]} {flag}": flag.partition("=")[0] for flag in flags.split()}
    for flags, expected in lines.items():
      words = []
      for word in flags.split():
        # A word in capitals may be followed by more, as in TEXT,@/rows.tsv.
        name, comma, rest = word.partition(",")
        words.append(_SHORT[runner].get(name, name) + comma + rest)
      expanded = " ".join(words).replace("LONG", "n" * 300).replace("@", str(folder))
      cases[flags] = shlex.split(expanded), expected.replace("@", str(folder))
  return cases
