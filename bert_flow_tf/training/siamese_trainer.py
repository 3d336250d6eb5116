"""Fine-tunes an encoder on pairs of sentences, over tf.distribute, and resumes a training that was interrupted."""

import dataclasses
import math
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf
from absl import logging

from bert_flow_tf.data.pipeline import ORDER, batched, pair_order
from bert_flow_tf.encoder import fine_tuning
from bert_flow_tf.encoder.pooling import Pooling, low_dim
from bert_flow_tf.encoder.sentence_encoder import SentenceEncoder
from bert_flow_tf.errors import ConfigError, TrainingError
from bert_flow_tf.flow.glow import Glow
from bert_flow_tf.io.settings import named_values
from bert_flow_tf.training.distribution import check_batch_size, distribute_batches, seed_of_step
from bert_flow_tf.training.labelled_pairs import LabelledPairs
from bert_flow_tf.training.loop import Checkpoints, LoopResult, TrainingLoop
from bert_flow_tf.training.objectives import CosineObjective, SoftmaxObjective
from bert_flow_tf.training.optimizer import AdamWeightDecay, WarmUpLinearDecay, num_steps
from bert_flow_tf.training.siamese_settings import SiameseSettings

_CLIP_NORM = 1.0

# Columns of `SiameseResult.losses`, as TensorBoard shows them.
LOSSES = ("loss", "flow_loss", "grad_norm", "flow_grad_norm")


@dataclasses.dataclass(frozen=True)
class SiameseResult(LoopResult):
  """Result of `SiameseTrainer.fit`; the columns of its losses are named in `LOSSES`.

  Attributes:
    planned_steps: steps that would have been made without early stopping.
    best: (score, step) on dev with early stopping, else None.
  """

  planned_steps: int
  best: tuple[float, int] | None


