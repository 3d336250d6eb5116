"""Choice of a calibration without labels: `calibration=auto`."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from absl import logging

from bert_flow_tf.calibration.interface import Calibration
from bert_flow_tf.calibration.names import make_calibration
from bert_flow_tf.encoder.identity import EncoderIdentity
from bert_flow_tf.encoder.pooling import low_dim
from bert_flow_tf.errors import CalibrationError
from bert_flow_tf.evaluation.mixtures import make_mixtures

# The calibrations that are compared: they even the variances out wholly, much and little. The flow is none of them: its
# fit takes minutes where theirs take a second, and where it was the best one, it was so by 0.2 (docs/results.md).
CANDIDATES = ("whitening", "soft-whitening", "soft-whitening-0.2")
# Sentences whose word pieces are counted.
_COUNTED = 20_000


@dataclasses.dataclass(frozen=True)
class Choice:
  """The calibration that was chosen, and why.

  Attributes:
    calibration: the fitted calibration.
    agreement: {name: `Mixtures.agreement`} of all candidates, the best first.
    sentences: number of sentences that were mixed.
    seed: seed of the mixtures.
  """

  calibration: Calibration
  agreement: dict[str, float]
  sentences: int
  seed: int

  def to_dict(self) -> dict[str, Any]:
    """Returns JSON values for results.json."""
    about = {"agreement": self.agreement, "sentences": self.sentences, "seed": self.seed}
    return {"chosen": self.calibration.name, **about}


def choose_calibration(
  encoder: Any,
  identity: EncoderIdentity,
  sentences: Sequence[str],
  rows: np.ndarray,
  shares: Sequence[float] = (),
  seed: int = 0,
  batch_size: int = 64,
) -> Choice:
  """Fits the `CANDIDATES`, and chooses the one whose similarities agree best with mixtures of sentences.

  Besides the fits, it embeds 2,400 sentences at most, whatever the size of the corpus.

  Args:
    encoder: a `SentenceEncoder`.
    identity: identity of its embeddings.
    sentences: sentences of the corpus; repeated ones count once.
    rows: float32 [n, dim], the embeddings to fit on.
    shares: see `make_calibration`.
    seed: seed of the mixtures.
    batch_size: see `SentenceEncoder.encode`.

  Raises:
    CalibrationError: the sentences are too few or too alike.
    DataError: fewer than 3 different sentences have words.
  """
  distinct = list(dict.fromkeys(sentences))
  counted = np.random.default_rng(seed).permutation(len(distinct))[:_COUNTED]
  pooling, length = identity.sentence_embedding_type, identity.max_seq_length
  mixtures = make_mixtures(encoder.tokenizer([distinct[i] for i in counted], length, warn=False), seed)
  originals, mixed = (encoder.embed_ids(ids, pooling, batch_size) for ids in (mixtures.originals, mixtures.mixed))
  fitted = {name: make_calibration(name, shares).fit(rows) for name in CANDIDATES}
  scores = {}
  for name, calibration in fitted.items():
    sides = (np.asarray(low_dim(calibration.transform(u), identity.low_dim)) for u in (originals, mixed))
    scores[name] = mixtures.agreement(*sides)
  if np.isnan(list(scores.values())).any():
    raise CalibrationError("calibration=auto: all sentences look alike to a calibration; expected more, and different")
  agreement = dict(sorted(scores.items(), key=lambda item: -item[1]))
  best = next(iter(agreement))
  ranking = ", ".join(f"{name} {score:.2f}" for name, score in agreement.items())
  logging.info("auto: agreement with mixtures of %d sentences, x 100: %s", len(mixtures.originals), ranking)
  logging.info("auto: %s taken. This compares calibrations; it does not tell whether one helps", best)
  return Choice(fitted[best], agreement, len(mixtures.originals), seed)
