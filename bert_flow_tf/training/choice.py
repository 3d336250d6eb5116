"""Choice of a calibration without labels: `calibration=auto`."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from absl import logging

from bert_flow_tf.calibration.names import AUTO_CANDIDATES, make_calibration
from bert_flow_tf.calibration.step import Calibration, apply_to_rows
from bert_flow_tf.calibration.step_list import steps_of_identity
from bert_flow_tf.encoder.identity import EncoderIdentity
from bert_flow_tf.encoder.text_encoder import TextEncoder
from bert_flow_tf.errors import CalibrationError
from bert_flow_tf.evaluation import isotropy
from bert_flow_tf.evaluation.mixtures import make_mixtures

# Chosen where embeddings have no cone that a calibration could remove.
NONE = "none"
_NO_CONE = "the embeddings lie in no narrow cone"
# Sentences whose word pieces are counted.
_COUNTED = 20_000


@dataclasses.dataclass(frozen=True)
class Choice:
  """The calibration that was chosen, {name: `Mixtures.agreement`} of all, the best first; or why it is none of them."""

  calibration: Calibration
  agreement: dict[str, float]
  sentences: int
  seed: int
  reason: str | None = None

  def to_dict(self) -> dict[str, Any]:
    """Returns JSON values for results.json."""
    return {
      "chosen": self.calibration.name,
      "agreement": self.agreement,
      "sentences": self.sentences,
      "seed": self.seed,
      "reason": self.reason,
    }


def choose_calibration(
  encoder: TextEncoder,
  identity: EncoderIdentity,
  sentences: Sequence[str],
  rows: np.ndarray,
  seed: int = 0,
  batch_size: int = 64,
) -> Choice:
  """Fits `AUTO_CANDIDATES` on rows [n, dim]; chooses by the agreement of similarities with mixtures of sentences."""
  # NONE where there is no cone, but for means of word embeddings. Besides the fits, it embeds 2,400 sentences at most.
  distinct = list(dict.fromkeys(sentences))
  counted = np.random.default_rng(seed).permutation(len(distinct))[:_COUNTED]
  ids = encoder.tokenizer([distinct[i] for i in counted], identity.max_seq_length, warn=False)
  mixtures = make_mixtures(ids, seed)
  originals = encoder.embed_ids(mixtures.originals, identity.sentence_embedding_type, batch_size)
  mixed = encoder.embed_ids(mixtures.mixed, identity.sentence_embedding_type, batch_size)

  # Fit each candidate, and compare the calibrated sentences with their calibrated mixtures.
  fitted, scores = {}, {}
  for name in AUTO_CANDIDATES:
    calibration = make_calibration(name).fit(rows)
    steps = [calibration, *steps_of_identity(identity)]
    fitted[name] = calibration
    scores[name] = mixtures.agreement(apply_to_rows(steps, originals), apply_to_rows(steps, mixed))
  if np.isnan(list(scores.values())).any():
    message = "calibration=auto: the sentences do not differ after a calibration; give more sentences"
    raise CalibrationError(message, "calibration")

  best_first = sorted(scores, key=lambda name: -scores[name])
  agreement = {name: scores[name] for name in best_first}
  ranking = ", ".join(f"{name} {score:.2f}" for name, score in agreement.items())
  logging.info("auto: agreement with mixtures of %d sentences, x 100: %s", len(mixtures.originals), ranking)
  reads_words = encoder.pooling(identity.sentence_embedding_type).reads_words
  if not reads_words and not isotropy.has_cone(rows):
    logging.info("auto: %s, because %s", NONE, _NO_CONE)
    return Choice(make_calibration(NONE).fit(rows), agreement, len(mixtures.originals), seed, _NO_CONE)
  logging.info("auto: %s selected. This compares calibrations; it does not tell whether one helps", best_first[0])
  return Choice(fitted[best_first[0]], agreement, len(mixtures.originals), seed)