class SiameseTrainer:
  """Trainer of BERT through two encodings with shared weights, with a classifier and optionally a flow.

      u, v = embeddings of the two sentences, with dropout;  e = low_dim(f(u)), low_dim(f(v)) with a flow f
      loss      = mean over the batch of: the objective's loss of e (0 for a pair without label)
                                          + l2_penalty * (|e_u| + |e_v|)
      flow_loss = mean bits per dimension of f(u) + mean bits per dimension of f(v)

  With `flow_loss` there are two optimizers: BERT and the classifier learn from `loss`, through the flow, and the flow
  learns from `flow_loss` alone, at a constant rate. Without it, one optimizer trains all variables on `loss`. Both are
  `AdamWeightDecay`, and each clips its gradients to a joint norm of 1 (docs/original.md, "Siamese fine-tuning").
  The rate of `loss` warms up and decays (`WarmUpLinearDecay`).
  Dropout follows from seed, step and replica, so that a resumed training ends with the same weights to the bit.

  Args:
    encoder: a `SentenceEncoder`, created under `strategy.scope()`.
    pooling: its `Pooling`.
    objective: created under the same scope.
    flow: `Glow` created under the same scope, or None.
    settings: `SiameseSettings`.
    strategy: a `tf.distribute.Strategy` of one machine; None for the current one.
    low_dim: number of groups of neighboring dimensions of e to average; None for none.
    checkpoint_folder, summary_folder, show_progress: see `TrainingLoop`.
    on_checkpoint: called with the number of steps made whenever a checkpoint is saved.

  Raises:
    ConfigError: the batch cannot be shared among the replicas.
  """

  def __init__(
    self,
    encoder: SentenceEncoder,
    pooling: Pooling,
    objective: SoftmaxObjective | CosineObjective,
    flow: Glow | None = None,
    settings: SiameseSettings | None = None,
    strategy: tf.distribute.Strategy | None = None,
    low_dim: int | None = None,
    checkpoint_folder: str | os.PathLike | None = None,
    summary_folder: str | os.PathLike | None = None,
    show_progress: bool = True,
    on_checkpoint: Callable[[int], None] = lambda step: None,
  ) -> None:
    self._on_checkpoint = on_checkpoint
    self._encoder, self._pooling, self._low_dim = encoder, pooling, low_dim
    self._objective, self._flow = objective, flow
    self._settings = settings or SiameseSettings()
    self._strategy = strategy or tf.distribute.get_strategy()
    self._checkpoint_folder, self._summary_folder = checkpoint_folder, summary_folder
    self._show_progress = show_progress
    check_batch_size(self._strategy, self._settings.train_batch_size)
    flow_variables = list(flow.trainable_variables) if flow else []
    self._variables = [*fine_tuning.trained_weights(encoder.bert, pooling), *objective.variables]
    self._flow_variables = flow_variables if self._settings.flow_loss else []
    if flow and not self._settings.flow_loss:
      self._variables += flow_variables

  def fit(
    self,
    source: LabelledPairs,
    num_train_epochs: float = 1.0,
    early_stopping: "EarlyStopping | None" = None,
    shuffle: bool = True,
  ) -> SiameseResult:
    """Trains; a second call continues from the current weights.

    Args:
      source: the pairs.
      num_train_epochs: passes over the pairs, a positive number.
      early_stopping: needs a checkpoint folder; None for none. It evaluates dev after each pass over the pairs, which
        is also when checkpoints are saved, whatever `save_checkpoints_steps` is.
      shuffle: False for the order of the source.

    Raises:
      ConfigError: the training would make no step, or nothing could be learned.
      TrainingError: a loss or a weight became NaN or infinite; the last good checkpoint is kept.
      FlowError: the flow cannot be initialized from these embeddings.
    """
    total = num_steps(source.num_pairs, self._settings.train_batch_size, num_train_epochs)
    if not self._learns_from_labels(source) and not self._flow_variables:
      raise ConfigError("no pair has a label, and flow_loss and l2_penalty are off: nothing can be learned")
    if early_stopping and self._checkpoint_folder is None:
      raise ConfigError("early_stopping keeps the best weights in checkpoint_folder, which is None")
    # Without labels or penalty, `loss` is a constant: its variables have no gradient, and are not decayed either.
    variables = self._variables if self._learns_from_labels(source) else []
    optimizers = self._optimizers(total, variables)
    order = pair_order(len(source), self._settings.seed, shuffle)
    loop = self._loop(source, total, optimizers, early_stopping)
    loop.restore(lambda: self._initialize_flow(source, order))
    advance = compiled_advance(
      lambda features, seed: self._losses(source, features, seed),
      (variables, self._flow_variables),
      optimizers,
      self._encoder.bert.model.get_input_embeddings().weight,
      self._strategy,
      self._settings,
    )
    batches = distribute_batches(self._strategy, source, order, self._settings.train_batch_size, loop.step)
    iterator = iter(batches)
    result = loop.run(
      lambda step, _: advance(iterator, tf.constant(step, tf.int64)).numpy(),
      lambda losses: ", ".join(f"{name} {value:.4f}" for name, value in zip(LOSSES, losses[-1], strict=True) if value),
      before_saving=lambda step, _: self._before_saving(step, early_stopping),
      stopped=lambda: early_stopping is not None and early_stopping.stopped,
    )
    if early_stopping:
      early_stopping.take_best()
    return SiameseResult(**vars(result), planned_steps=total, best=early_stopping.best if early_stopping else None)

  def _learns_from_labels(self, source):
    return source.labelled > 0 or self._settings.l2_penalty > 0

  def _before_saving(self, step, early_stopping):
    self._on_checkpoint(step)
    return {"dev": early_stopping.look(step)} if early_stopping else {}

  def _optimizers(self, total, variables):
    """Returns the optimizers of `loss` and `flow_loss`, built; the gradients are clipped before they get them."""
    settings = self._settings
    rate = WarmUpLinearDecay(settings.learning_rate, total, int(total * settings.warmup_proportion))
    with self._strategy.scope():
      optimizers = [AdamWeightDecay(r, global_clipnorm=None) for r in (rate, settings.flow_learning_rate)]
      optimizers[0].build(variables)
      optimizers[1].build(self._flow_variables)
    return optimizers

  def _loop(self, source, total, optimizers, early_stopping):
    weights = {"weights": list(self._variables)} | ({"flow": self._flow} if self._flow else {})
    objects = {**weights, "optimizers": optimizers}
    identity = self._identity(source, total, early_stopping)
    if early_stopping:
      objects["early_stopping"] = early_stopping.variables
      early_stopping.keep_in(self._checkpoint_folder, identity, **weights)
    trained = [*self._variables, *self._flow_variables]
    return TrainingLoop(
      losses=LOSSES,
      total=total,
      strategy=self._strategy,
      objects=objects,
      variables=trained,
      trained=trained,
      identity=identity,
      save_checkpoints_steps=self._checkpoint_steps(source, early_stopping),
      checkpoint_folder=self._checkpoint_folder,
      summary_folder=self._summary_folder,
      show_progress=self._show_progress,
      rates="learning_rate or flow_learning_rate" if self._flow else "learning_rate",
    )

  def _identity(self, source, total, early_stopping):
    encoder = self._encoder.identity(self._pooling, low_dim=self._low_dim).deciding()
    settings = named_values(self._settings)
    del settings["flow_model_config"]  # the flow's own settings hold its content
    identity = {
      **settings,
      # Of the encoder before the training. max_seq_length shows in the data.
      "encoder": {key: value for key, value in encoder.items() if key != "max_seq_length"},
      "objective": self._objective.settings(),
      "flow": self._flow and self._flow.settings(),
      "steps": total,
      "pairs": len(source),
      "order": ORDER,
      "data": source.fingerprint(),
      "early_stopping": early_stopping and early_stopping.settings(),
    }
    if early_stopping:  # the steps at which dev is evaluated decide the result
      identity["save_checkpoints_steps"] = self._checkpoint_steps(source, early_stopping)
    return identity

  def _checkpoint_steps(self, source, early_stopping):
    if not early_stopping:
      return self._settings.save_checkpoints_steps
    return max(1, source.num_pairs // self._settings.train_batch_size)

  def _initialize_flow(self, source, order):
    """Initializes from the first sentences of the first batch, without dropout, as a fit of the flow alone."""
    if self._flow and self._flow.needs_initialization:
      ids, _, _ = next(iter(source.features(batched(order, self._settings.train_batch_size).take(1))))
      self._flow.initialize(self._embed(source, ids, None))

  def _embed(self, source, ids, dropout_seed):
    ids, mask = source.tokens(ids)
    return fine_tuning.embed(self._encoder.bert, ids, mask, self._pooling, dropout_seed)

  def _losses(self, source, features, seed):
    """Returns a replica's share of `loss` and `flow_loss`, float32 scalars."""
    settings = self._settings
    *sides, targets = features
    # BERT's dropout only disturbs the flow while BERT does not learn; the published code has it on then too.
    dropout = not settings.frozen or settings.as_published
    seeds = [tf.random.experimental.stateless_fold_in(seed, side) if dropout else None for side in range(len(sides))]
    embeddings = tf.concat([self._embed(source, *side) for side in zip(sides, seeds, strict=True)], axis=0)
    compared = self._flow(embeddings) if self._flow else embeddings
    if self._low_dim is not None:
      compared = low_dim(compared, self._low_dim)
    compared = tf.split(compared, len(sides))
    labelled = tf.math.is_finite(targets)
    losses = tf.where(labelled, self._objective.losses(*compared, tf.where(labelled, targets, 0.0)), 0.0)
    if settings.l2_penalty > 0:
      losses += settings.l2_penalty * tf.add_n([tf.norm(e, axis=-1) for e in compared])
    flow_losses = tf.zeros([1])
    if self._flow_variables:
      dropout_seed = None
      if self._flow.config.coupling_dropout:
        dropout_seed = tf.random.experimental.stateless_fold_in(seed, len(sides))
      flow_losses = self._flow.bits_per_dim(embeddings, dropout_seed)
    return [tf.reduce_sum(values) / settings.train_batch_size for values in (losses, flow_losses)]


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


class EarlyStopping:
  """Evaluates dev whenever a checkpoint is due; its state is saved with the training.

  Args:
    evaluate: returns dev's score for the current weights; higher is better.
    patience: evaluations in a row without a better score after which the training stops.
    as_published: a lower score is better, and the last weights stay. So the published code, which waits for Pearson's
      correlation to fall.

  Raises:
    ConfigError: patience is not positive.
  """

  def __init__(self, evaluate: Callable[[], float], patience: int = 1, as_published: bool = False) -> None:
    if patience < 1:
      raise ConfigError(f"early_stopping_patience={patience}: expected at least 1", argument="early_stopping_patience")
    self._evaluate = evaluate
    self._patience = patience
    self._as_published = as_published
    self._best = tf.Variable(math.inf if as_published else -math.inf, dtype=tf.float64, trainable=False)
    self._best_step = tf.Variable(0, dtype=tf.int64, trainable=False)
    self._since = tf.Variable(0, dtype=tf.int64, trainable=False)
    self._kept: Any = None

  @property
  def variables(self) -> list[tf.Variable]:
    """State, part of the training's checkpoints."""
    return [self._best, self._best_step, self._since]

  @property
  def stopped(self) -> bool:
    """True after `patience` evaluations in a row without a better score."""
    return int(self._since.numpy()) >= self._patience

  @property
  def best(self) -> tuple[float, int] | None:
    """Best score and its step; None before the first score."""
    return (float(self._best.numpy()), int(self._best_step.numpy())) if int(self._best_step.numpy()) else None

  def settings(self) -> dict[str, int | bool]:
    """Returns the json values that decide the result."""
    return {"patience": self._patience, "as_published": self._as_published}

  def keep_in(self, folder: str | os.PathLike, identity: Mapping[str, Any], **objects: Any) -> None:
    """Keeps the best weights in folder/best; the arguments are those of `Checkpoints`."""
    self._kept = Checkpoints(pathlib.Path(folder) / "best", identity, **objects)

  def look(self, step: int) -> float:
    """Evaluates dev, keeps the weights if they are the best so far, and returns the score."""
    score, best = self._evaluate(), float(self._best.numpy())
    if score < best if self._as_published else score > best:  # never for NaN
      # Before the training's own checkpoint: a training killed in between evaluates again and writes the same.
      self._kept.save(step)
      self._best.assign(score)
      self._best_step.assign(step)
      self._since.assign(0)
    else:
      self._since.assign_add(1)
    logging.info("dev at step %d: %.2f, best %.2f at step %d", step, score, *(self.best or (math.nan, 0)))
    return score

  def take_best(self) -> None:
    """Restores the best weights; the last ones stay if dev never had a score, and with `as_published`.

    Raises:
      TrainingError: the best weights cannot be read.
    """
    if self._as_published:
      return
    if self.best is None:
      logging.warning("early stopping: dev never had a score, so the last weights are used")
      return
    if self._kept.restore(self.best[1]) is None:
      raise TrainingError(f"the weights of step {self.best[1]}, the best on dev, are missing; train again")
