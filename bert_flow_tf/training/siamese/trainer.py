"""Fine-tunes an encoder on pairs of sentences, over tf.distribute, and resumes a training that was interrupted."""

import dataclasses
import os
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from bert_flow_tf.errors import ConfigError
from bert_flow_tf.io.settings import named_values
from bert_flow_tf.training.loop import LoopResult, TrainingLoop, trace
from bert_flow_tf.training.optimizer import AdamWeightDecay, WarmUpLinearDecay, num_steps, num_warmup_steps
from bert_flow_tf.training.pipeline import ORDER, batched, pair_order, published_order
from bert_flow_tf.training.siamese.early_stopping import EarlyStopping
from bert_flow_tf.training.siamese.labeled_pairs import LabeledPairs
from bert_flow_tf.training.siamese.losses import SiameseLosses
from bert_flow_tf.training.siamese.settings import SiameseSettings
from bert_flow_tf.training.strategies import distribute_batches, seed_of_step

_CLIP_NORM = 1.0

# Columns of `SiameseResult.losses`, as TensorBoard shows them.
LOSSES = ("loss", "flow_loss", "grad_norm", "flow_grad_norm")


@dataclasses.dataclass(frozen=True)
class SiameseResult(LoopResult):
  """Result of `SiameseTrainer.fit`: losses [steps, 4], steps without early stopping, best (score, step) on dev."""

  planned_steps: int
  best: tuple[float, int] | None


