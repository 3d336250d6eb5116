"""encoder/tokenizer_settings.py: guesses of do_lower_case."""

import pytest

from bert_flow_tf.encoder.tokenizer import SentenceTokenizer
from bert_flow_tf.encoder.tokenizer_settings import lower_case_of_google

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[unused1]", "[Z]"]
LOWER, MIXED = [*SPECIALS, "dog", "##s", "é"], [*SPECIALS, "dog", "##S"]


@pytest.mark.parametrize(
  ("name", "pieces", "lower"),
  [
    ("uncased_L-12_H-768_A-12", LOWER, True),
    ("cased_L-12_H-768_A-12", MIXED, False),
    ("multi_cased_L-12", LOWER, False),
    ("wwm_Uncased_L-24", MIXED, True),
    ("chinese_L-12", LOWER, True),
    ("whatever", MIXED, False),
  ],
)
def test_folders_of_google_by_name_or_by_pieces(tmp_path, name, pieces, lower):
  folder = tmp_path / "cased" / name  # The parent folder's name is ignored.
  folder.mkdir(parents=True)
  (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces), encoding="utf-8")
  assert lower_case_of_google(folder / "vocab.txt") is lower
  (folder / "bert_config.json").write_text("{}")
  assert SentenceTokenizer.from_pretrained(folder, str(folder)).do_lower_case is lower
  (folder / "tokenizer_config.json").write_text(f'{{"do_lower_case": {str(not lower).lower()}}}')
  assert SentenceTokenizer.from_pretrained(folder, str(folder)).do_lower_case is not lower
