#!/usr/bin/env bash
# What docs/conventions.md says of other programs, and no other script here holds. Here the guesses were right: the
# script is there so that the page's tables do not grow old unseen.
# Versions: sentence-transformers 6.2.0, mteb 2.26.24, model2vec 0.10.0, semhash 0.5.0, FAISS 1.15.1, DuckDB 2.0.1,
#        scikit-learn 1.9.1, keras-hub 0.32.0, Keras 3.15.1, TF Text 2.21.1. Seen on 2026-11-29.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv torch
torch/bin/pip install --quiet --disable-pip-version-check sentence-transformers==6.2.0 mteb==2.26.24 model2vec==0.10.0 semhash==0.5.0 \
  vicinity==0.4.6 usearch==2.26.6 faiss-cpu==1.15.1 duckdb==2.0.1 scikit-learn==1.9.1 torch==2.13.0 transformers==5.24.0 \
  tokenizers==0.23.3 datasets==5.2.0 numpy==2.4.6
python3 -m venv keras
keras/bin/pip install --quiet --disable-pip-version-check keras-hub==0.32.0 keras==3.15.1 tensorflow-text==2.21.1 tensorflow==2.21.0 \
  numpy==2.4.6

HF_HUB_OFFLINE=1 torch/bin/python 2> log.txt > seen.txt << 'END' || { cat log.txt >&2; exit 1; }
import inspect
import logging

import duckdb
import faiss
import mteb
import numpy as np
import torch
from mteb.models import SentenceTransformerEncoderWrapper
from mteb.types import PromptType
from model2vec import StaticModel
from semhash import SemHash
from sentence_transformers import SentenceTransformer, util
from sentence_transformers.sentence_transformer.modules import Pooling, StaticEmbedding, Transformer
from sklearn.cluster import DBSCAN
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics.pairwise import cosine_similarity
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import BertConfig, BertModel, BertTokenizerFast

logging.disable(logging.WARNING)
random = np.random.default_rng(0)

print("zero vectors")
rows = np.array([[0, 0], [3, 4]], np.float32)
normalized = rows.copy()
faiss.normalize_L2(normalized)
print("  cosine:", util.cos_sim(rows, rows)[0].tolist(), cosine_similarity(rows)[0].tolist(), (normalized @ normalized.T)[0].tolist())

print("thresholds")
rows = torch.tensor([[1.0, 0.0], [0.6, 0.8], [-1.0, 0.0]])
cosine = float(util.cos_sim(rows, rows)[0, 1])
groups = [util.community_detection(rows, threshold=threshold, min_community_size=2) for threshold in (cosine, cosine + 1e-6)]
print("  community_detection at a cosine, and above it:", groups)
line = np.arange(3.0)[:, None]
print("  scikit-learn, radius 1 of 0, 1, 2:", NearestNeighbors(radius=1).fit(line).radius_neighbors([[0]])[1][0].tolist())
print("  DBSCAN:", DBSCAN(eps=1, min_samples=2).fit(line).labels_.tolist())

print("ties")
ones = np.ones([1000, 8])
neighbors = NearestNeighbors(n_neighbors=5, metric="cosine", algorithm="brute").fit(ones).kneighbors(ones[:1])[1]
print("  scikit-learn, first five of 1000 equal rows:", "in order" if neighbors.tolist() == [list(range(5))] else "not in order")
rows = torch.tensor(random.normal(size=[1000, 384]).astype(np.float32))
print("  cosines of identical rows are one number:", len(set(util.pairwise_cos_sim(rows, rows).tolist())) == 1)

print("variance, n - 1 and n")
rows = random.normal(size=[11, 3])
print("  PCA:", PCA(whiten=True).fit_transform(rows).var(axis=0, ddof=1).round(6))
print("  StandardScaler:", StandardScaler().fit_transform(rows).var(axis=0).round(6), "NumPy:", np.var([1, 2, 4]).round(4))
query = "select round(variance(x), 4), round(stddev(x) ** 2, 4) from (values (1.0), (2.0), (4.0)) t(x)"
print("  DuckDB:", duckdb.sql(query).fetchall()[0], "of", np.var([1, 2, 4], ddof=1).round(4))