class SiameseTrainer:
  """Trainer of BERT through two encodings with shared weights, with a classifier and optionally a flow.

  With `flow_loss` there are two optimizers: BERT and the classifier learn from `loss`, through the flow, and the flow
  learns from `flow_loss` alone, at a constant rate. Without it, one optimizer trains all variables on `loss`. Both are
  `AdamWeightDecay`, and each clips its gradients to a joint norm of 1 (docs/original.md, "Siamese fine-tuning").
  The rate of `loss` warms up and decays (`WarmUpLinearDecay`).
  Dropout follows from seed, step and replica, so that a resumed training ends with the same weights to the bit.

  The variables of `losses` are created under the strategy's scope; the strategy is one of a single machine.
  `on_checkpoint` is called with the number of steps made whenever a checkpoint is saved.
  """

  def __init__(
    self,
    losses: SiameseLosses,
    settings: SiameseSettings,
    strategy: tf.distribute.Strategy | None = None,
    checkpoint_folder: str | os.PathLike | None = None,
    summary_folder: str | os.PathLike | None = None,
    on_checkpoint: Callable[[int], None] = lambda step: None,
  ) -> None:
    self._losses, self._settings = losses, settings
    self._strategy = strategy or tf.distribute.get_strategy()
    self._checkpoint_folder, self._summary_folder = checkpoint_folder, summary_folder
    self._on_checkpoint = on_checkpoint

  def fit(
    self,
    source: LabeledPairs,
    num_train_epochs: float = 1.0,
    early_stopping: EarlyStopping | None = None,
    shuffle: bool = True,
  ) -> SiameseResult:
    """Trains for passes over the pairs; a second call continues from the current weights."""
    # Early stopping, which needs a checkpoint folder, evaluates dev and saves a checkpoint after each pass, whatever
    # `save_checkpoints_steps` is.
    settings = self._settings
    total = num_steps(source.num_pairs, settings.train_batch_size, num_train_epochs)
    learns_from_labels = source.labelled > 0 or settings.l2_penalty > 0
    flow_variables = self._losses.flow_variables
    if not learns_from_labels and not flow_variables:
      raise ConfigError("no pair has a label, and flow_loss and l2_penalty are off: nothing can be learned")
    # Without labels or penalty, `loss` is a constant: its variables have no gradient, and are not decayed either.
    variables: list[tf.Variable] = []
    if learns_from_labels:
      variables = self._losses.variables
    groups = variables, flow_variables
    optimizers = self._optimizers(total, groups)
    order = pair_order(len(source), settings.seed, shuffle)
    if settings.as_published and shuffle and len(source) > source.num_pairs:
      order = published_order(len(source), settings.seed)
    loop = self._loop(source, total, optimizers, early_stopping)
    loop.restore(lambda: self._initialize_flow(source, order))
    advance = self._compiled_advance(source, groups, optimizers)
    iterator = iter(distribute_batches(self._strategy, source, order, settings.train_batch_size, loop.step))
    if loop.step < total:
      trace(advance, iterator, tf.constant(0, tf.int64))

    def before_saving(step, losses):
      self._on_checkpoint(step)
      if early_stopping is None:
        return {}
      return {"dev": early_stopping.evaluate(step)}

    result = loop.run(
      lambda step, count: advance(iterator, tf.constant(step, tf.int64)).numpy(),
      _note,
      before_saving=before_saving,
      stopped=lambda: early_stopping is not None and early_stopping.stopped,
    )
    best = None
    if early_stopping:
      early_stopping.take_best()
      best = early_stopping.best
    return SiameseResult(**vars(result), planned_steps=total, best=best)

  def _optimizers(self, total, groups):
    """Returns the optimizers of `loss` and `flow_loss`, built; the gradients are clipped before they get them."""
    settings = self._settings
    warmup_steps = num_warmup_steps(total, settings.warmup_proportion)
    rate = WarmUpLinearDecay(settings.learning_rate, total, warmup_steps)
    optimizers = []
    with self._strategy.scope():
      for learning_rate, group in zip((rate, settings.flow_learning_rate), groups, strict=True):
        optimizer = AdamWeightDecay(learning_rate, global_clipnorm=None)
        optimizer.build(group)
        optimizers.append(optimizer)
    return optimizers

  def _loop(self, source, total, optimizers, early_stopping):
    settings, losses = self._settings, self._losses
    weights = {"weights": list(losses.variables)}
    rates = "learning_rate"
    if losses.flow:
      weights["flow"] = losses.flow
      rates = "learning_rate or flow_learning_rate"
    objects = {**weights, "optimizers": optimizers}
    identity = self._identity(source, total)
    checkpoint_steps = settings.save_checkpoints_steps
    if early_stopping:
      # The steps at which dev is evaluated decide the result.
      checkpoint_steps = max(1, source.num_pairs // settings.train_batch_size)
      identity |= {"early_stopping": early_stopping.settings(), "save_checkpoints_steps": checkpoint_steps}
      objects["early_stopping"] = early_stopping.state
      early_stopping.keep_in(self._checkpoint_folder, identity, weights)
    trained = losses.variables + losses.flow_variables
    return TrainingLoop(
      losses=LOSSES,
      total=total,
      strategy=self._strategy,
      objects=objects,
      variables=trained,
      trained=trained,
      identity=identity,
      save_checkpoints_steps=checkpoint_steps,
      checkpoint_folder=self._checkpoint_folder,
      summary_folder=self._summary_folder,
      rates=rates,
    )

  def _identity(self, source, total):
    """Returns the JSON values that must be equal for a training to be resumed."""
    settings = named_values(self._settings)
    del settings["flow_model_config"]  # the flow's own settings hold its content
    return {
      **settings,
      **self._losses.identity(),
      "steps": total,
      "pairs": len(source),
      "order": ORDER,
      "data": source.fingerprint(),
      "early_stopping": None,
    }

  def _initialize_flow(self, source, order):
    """Initializes from the first sentences of the first batch, without dropout, as a fit of the flow alone."""
    flow = self._losses.flow
    if flow and flow.needs_initialization:
      ids, _, _ = next(iter(source.features(batched(order, self._settings.train_batch_size).take(1))))
      flow.initialize(self._losses.embed(source, ids))

  def _compiled_advance(self, source, groups, optimizers):
    """Returns the function (iterator of batches, step) -> losses and gradient norms before the step, float32 [4]."""
    settings, strategy = self._settings, self._strategy
    table = self._losses.encoder.bert.word_embeddings

    def losses_and_gradients(features, seed):
      """Returns a replica's share of the losses, the gradients of both groups, and the squared norm of the table's."""
      with tf.GradientTape(persistent=True) as tape:
        losses = self._losses(source, features, seed)
      # The gradient of the table has a row for each token. As in the published code, the norm counts these rows before
      # the gradients of equal tokens are added up.
      square = tf.zeros([])
      gradients = []
      for loss, group in zip(losses, groups, strict=True):
        of_group = tape.gradient(loss, group)
        for gradient, variable in zip(of_group, group, strict=True):
          if variable is table:
            square = tf.reduce_sum(tf.square(gradient.values))
        gradients.append([tf.convert_to_tensor(gradient) for gradient in of_group])
      return losses, gradients, square

    if settings.use_xla:
      losses_and_gradients = tf.function(losses_and_gradients, autograph=False, jit_compile=True)

    def replica_step(features, step):
      context = tf.distribute.get_replica_context()
      seed = seed_of_step(tf.constant(settings.seed, tf.int32), step, context.replica_id_in_sync_group)
      losses, gradients, square = context.all_reduce(tf.distribute.ReduceOp.SUM, losses_and_gradients(features, seed))
      norms = []
      # All gradients belong to the weights at the step's start.
      for optimizer, group, of_group in zip(optimizers, groups, gradients, strict=True):
        norm = _global_norm(of_group, group, table, tf.sqrt(square))
        clipped, _ = tf.clip_by_global_norm(of_group, _CLIP_NORM, use_norm=norm)
        if group:
          optimizer.apply_gradients(zip(clipped, group, strict=True), skip_gradients_aggregation=True)
        norms.append(norm)
      return tf.stack(list(losses) + norms)

    @tf.function(autograph=False)
    def advance(iterator, step):
      return strategy.experimental_local_results(strategy.run(replica_step, args=(next(iterator), step)))[0]

    return advance


def _global_norm(gradients: Sequence[tf.Tensor], variables: Sequence[tf.Variable], table: tf.Variable, of_table: Any):
  """Returns the joint norm of gradients, a scalar, with the given norm for the table of word embeddings."""
  counted = []
  for gradient, variable in zip(gradients, variables, strict=True):
    counted.append(of_table if variable is table else gradient)
  counted.append(tf.zeros([]))  # a group may be empty
  return tf.linalg.global_norm(counted)


def _note(losses):
  """Returns the text that progress shows: the last losses and norms, without those that are 0."""
  shown = [f"{name} {value:.4f}" for name, value in zip(LOSSES, losses[-1], strict=True) if value]
  return ", ".join(shown)
