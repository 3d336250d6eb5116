"""Losses of a siamese training, and the variables that learn from them."""

from typing import Any

import tensorflow as tf

from bert_flow_tf.calibration.step import Features, apply_steps
from bert_flow_tf.calibration.step_list import steps_of_identity
from bert_flow_tf.encoder.identity import EncoderIdentity
from bert_flow_tf.encoder.sentence_encoder import SentenceEncoder
from bert_flow_tf.flow.glow import Glow
from bert_flow_tf.flow.keras import tf_variables
from bert_flow_tf.training.siamese.labeled_pairs import LabeledPairs
from bert_flow_tf.training.siamese.objectives import Classifier, cosine_losses
from bert_flow_tf.training.siamese.settings import SiameseSettings


class SiameseLosses:
  """Losses of pairs whose sentences go through one BERT, with a classifier or without, with a flow or without.

      u, v = embeddings of the two sentences, with dropout;  e = g(f(u)), g(f(v)) with a flow f and the
                                                          steps g that the identity of the embeddings holds
      loss      = mean over the batch of: the classifier's loss of e, or the cosine's (0 for a pair without label)
                                          + l2_penalty * (|e_u| + |e_v|)
      flow_loss = mean bits per dimension of f(u) + mean bits per dimension of f(v)

  `variables` learn from `loss`. `flow_variables` are the flow's variables if they learn from `flow_loss` instead; with
  `flow_loss` off they are among `variables`, and the list is empty.
  """

  def __init__(
    self,
    encoder: SentenceEncoder,
    identity: EncoderIdentity,
    classifier: Classifier | None,
    flow: Glow | None,
    settings: SiameseSettings,
  ) -> None:
    self.encoder, self.classifier, self.flow = encoder, classifier, flow
    self._settings, self._embedding = settings, identity.settings.model_arguments()
    self._pooling = encoder.pooling(identity.sentence_embedding_type)
    self._steps = steps_of_identity(identity)
    self.variables = encoder.trained_weights(self._pooling)
    self.flow_variables: list[tf.Variable] = []
    if classifier is not None:
      self.variables.append(classifier.output_weights)
    if flow is not None and settings.flow_loss:
      self.flow_variables = tf_variables(flow.trainable_variables)
    elif flow is not None:
      self.variables += tf_variables(flow.trainable_variables)

  def identity(self) -> dict[str, Any]:
    """Returns the JSON values of encoder, classifier and flow that a resumed training must share."""
    encoder = self.encoder.identity(**self._embedding).deciding()
    del encoder["max_seq_length"]  # shows in the data
    return {
      "encoder": encoder,  # before the training
      "classifier": self.classifier and self.classifier.settings(),
      "flow": self.flow and self.flow.settings(),
    }

  def embed(self, source: LabeledPairs, ids: tf.Tensor, dropout_seed: tf.Tensor | None = None) -> tf.Tensor:
    """Returns the embeddings, before the flow, of one side of `source.features`: float32 [batch, dim]."""
    ids, mask = source.tokens(ids)
    # The published code computes padding, too. So do GPUs, which are faster with it (docs/benchmarks.md).
    packed = not self._settings.as_published and not tf.config.list_logical_devices("GPU")
    return self.encoder.pooled_batch(ids, mask, self._pooling, dropout_seed, packed)

  def __call__(self, source: LabeledPairs, features: Any, seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns `loss` and `flow_loss`, or a replica's share of them, of `source.features`; `seed` is for dropout."""
    settings = self._settings
    *sides, targets = features
    # BERT's dropout only disturbs the flow while BERT does not learn; the published code has it on then too.
    has_dropout = not settings.frozen or settings.as_published
    embeddings = []
    for number, ids in enumerate(sides):
      dropout_seed = None
      if has_dropout:
        dropout_seed = tf.random.experimental.stateless_fold_in(seed, number)
      embeddings.append(self.embed(source, ids, dropout_seed))
    compared = embeddings = tf.concat(embeddings, axis=0)
    if self.flow:
      compared = self.flow(embeddings)
    compared = apply_steps(self._steps, Features(compared))
    u, v = tf.split(compared, 2)
    losses = self._label_losses(u, v, targets)
    flow_losses = tf.zeros([1])
    if self.flow_variables:
      coupling_seed = None
      if self.flow.config.coupling_dropout:
        coupling_seed = tf.random.experimental.stateless_fold_in(seed, len(sides))
      flow_losses = self.flow.bits_per_dim(embeddings, coupling_seed)
    # A replica has a part of the batch: the replicas' shares are added up.
    batch_size = settings.train_batch_size
    return tf.reduce_sum(losses) / batch_size, tf.reduce_sum(flow_losses) / batch_size

  def _label_losses(self, u, v, targets):
    """Returns the loss of each pair of embeddings [batch, dim], float32 [batch]."""
    losses_of = cosine_losses
    if self.classifier is not None:
      losses_of = self.classifier.losses
    # A pair without a label has no loss, and no gradient.
    is_labelled = tf.math.is_finite(targets)
    losses = tf.where(is_labelled, losses_of(u, v, tf.where(is_labelled, targets, 0.0)), 0.0)
    penalty = self._settings.l2_penalty
    if penalty > 0:
      losses += penalty * tf.add_n([tf.norm(u, axis=-1), tf.norm(v, axis=-1)])
    return losses