words = ["[UNK]", "cat", "dog"]
tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="[UNK]"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
rows = np.eye(3, dtype=np.float32)
static = {
  "model2vec": StaticModel(rows, tokenizer, normalize=False),
  "StaticEmbedding": SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_weights=rows)], device="cpu"),
}
print("unknown, repeated and no words: means of 'cat xyz', 'cat cat dog' and ''")
for name, model in static.items():
  print(f"  {name}:", *model.encode(["cat xyz", "cat cat dog", ""]).astype(float).round(2).tolist())
for function in (StaticModel.encode, SemHash.from_records):
  names = [name for name in inspect.signature(function).parameters if "prompt" in name]
  print(f"  parameters for prompts of {function.__qualname__}:", names)
for texts in (["cat xyz", "cat uvw", "dog"], ["", "", "cat"]):
  result = SemHash.from_records(texts, model=static["model2vec"]).self_deduplicate()
  print("  semhash of", texts, "drops", [(record.record, "exact" if record.exact else "near") for record in result.filtered])
vectorizer = TfidfVectorizer(norm=None, use_idf=False)
print("  tf-idf counts:", vectorizer.fit_transform(["cat cat dog"]).toarray()[0].tolist())
names = [vectorizer.fit([text]).get_feature_names_out().tolist() for text in ("cat\u00a0dog", "Café", "我爱 北 cat")]
print("  tf-idf words:", *names)

pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "cat", "dog", "catdog", "cafe", "e", "##e", "fi", "ﬁ", "北", "京", ":"]
with open("vocab.txt", "w") as file:
  file.write("\n".join(pieces) + "\n")
config = BertConfig(vocab_size=len(pieces), hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16)
torch.manual_seed(0)
BertModel(config).save_pretrained("bert")
BertTokenizerFast(vocab={piece: number for number, piece in enumerate(pieces)}).save_pretrained("bert")
bert = SentenceTransformer("bert", device="cpu")


def tokens(text):
  ids = bert.tokenizer(text)["input_ids"]
  return [pieces[number] for number in ids]


print("sentence-transformers, a BERT")
print("  tokens it reads at most:", bert.max_seq_length)
print("  '':", *tokens(""))
for text in ("cat\u00a0dog", "cat\u00addog", "cat\u200bdog", "cat\u0007dog", "Café", "北京", "ﬁ", "cat[MASK]"):
  print(f"  {text!a}:", *tokens(text)[1:-1])
print("  100 and 101 letters:", *(len(tokens("e" * n)) - 2 for n in (100, 101)))
prompts = {"query": "cat : ", "plain": "dog : "}
prompted = SentenceTransformer("bert", device="cpu", prompts=prompts, default_prompt_name="plain")
prompted.max_seq_length = 6
same = np.abs(prompted.encode("cat dog e fi", prompt_name="query") - bert.encode("cat : cat dog")).max() < 1e-6
print("  six tokens hold specials and prompt:", same)
prompted.max_seq_length = 512
print("  a default prompt before every text:", np.abs(prompted.encode("cat") - bert.encode("dog : cat")).max() < 1e-6)
states = bert.encode("cat : dog", output_value="token_embeddings").numpy()
prompted.set_pooling_include_prompt(False)
embedding = prompted.encode("dog", prompt_name="query")
print("  include_prompt=False leaves out [CLS], too:", np.abs(states[3:].mean(axis=0) - embedding).max() < 1e-6)

print("mteb: pairs of the test splits")
for name in ("SICK-R", "STSBenchmark", "STS12", "STS13", "STS14", "STS15", "STS16"):
  task = mteb.get_task(name)
  print(f"  {name}:", task.metadata.descriptive_stats["test"]["num_samples"], "subsets:", task.metadata.hf_subsets)
