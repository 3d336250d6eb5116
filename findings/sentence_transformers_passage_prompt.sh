#!/usr/bin/env bash
# Guess: encode_document applies the prompt of a model that declares `query` and `passage`: the documentation says that
#        it takes "document", "passage" or "corpus", whichever is there.
# Truth: sentence-transformers adds an empty prompt "document" to every model, which is found first: passages are encoded
#        without their prompt. encode_query does apply "query".
# Why it matters: E5 and its relatives need both prefixes; scores fall without an error. Call
#        encode(texts, prompt_name="passage").
# Versions: sentence-transformers 6.2.0, torch 2.13.0. Seen on 2026-11-27.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check sentence-transformers==6.2.0 torch==2.13.0 tokenizers==0.23.3 numpy==2.4.6

venv/bin/python 2> log.txt > seen.txt << 'END' || { cat log.txt >&2; exit 1; }
import numpy as np
import sentence_transformers
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Tokenizer, models, pre_tokenizers

print("sentence-transformers", sentence_transformers.__version__)
words = ["[UNK]", "query", "passage", ":", "cat"]
tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="[UNK]"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
embedding = StaticEmbedding(tokenizer, embedding_weights=np.eye(len(words), dtype=np.float32))
prompts = {"query": "query: ", "passage": "passage: "}
model = SentenceTransformer(modules=[embedding], prompts=prompts, device="cpu")
print("prompts", model.prompts)
print("words in the mean:")
for function in (model.encode_query, model.encode_document):
  print(function.__name__, [words[number] for number in function("cat").nonzero()[0]])
print("prompt_name", [words[number] for number in model.encode("cat", prompt_name="passage").nonzero()[0]])
END
cat seen.txt

diff - seen.txt << 'END' || { echo "sentence_transformers_passage_prompt.sh: the behavior has changed: < seen on 2026-11-27, > seen now" >&2; exit 1; }
sentence-transformers 6.2.0
prompts {'query': 'query: ', 'document': '', 'passage': 'passage: '}
words in the mean:
encode_query ['query', ':', 'cat']
encode_document ['cat']
prompt_name ['passage', ':', 'cat']
END
