#!/usr/bin/env bash
# Guess: BertTokenizer.from_preset of an uncased BERT's folder gives the tokens of transformers, for texts in Latin script.
# Truth: accents stay (strip_accents is False; BERT's own rule takes them away with the capitals), so "café" is another
#        word or [UNK]; and compatibility letters are folded ("x²" to "x2", "™" to "tm", "…" to "..."), which BERT does not do.
# Why it matters: embeddings by KerasHub of French, Spanish or web text differ from those of the same weights elsewhere.
#        BertTokenizer(..., strip_accents=True) mends the first.
# Versions: KerasHub 0.32.0, TensorFlow Text 2.21.1, Keras 3.15.1, TensorFlow 2.21.0, tokenizers 0.23.3, safetensors 0.8.0.
#           Seen on 2026-11-28.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check keras-hub==0.32.0 tensorflow-text==2.21.1 keras==3.15.1 tensorflow==2.21.0 tokenizers==0.23.3 safetensors==0.8.0

venv/bin/python 2> log.txt > seen.txt << 'END' || { cat log.txt >&2; exit 1; }
import json
import pathlib

import keras_hub
from tokenizers.implementations import BertWordPieceTokenizer

print("KerasHub", keras_hub.__version__)
words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "cafe", "the", "x", "##2", "##²", "tm", "™", ".", "...", "…"]
folder = pathlib.Path("bert")
folder.mkdir()
(folder / "vocab.txt").write_text("\n".join(words) + "\n")
sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16, "max_position_embeddings": 16}
(folder / "config.json").write_text(json.dumps({"model_type": "bert", "vocab_size": len(words), **sizes}))
(folder / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": True, "tokenizer_class": "BertTokenizer"}))
keras_tokenizer = keras_hub.tokenizers.BertTokenizer.from_preset("bert")
stripping = keras_hub.tokenizers.BertTokenizer("bert/vocab.txt", lowercase=True, strip_accents=True)
tokenizer = BertWordPieceTokenizer("bert/vocab.txt", lowercase=True)
print("lowercase", keras_tokenizer.lowercase, "strip_accents", keras_tokenizer.strip_accents)
for text in ("The cafe", "The café", "x²", "™", "…"):
  found = [[words[int(number)] for number in each(text)] for each in (keras_tokenizer, stripping)]
  print(f"{ascii(text)}: KerasHub {found[0]}, stripping {found[1]}, tokenizers", tokenizer.encode(text, add_special_tokens=False).tokens)
END
cat seen.txt

diff - seen.txt << 'END' || { echo "keras_hub_tokens_of_an_uncased_bert.sh: the behavior has changed: < seen on 2026-11-28, > seen now" >&2; exit 1; }
KerasHub 0.32.0
lowercase True strip_accents False
'The cafe': KerasHub ['the', 'cafe'], stripping ['the', 'cafe'], tokenizers ['the', 'cafe']
'The caf\xe9': KerasHub ['the', '[UNK]'], stripping ['the', 'cafe'], tokenizers ['the', 'cafe']
'x\xb2': KerasHub ['x', '##2'], stripping ['x', '##2'], tokenizers ['x', '##²']
'\u2122': KerasHub ['tm'], stripping ['tm'], tokenizers ['™']
'\u2026': KerasHub ['...'], stripping ['...'], tokenizers ['…']
END
