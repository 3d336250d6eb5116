"""data/vocabulary.py: pieces that are built and pieces that are chosen."""

import pytest

from bert_flow_tf.encoder.tokenizer import SentenceTokenizer
from bert_flow_tf.errors import ConfigError, DataError
from bert_flow_tf.pretraining.vocabulary import SPECIALS, build_vocabulary, choose_vocabulary

TEXT = ["The dogs ran.", "A dog runs; the Dogs run!", "Café at the dog run"] * 5


def unknown(folder, pieces, texts=TEXT):
  """Returns how many pieces of the texts are [UNK], by the tokenizer that encoders use."""
  (folder / "vocab.txt").write_text("\n".join(pieces) + "\n", encoding="utf-8")
  tokenizer = SentenceTokenizer(folder / "vocab.txt")
  return sum(int((ids == pieces.index("[UNK]")).sum()) for ids in tokenizer(texts))


def test_built(tmp_path):
  pieces = build_vocabulary(TEXT, 60)
  assert pieces[:5] == list(SPECIALS) and len(set(pieces)) == len(pieces) <= 60
  assert {"dog", "the"} <= set(pieces) and "The" not in pieces and "é" not in pieces
  assert unknown(tmp_path, pieces) == 0
  assert all(build_vocabulary(iter(TEXT), 60) == pieces for _ in range(5))
  assert "Dogs" in build_vocabulary(TEXT, 200, do_lower_case=False)


def test_too_few():
  with pytest.raises(ConfigError) as raised:
    build_vocabulary(TEXT, 10)
  assert raised.value.argument == "vocab_size"


def test_chosen(tmp_path):
  """The frequent ones in their order, every character that occurs, and no word lost."""
  whole = build_vocabulary([*TEXT, "zebras quack in unusual places"], 400)
  (tmp_path / "whole.txt").write_text("\n".join(whole) + "\n")
  pieces = choose_vocabulary(tmp_path / "whole.txt", TEXT, len(SPECIALS) + 36)
  assert len(pieces) <= len(SPECIALS) + 36 and pieces == [piece for piece in whole if piece in pieces]
  assert "the" in pieces and "dog" in pieces and "zebras" not in pieces
  assert unknown(tmp_path, pieces) == 0
  assert choose_vocabulary(tmp_path / "whole.txt", TEXT, 9999) == whole
  with pytest.raises(ConfigError) as raised:
    choose_vocabulary(tmp_path / "whole.txt", TEXT, 7)
  assert raised.value.argument == "vocab_size"


@pytest.mark.parametrize(
  "content",
  [b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n", b"\xff\xfe", "\n".join([*SPECIALS, "a", "a"]).encode(), None],
)
def test_no_vocabulary(tmp_path, content):
  path = tmp_path / "vocab.txt"
  if content is not None:
    path.write_bytes(content)
  with pytest.raises(DataError) as raised:
    choose_vocabulary(path, TEXT, 100)
  assert raised.value.argument == "vocab_file"
