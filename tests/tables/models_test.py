"""bert_flow_tf/tables/models.py: which encoders are the paper's."""

import types

import pytest

from bert_flow_tf.tables.models import paper_encoder

BASE, LARGE = (12, 768, 30522), (24, 1024, 30522)


def config(sizes):
  return types.SimpleNamespace(**dict(zip(("num_hidden_layers", "hidden_size", "vocab_size"), sizes, strict=True)))


@pytest.mark.parametrize(
  ("name", "sizes", "nli_tuned", "expected"),
  [
    ("base", BASE, False, "base"),
    ("large", LARGE, False, "large"),
    ("bert-base-uncased", BASE, False, "base"),
    ("google-bert/bert-large-uncased", LARGE, False, "large"),
    ("/models/bert-base-uncased/", BASE, False, "base"),
    ("bert-base-uncased", (6, 384, 30522), False, None),
    ("base", LARGE, False, None),
    ("large-wwm", LARGE, False, None),
    ("bert-large-uncased-whole-word-masking", LARGE, False, None),
    ("base-cased", (12, 768, 28996), False, None),
    ("mini", (4, 256, 8192), False, None),
    ("models/base", BASE, False, None),
    ("bert-base-uncased-squad", BASE, False, None),
    ("bert-base-uncased-nli", BASE, True, "base"),
    ("out/BERT-Large-Uncased_nli", LARGE, True, "large"),
    ("bert-large-uncased-whole-word-masking-nli", LARGE, True, None),
    ("mine-nli", BASE, True, None),
    ("bert-base-uncased-nli", (6, 384, 30522), True, None),
    ("exp/bert-base-uncased-nli/encoder", BASE, True, "base"),
    ("exp/bert-large-uncased-whole-word-masking-nli/encoder", LARGE, True, None),
  ],
)
def test_paper_encoder(name, sizes, nli_tuned, expected):
  assert paper_encoder(name, config(sizes), nli_tuned) == expected
