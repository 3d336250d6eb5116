#!/usr/bin/env bash
# Guess: AutoTokenizer computes what the folder's tokenizer.json says, as the package tokenizers does.
# Truth: for a BERT, transformers 5 takes the vocabulary from tokenizer.json and makes the normalizer and the splitter of
#        words anew, while the special tokens around a text are the file's. Changes to both are written by
#        save_pretrained and gone after from_pretrained, without a word. PreTrainedTokenizerFast reads the whole file.
# Why it matters: a tokenizer of medical or code text, with rules of its own, gives other ids in the program that
#        fine-tunes or evaluates than in those that read tokenizer.json, as fast servers do.
# Versions: transformers 5.24.0, tokenizers 0.23.3. Seen on 2026-11-28.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check transformers==5.24.0 tokenizers==0.23.3

venv/bin/python 2> log.txt > seen.txt << 'END' || { cat log.txt >&2; exit 1; }
import json
import pathlib

import transformers
from tokenizers import Tokenizer, normalizers, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

print("transformers", transformers.__version__)
words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "il-6", "il", "-", "6", "high", "elevated"]
folder = pathlib.Path("bert")
folder.mkdir()
(folder / "vocab.txt").write_text("\n".join(words) + "\n")
sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
(folder / "config.json").write_text(json.dumps({"model_type": "bert", "vocab_size": len(words), **sizes}))
tokenizer = AutoTokenizer.from_pretrained("bert")
backend = tokenizer.backend_tokenizer
backend.normalizer = normalizers.Sequence([normalizers.Lowercase(), normalizers.Replace("elevated", "high")])
backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
text = "Elevated IL-6"
print("changed", tokenizer.tokenize(text))
tokenizer.save_pretrained("bert")
print("in tokenizer.json", json.loads((folder / "tokenizer.json").read_text())["pre_tokenizer"])
print("tokenizers", Tokenizer.from_file("bert/tokenizer.json").encode(text, add_special_tokens=False).tokens)
for name, kind in (("AutoTokenizer", AutoTokenizer), ("PreTrainedTokenizerFast", PreTrainedTokenizerFast)):
  loaded = kind.from_pretrained("bert")
  print(f"{name}, a {type(loaded).__name__}:", loaded.tokenize(text))
END
cat seen.txt

diff - seen.txt << 'END' || { echo "transformers_rebuilds_berts_tokenizer.sh: the behavior has changed: < seen on 2026-11-28, > seen now" >&2; exit 1; }
transformers 5.24.0
changed ['high', 'il-6']
in tokenizer.json {'type': 'WhitespaceSplit'}
tokenizers ['high', 'il-6']
AutoTokenizer, a BertTokenizer: ['elevated', 'il', '-', '6']
PreTrainedTokenizerFast, a TokenizersBackend: ['high', 'il-6']
END
