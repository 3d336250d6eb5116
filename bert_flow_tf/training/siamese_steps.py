"""Steps of a siamese training: losses and gradients of every replica, clipping and updates."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from bert_flow_tf.training.distribution import seed_of_step
from bert_flow_tf.training.optimizer import AdamWeightDecay
from bert_flow_tf.training.siamese_settings import SiameseSettings

_CLIP_NORM = 1.0


def compiled_advance(
  losses_of: Callable[[Any, tf.Tensor], Sequence[tf.Tensor]],
  groups: Sequence[Sequence[tf.Variable]],
  optimizers: Sequence[AdamWeightDecay],
  table: tf.Variable,
  strategy: tf.distribute.Strategy,
  settings: SiameseSettings,
) -> Callable[[Any, tf.Tensor], tf.Tensor]:
  """Returns the function (iterator of batches, step) -> losses and gradient norms before the step, float32 [4].

  Args:
    losses_of: (features, seed int32 [2]) -> a replica's share of the two losses, float32 scalars.
    groups: the variables that learn from each loss.
    optimizers: the optimizer of each group; it does not clip.
    table: BERT's word embeddings.
    strategy: the `tf.distribute.Strategy`.
    settings: seed and use_xla.
  """

  def losses_and_gradients(features, seed):
    """Returns a replica's share of the losses, the gradients of both groups, and the squared norm of the table's."""
    with tf.GradientTape(persistent=True) as tape:
      losses = losses_of(features, seed)
    gradients = [tape.gradient(loss, group) for loss, group in zip(losses, groups, strict=True)]
    # The gradient of the table has a row for each token. As in the published code, the norm counts these rows before
    # those of equal tokens are added up.
    rows = [gradient.values for gradient, variable in zip(gradients[0], groups[0], strict=True) if variable is table]
    square = tf.add_n([tf.reduce_sum(tf.square(values)) for values in rows] or [tf.zeros([])])
    return losses, [[tf.convert_to_tensor(gradient) for gradient in group] for group in gradients], square

  if settings.use_xla:
    losses_and_gradients = tf.function(losses_and_gradients, autograph=False, jit_compile=True)

  def replica_step(features, step):
    context = tf.distribute.get_replica_context()
    seed = seed_of_step(tf.constant(settings.seed, tf.int32), step, context.replica_id_in_sync_group)
    losses, gradients, square = context.all_reduce(tf.distribute.ReduceOp.SUM, losses_and_gradients(features, seed))
    values = [*losses]
    # All gradients are those of the step's start.
    for optimizer, group, of_group in zip(optimizers, groups, gradients, strict=True):
      counted = [tf.sqrt(square) if v is table else g for v, g in zip(group, of_group, strict=True)]
      norm = tf.linalg.global_norm([*counted, tf.zeros([])])
      clipped, _ = tf.clip_by_global_norm(of_group, _CLIP_NORM, use_norm=norm)
      if group:
        optimizer.apply_gradients(zip(clipped, group, strict=True), skip_gradients_aggregation=True)
      values.append(norm)
    return tf.stack(values)

  @tf.function(autograph=False)
  def advance(iterator, step):
    return strategy.experimental_local_results(strategy.run(replica_step, args=(next(iterator), step)))[0]

  return advance