prompts = {"STS": "dog : ", "query": "cat : ", "plain": "e : "}
prompted = SentenceTransformer("bert", device="cpu", prompts=prompts, default_prompt_name="plain")
wrapper = SentenceTransformerEncoderWrapper(prompted)
for name, role in (("STSBenchmark", None), ("SciFact", PromptType.query), ("AmazonPolarityClassification", None)):
  task = mteb.get_task(name).metadata
  print(f"  prompt of {name} ({task.type}), {role and role.value}:", wrapper.get_prompt_name(task, role))
END

KERAS_BACKEND=tensorflow keras/bin/python 2> log.txt >> seen.txt << 'END' || { cat log.txt >&2; exit 1; }
import keras
import keras_hub
import numpy as np
import tensorflow as tf
import tensorflow_text

pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "cat", "dog", "cafe", "café", "e", "##e", "я", "##я", "fi", "ﬁ", "北", "京"]
pieces += ["[", "]", "mask"]
with open("vocab.txt", "w") as file:
  file.write("\n".join(pieces) + "\n")
of_text = tensorflow_text.BertTokenizer("vocab.txt", lower_case=True)
of_keras = keras_hub.models.BertTokenizer("vocab.txt", lowercase=True)


def tokens(text):
  ids = {"TF Text": of_text.tokenize([text]).merge_dims(1, -1)[0].numpy(), "KerasHub": np.asarray(of_keras(text))}
  return {name: [pieces[number] for number in row] for name, row in ids.items()}


for text in ("cat\u0007dog", "Café", "北京", "ﬁ", "cat[MASK]"):
  print(f"{text!a}:", *(" ".join([name, *row]) for name, row in tokens(text).items()), sep="  ")
for text in ("e" * 100, "e" * 101, "я" * 50, "я" * 51):
  counts = [len(row) for row in tokens(text).values()]
  print(f"pieces of {len(text)} letters in {len(text.encode())} bytes: {counts}")
print("pieces of 600 words:", *(len(row) for row in tokens("cat " * 600).values()))

preprocessor = keras_hub.models.BertTextClassifierPreprocessor(of_keras, sequence_length=4)
print("KerasHub, 4 tokens:", *(pieces[number] for number in np.asarray(preprocessor("cat dog cat dog")["token_ids"])))
print("KerasHub, TextEmbedder:", keras_hub.models.BertTextEmbedderPreprocessor(of_keras).sequence_length, "tokens")

one = np.ones([1], np.float32)
forms = {round(float(keras.ops.gelu(one, approximate=is_tanh)[0]), 6): name for is_tanh, name in ((True, "tanh"), (False, "exact"))}
size = {"num_layers": 1, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 16}
for name in ("Bert", "Albert", "Electra", "Roberta", "XLMRoberta", "DistilBert", "DebertaV3"):
  others = {"embedding_dim": 8} if name in ("Albert", "Electra") else {}
  others["vocab_size" if name == "Electra" else "vocabulary_size"] = 30
  layers = getattr(keras_hub.models, f"{name}Backbone")(**size, **others)._flatten_layers()
  found = {"epsilon": set(), "gelu": set()}
  for layer in layers:
    if isinstance(layer, keras.layers.LayerNormalization):
      found["epsilon"].add(layer.epsilon)
    activation = getattr(layer, "intermediate_activation", None) or getattr(layer, "activation", None)
    form = forms.get(round(float(activation(one)[0]), 6)) if callable(activation) else None
    found["gelu"] |= {form} - {None}
  print(f"KerasHub {name}:", found)
print("Keras, LayerNormalization:", keras.layers.LayerNormalization().epsilon, "tf.nn.gelu:", forms[round(float(tf.nn.gelu(one)[0]), 6)])
normalization = keras.layers.Normalization()
normalization.adapt(np.array([[1.0], [2.0], [4.0]]))
print("Keras, variance of 1, 2, 4:", np.asarray(normalization.variance).round(4), "divided by n:", np.var([1, 2, 4]).round(4))
END
cat seen.txt

diff - seen.txt << 'END' || { echo "conventions_of_others.sh: the behavior has changed: < seen on 2026-11-29, > seen now" >&2; exit 1; }
zero vectors
  cosine: [0.0, 0.0] [0.0, 0.0] [0.0, 0.0]
