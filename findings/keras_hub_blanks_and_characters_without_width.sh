#!/usr/bin/env bash
# Guess: a BERT tokenizer splits words at blanks of all kinds, a no-break space included, and drops characters without
#        width (zero-width space, soft hyphen) inside a word: so do TF Text and tokenizers.
# Truth: KerasHub's does the reverse: a no-break space (U+00A0) or an em space glues two words together, which become one
#        [UNK], and a soft hyphen or a zero-width space splits a word.
# Why it matters: text from web pages and PDFs has them; with one vocabulary and one set of weights embeddings differ.
# Versions: keras-hub 0.32.0, tensorflow-text 2.21.1, TensorFlow 2.21.0, tokenizers 0.23.3. Seen on 2026-11-28.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check keras-hub==0.32.0 tensorflow-text==2.21.1 tensorflow==2.21.0 tokenizers==0.23.3

KERAS_BACKEND=tensorflow venv/bin/python 2> log.txt > seen.txt << 'END' || { cat log.txt >&2; exit 1; }
import unicodedata

import keras_hub
import numpy as np
import tensorflow_text
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

print("keras-hub", keras_hub.__version__, "tensorflow-text", tensorflow_text.__version__)
words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "cat", "dog", "catdog"]
with open("vocab.txt", "w") as file:
  file.write("\n".join(words) + "\n")
of_text = tensorflow_text.BertTokenizer("vocab.txt", lower_case=True)
of_keras = keras_hub.models.BertTokenizer("vocab.txt", lowercase=True)
other = Tokenizer(models.WordPiece({word: number for number, word in enumerate(words)}, unk_token="[UNK]"))
other.normalizer, other.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
for character in ("\u00a0", "\u2003", "\u00ad", "\u200b"):
  text = f"cat{character}dog"
  rows = {
    "TF Text": of_text.tokenize([text]).merge_dims(1, -1)[0].numpy(),
    "tokenizers": other.encode(text).ids,
    "KerasHub": np.asarray(of_keras(text)),
  }
  print(unicodedata.name(character), {name: [words[number] for number in row] for name, row in rows.items()})
END
cat seen.txt

diff - seen.txt << 'END' || { echo "keras_hub_blanks_and_characters_without_width.sh: the behavior has changed: < seen on 2026-11-28, > seen now" >&2; exit 1; }
keras-hub 0.32.0 tensorflow-text 2.21.1
NO-BREAK SPACE {'TF Text': ['cat', 'dog'], 'tokenizers': ['cat', 'dog'], 'KerasHub': ['[UNK]']}
EM SPACE {'TF Text': ['cat', 'dog'], 'tokenizers': ['cat', 'dog'], 'KerasHub': ['[UNK]']}
SOFT HYPHEN {'TF Text': ['catdog'], 'tokenizers': ['catdog'], 'KerasHub': ['cat', 'dog']}
ZERO WIDTH SPACE {'TF Text': ['catdog'], 'tokenizers': ['catdog'], 'KerasHub': ['cat', 'dog']}
END
