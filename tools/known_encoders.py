"""Origins of the encoders of docs/results.md, and the sets whose text they have seen."""

import dataclasses
from collections.abc import Mapping

_STS = ("STS-B", "SICK-R", "STS-12", "STS-13", "STS-14", "STS-15", "STS-16", "mean")
_QNLI = ("QNLI", "AUC")  # AUC: the column of Table 4, which is of QNLI
_QNLI_MRPC = (*_QNLI, "MRPC")


@dataclasses.dataclass(frozen=True)
class KnownEncoder:
  """An encoder of the results page."""

  origin: str
  # Columns of tables whose sentences were in its training text.
  seen: tuple[str, ...]
  # {set: Spearman x 100 without and with the published TensorFlow 1 flow on its embeddings}: config_l2_d3_w32, actnorm
  # initialized from data, means of three seeds. From `../shared/models/README.md`.
  published_code: Mapping[str, tuple[float, float]] | None = None


# Counted on the text of `mini`, `../shared/text`: shares of the distinct test sentences.
TEXTS = """
The text of `mini` is also that of the packaged word frequencies (`idf`) and of the rows (corpus). It has the sentences
of SNLI and QNLI (dev and test) and of MRPC (train), and the glosses of WordNet. It was not taken from the other sets,
but has sentences of them. Ignoring case and punctuation, in it are 99 % of the sentences of QNLI, 79 % of MRPC's train
and 3 % of its test sentences, and of the test sentences 21 % of STS-13, 14 % of STS-12, 9 % of STS-14, 1 % of STS-B,
SICK-R and STS-15, and one of STS-16.
"""
# The model cards of all-MiniLM-L6-v2 and all-mpnet-base-v2 have one list of data.
_PAIRS = (
  "trained for similarity on 1.17 billion pairs of texts. The model card names SNLI and MultiNLI, captions of COCO and "
  "Flickr 30k, Stack Exchange, Quora, SQuAD 2.0 (as in QNLI) and others, but no set of this page"
)
_DISTILLED = "a vector for each word piece by `bert-flow distill --model={}`, without a calibration"
# By the beginning of the SHA-256 of the weights.
_KNOWN = {
  "a5cf5e4e1e12": KnownEncoder(
    "all-MiniLM-L6-v2, trained further by masked language modeling on the sentences of all sets of this page, which "
    "undoes its contrastive training: a stand-in for BERT-base, whose scores it does not predict",
    _STS + _QNLI_MRPC,
    {
      "STS-B": (50.08, 67.86),
      "SICK-R": (58.52, 60.46),
      "STS-12": (53.25, 62.23),
      "STS-13": (52.28, 68.53),
      "STS-14": (58.06, 67.82),
      "STS-15": (65.28, 71.65),
      "STS-16": (62.22, 70.59),
    },
  ),
  "9845ab3632df": KnownEncoder("of this package, from scratch (`examples/pretrain_bert`)", _QNLI_MRPC),
  "7ad94e5cc99e": KnownEncoder(f"all-MiniLM-L6-v2 of sentence-transformers, unchanged: {_PAIRS}", _QNLI),
  "2c1051c1a4a3": KnownEncoder(f"all-mpnet-base-v2 of sentence-transformers, unchanged: {_PAIRS}", _QNLI),
  "72967a31d26b": KnownEncoder(
    "Universal Sentence Encoder, multilingual, version 3, with embeddings in 6 bits, written as a SavedModel "
    "(tools/use_saved_model.py): trained on several tasks in 16 languages; its texts are not named",
    (),
  ),
  # By `bert-flow distill`, on one machine: the last bits of another's may differ.
  "10cca3f7168d": KnownEncoder(_DISTILLED.format("all-MiniLM-L6-v2"), _QNLI),
  "6681a2ce71a7": KnownEncoder(_DISTILLED.format("minilm-l6-mlm"), _STS + _QNLI_MRPC),
  "ff4ef7d5aa27": KnownEncoder(_DISTILLED.format("mini"), _QNLI_MRPC),
}


def known_encoder(checksum: str) -> KnownEncoder | None:
  """Returns what is known of an encoder by the SHA-256 of its weights; None for any other encoder."""
  return _KNOWN.get(checksum[:12])