thresholds
  community_detection at a cosine, and above it: [[[0, 1]], []]
  scikit-learn, radius 1 of 0, 1, 2: [0, 1]
  DBSCAN: [0, 0, 0]
ties
  scikit-learn, first five of 1000 equal rows: not in order
  cosines of identical rows are one number: False
variance, n - 1 and n
  PCA: [1. 1. 1.]
  StandardScaler: [1. 1. 1.] NumPy: 1.5556
  DuckDB: (2.3333, 2.3333) of 2.3333
unknown, repeated and no words: means of 'cat xyz', 'cat cat dog' and ''
  model2vec: [0.0, 1.0, 0.0] [0.0, 0.67, 0.33] [0.0, 0.0, 0.0]
  StaticEmbedding: [0.5, 0.5, 0.0] [0.0, 0.67, 0.33] [0.0, 0.0, 0.0]
  parameters for prompts of StaticModel.encode: []
  parameters for prompts of SemHash.from_records: []
  semhash of ['cat xyz', 'cat uvw', 'dog'] drops [('cat uvw', 'near')]
  semhash of ['', '', 'cat'] drops [('', 'exact')]
  tf-idf counts: [2.0, 1.0]
  tf-idf words: ['cat', 'dog'] ['café'] ['cat', '我爱']
sentence-transformers, a BERT
  tokens it reads at most: 512
  '': [CLS] [SEP]
  'cat\xa0dog': cat dog
  'cat\xaddog': catdog
  'cat\u200bdog': catdog
  'cat\x07dog': catdog
  'Caf\xe9': cafe
  '\u5317\u4eac': 北 京
  '\ufb01': ﬁ
  'cat[MASK]': cat [MASK]
  100 and 101 letters: 100 1
  six tokens hold specials and prompt: True
  a default prompt before every text: True
  include_prompt=False leaves out [CLS], too: True
mteb: pairs of the test splits
  SICK-R: 9927 subsets: ['default']
  STSBenchmark: 1379 subsets: ['default']
  STS12: 3108 subsets: ['default']
  STS13: 1500 subsets: ['default']
  STS14: 3750 subsets: ['default']
  STS15: 3000 subsets: ['default']
  STS16: 1186 subsets: ['default']
  prompt of STSBenchmark (STS), None: STS
  prompt of SciFact (Retrieval), query: query
  prompt of AmazonPolarityClassification (Classification), None: None
'cat\x07dog':  TF Text cat dog  KerasHub cat dog
'Caf\xe9':  TF Text cafe  KerasHub café
'\u5317\u4eac':  TF Text 北 京  KerasHub 北 京
'\ufb01':  TF Text fi  KerasHub fi
'cat[MASK]':  TF Text cat [ mask ]  KerasHub cat [ mask ]
pieces of 100 letters in 100 bytes: [100, 100]
pieces of 101 letters in 101 bytes: [1, 1]
pieces of 50 letters in 100 bytes: [50, 50]
pieces of 51 letters in 102 bytes: [1, 1]
pieces of 600 words: 600 600
KerasHub, 4 tokens: [CLS] cat dog [SEP]
KerasHub, TextEmbedder: 256 tokens
KerasHub Bert: {'epsilon': {1e-12}, 'gelu': {'tanh'}}
KerasHub Albert: {'epsilon': {1e-12}, 'gelu': {'tanh'}}
KerasHub Electra: {'epsilon': {1e-12}, 'gelu': {'tanh'}}
KerasHub Roberta: {'epsilon': {1e-05}, 'gelu': {'exact'}}
KerasHub XLMRoberta: {'epsilon': {1e-05}, 'gelu': {'exact'}}
KerasHub DistilBert: {'epsilon': {1e-12}, 'gelu': {'exact'}}
KerasHub DebertaV3: {'epsilon': {1e-07}, 'gelu': {'exact'}}
Keras, LayerNormalization: 0.001 tf.nn.gelu: exact
Keras, variance of 1, 2, 4: [[1.5556]] divided by n: 1.5556
END
