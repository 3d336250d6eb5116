#!/usr/bin/env bash
# Guess: encode_special_tokens = True is part of a tokenizer: saved, copied and pickled with it.
# Truth: no file holds it, and copy.deepcopy and pickle lose it: "[MASK]" in a text is then the special token again.
# Why it matters: in a worker process, or in a program that reads the folder, the same text has other ids, and another
#        embedding. Set it after each of these.
# Versions: tokenizers 0.23.3. Seen on 2026-11-28.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check tokenizers==0.23.3

venv/bin/python 2> log.txt > seen.txt << 'END' || { cat log.txt >&2; exit 1; }
import copy
import pickle

import tokenizers
from tokenizers import Tokenizer, models, pre_tokenizers

print("tokenizers", tokenizers.__version__)
tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0, "cat": 1, "[": 2, "]": 3, "MASK": 4}, unk_token="[UNK]"))
tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
tokenizer.add_special_tokens(["[MASK]"])
tokenizer.encode_special_tokens = True
tokenizer.save("tokenizer.json")
for name, each in (
  ("set", tokenizer),
  ("saved", Tokenizer.from_file("tokenizer.json")),
  ("pickled", pickle.loads(pickle.dumps(tokenizer))),
  ("copied", copy.deepcopy(tokenizer)),
):
  print(f"{name}: {each.encode_special_tokens}", each.encode("cat [MASK]").tokens)
END
cat seen.txt

diff - seen.txt << 'END' || { echo "tokenizers_forget_that_mask_is_text.sh: the behavior has changed: < seen on 2026-11-28, > seen now" >&2; exit 1; }
tokenizers 0.23.3
set: True ['cat', '[', 'MASK', ']']
saved: False ['cat', '[MASK]']
pickled: False ['cat', '[MASK]']
copied: False ['cat', '[MASK]']
END
