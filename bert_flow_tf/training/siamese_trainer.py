"""Fine-tunes an encoder on pairs of sentences, over tf.distribute, and resumes where it was stopped."""

import dataclasses
import time
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from bert_flow_tf.data.pipeline import ORDER, batched, pair_order
from bert_flow_tf.encoder import fine_tuning
from bert_flow_tf.errors import ConfigError, TrainingError
from bert_flow_tf.progress import Progress
from bert_flow_tf.training.checkpoints import Checkpoints
from bert_flow_tf.training.optimizer import AdamWeightDecay
from bert_flow_tf.training.schedule import WarmUpLinearDecay, num_steps
from bert_flow_tf.training.summaries import Summaries

# Parts of the loss, in the order of a row of `SiameseResult.losses`.
LOSSES = ("supervised", "flow", "l2_penalty")


@dataclasses.dataclass(frozen=True)
class SiameseSettings:
  """How a siamese encoder is trained; the defaults are the published ones for NLI.

  Attributes:
    learning_rate: the highest rate of BERT and the classifier.
    warmup_proportion: part of the steps in which it rises from 0; it then falls to 0.
    batch_size: pairs a step, over all replicas.
    flow_learning_rate: the flow's constant rate.
    flow_loss: whether the flow's own loss, bits per dimension, joins.
    l2_penalty: factor of half the sum of squares of BERT's decayed weights in the loss, 0 for none. What the published
      code's flag of that name penalises is not known here; this is the term's usual meaning.
    low_dim: number of groups of neighbouring dimensions to average, or None.
    seed: integer from 0 to 2**31 - 1 that the order of the pairs and dropout derive from.
    use_xla: whether forward and backward pass are compiled.
    save_checkpoints_steps: steps between two checkpoints, and two looks at dev.

  Raises:
    ConfigError: a value outside its allowed ones.
  """

  learning_rate: float = 2e-5
  warmup_proportion: float = 0.1
  batch_size: int = 16
  flow_learning_rate: float = 1e-3
  flow_loss: bool = False
  l2_penalty: float = 0.0
  low_dim: int | None = None
  seed: int = 1234
  use_xla: bool = False
  save_checkpoints_steps: int = 1000

  def __post_init__(self):
    for name in ("learning_rate", "flow_learning_rate"):
      value = getattr(self, name)
      if not (np.isfinite(value) and value > 0):
        raise ConfigError(f"{name} is {value}, expected a positive number")
    if not 0 <= self.warmup_proportion <= 1:
      raise ConfigError(f"warmup_proportion is {self.warmup_proportion}, expected a number from 0 to 1")
    if not (np.isfinite(self.l2_penalty) and self.l2_penalty >= 0):
      raise ConfigError(f"l2_penalty is {self.l2_penalty}, expected 0 or a positive number")
    if self.batch_size < 1:
      raise ConfigError(f"train_batch_size is {self.batch_size}, expected at least 1")
    if self.save_checkpoints_steps < 1:
      raise ConfigError(f"save_checkpoints_steps is {self.save_checkpoints_steps}, expected at least 1")
    if not 0 <= self.seed < 2**31:
      raise ConfigError(f"seed is {self.seed}, expected a whole number from 0 to 2**31 - 1")

  def num_steps(self, num_pairs, num_train_epochs):
    """Steps of a fit, an int; see `schedule.num_steps`."""
    return num_steps(num_pairs, self.batch_size, num_train_epochs)


@dataclasses.dataclass(frozen=True)
class SiameseResult:
  """What a fit did.

  Attributes:
    steps: steps made in all, those before a resume included.
    planned_steps: steps that it would have made without early stopping.
    first_step: steps that a checkpoint had already made.
    losses: float array [steps made here, 3], the parts named in `LOSSES` before each step; their sum is minimised.
    seconds_per_step: mean over the steps made here, without the first one, which compiles; NaN without a second step.
    best: (figure, step) on dev with early stopping, else None.
  """

  steps: int
  planned_steps: int
  first_step: int
  losses: np.ndarray
  seconds_per_step: float
  best: tuple[float, int] | None = None


class SiameseTrainer:
  """Fine-tunes BERT through two encodings with shared weights, together with a classifier and a flow where asked.

      u, v = embeddings of the two sentences, with dropout;  with a flow f: f(u), f(v) in their place
      loss = mean over the batch of the objective's losses (0 for a pair without label)
             + flow_loss * (mean bits per dimension of u + mean bits per dimension of v)
             + l2_penalty / 2 * sum of squares of BERT's decayed weights

  Two optimizers, each `AdamWeightDecay` with its gradients clipped to a joint norm of 1: BERT and the classifier at a
  rate that warms up and decays (`WarmUpLinearDecay`), the flow at a constant one. The flow's own loss sees u and v as
  given: it does not reach BERT, which could make it as low as it likes by shrinking its embeddings. The norm is that
  of dense gradients, where TensorFlow 1 took the rows of a table of word embeddings one by one.

  Dropout follows from seed, step and replica, so that a resumed fit ends with the same weights to the bit.

  Args:
    encoder: a `SentenceEncoder` made under `strategy.scope()`.
    pooling: `Pooling`.
    objective: `SoftmaxObjective` or `CosineObjective`, made under the same scope.
    flow: `Glow` made under the same scope, or None.
    settings: `SiameseSettings`.
    strategy: a `tf.distribute.Strategy` of one machine; None for the current one.
    checkpoint_folder: where the fit is saved and resumed from; None for nowhere.
    summary_folder: TensorBoard events; None for none.
    show_progress: whether progress is shown.

  Raises:
    ConfigError: the batch cannot be shared among the replicas.
  """

  def __init__(
    self,
    encoder,
    pooling,
    objective,
    flow=None,
    settings=None,
    strategy=None,
    checkpoint_folder=None,
    summary_folder=None,
    show_progress=True,
  ):
    self._encoder = encoder
    self._pooling = pooling
    self._objective = objective
    self._flow = flow
    self._settings = settings or SiameseSettings()
    self._strategy = strategy or tf.distribute.get_strategy()
    self._checkpoint_folder = checkpoint_folder
    self._summary_folder = summary_folder
    self._show_progress = show_progress
    replicas = self._strategy.num_replicas_in_sync
    if self._settings.batch_size % replicas:
      raise ConfigError(
        f"train_batch_size is {self._settings.batch_size}, expected a positive multiple of the {replicas} replicas"
      )
    self._bert_variables = [*fine_tuning.trained_weights(encoder.bert, pooling), *objective.variables]
    self._flow_variables = list(flow.trainable_variables) if flow else []
    with self._strategy.scope():
      self._step = tf.Variable(0, dtype=tf.int64, trainable=False, name="step")

  def fit(self, source, num_train_epochs=1.0, early_stopping=None):
    """Trains on; called again, it goes on from the weights there are.

    Args:
      source: `LabelledPairs`.
      num_train_epochs: passes over the pairs, a positive number.
      early_stopping: `EarlyStopping`, which needs a checkpoint folder; None for none.

    Returns:
      `SiameseResult`.

    Raises:
      ConfigError: the fit would make no step, or nothing could be learned.
      TrainingError: a loss or a weight became NaN or infinite; the last good checkpoint is kept.
      FlowError: the embeddings do not suit the flow's initialisation.
    """
    total = self._settings.num_steps(len(source), num_train_epochs)
    if not source.labelled and not (self._flow and self._settings.flow_loss):
      raise ConfigError("no pair has a label and there is no flow_loss: nothing can be learned")
    if early_stopping and self._checkpoint_folder is None:
      raise ConfigError("early stopping keeps the best weights in the checkpoint folder; name one")
    run = self._start(source, total, early_stopping)
    losses, seconds = self._run(run)
    steps = self._steps_made()
    if early_stopping:
      early_stopping.take_best()
    best = early_stopping and early_stopping.best
    return SiameseResult(steps, total, run.first_step, losses, seconds, best)

  def _start(self, source, total, early_stopping):
    """A `_Run` whose variables hold what a checkpoint had, if there was one."""
    settings = self._settings
    self._step.assign(0)
    with self._strategy.scope():
      optimizers = [
        AdamWeightDecay(WarmUpLinearDecay(settings.learning_rate, total, settings.warmup_proportion)),
        AdamWeightDecay(settings.flow_learning_rate),
      ]
      optimizers[0].build(self._bert_variables)
      optimizers[1].build(self._flow_variables)
    order = pair_order(len(source), settings.seed)
    checkpoints = self._checkpoints(source, total, optimizers, early_stopping)
    restored = checkpoints.restore() if checkpoints else None
    if restored:
      logging.info("resumed at step %d of %d from %s", self._steps_made(), total, restored)
    elif self._flow and self._flow.needs_initialization:
      self._initialize_flow(source, order)
    return _Run(source, total, order, optimizers, checkpoints, early_stopping, self._steps_made())

  def _checkpoints(self, source, total, optimizers, early_stopping):
    if self._checkpoint_folder is None:
      return None
    encoder = self._encoder.identity(self._pooling, low_dim=self._settings.low_dim)
    identity = {
      # As it came: the weights change while it is trained. max_seq_length shows in the data.
      "encoder": {key: value for key, value in encoder.deciding().items() if key != "max_seq_length"},
      "objective": self._objective.settings(),
      "flow": self._flow and self._flow.settings(),
      "steps": total,
      "pairs": len(source),
      "order": ORDER,
      "data": source.fingerprint(),
      "early_stopping": early_stopping and early_stopping.settings(),
      # How the arithmetic is compiled, and when it is looked at, changes nothing but rounding; dev's looks do.
      **{
        key: value
        for key, value in dataclasses.asdict(self._settings).items()
        if key != "use_xla" and (early_stopping or key != "save_checkpoints_steps")
      },
    }
    weights = {"weights": list(self._bert_variables)} | ({"flow": self._flow} if self._flow else {})
    others = {"optimizers": optimizers, "step": self._step}
    if early_stopping:
      others["early_stopping"] = early_stopping.variables
      early_stopping.keep_in(self._checkpoint_folder, identity, **weights)
    return Checkpoints(self._checkpoint_folder, identity, **weights, **others)

  def _initialize_flow(self, source, order):
    """As in a fit of the flow alone: from the first sentences of the first batch, without dropout."""
    ids, _, _ = next(iter(source.features(batched(order, self._settings.batch_size).take(1))))
    self._flow.initialize(self._embed(source, ids, None))

  def _embed(self, source, ids, dropout_seed):
    ids, mask = source.tokens(ids)
    return fine_tuning.embed(self._encoder.bert, ids, mask, self._pooling, dropout_seed, self._settings.low_dim)

  def _run(self, run):
    step, losses, seconds = run.first_step, [], []
    if step >= run.total or (run.early_stopping and run.early_stopping.stopped):
      return np.zeros([0, len(LOSSES)]), float("nan")
    advance = self._compiled_advance(run)
    iterator = iter(self._distribute(run, step))
    logging.info("compiling the step, which takes some seconds")
    with (
      Progress(run.total, self._show_progress, "training", "step", step) as progress,
      Summaries(self._summary_folder) as summaries,
    ):
      while step < run.total:
        start = time.monotonic()
        found = advance(iterator, tf.constant(step, tf.int64)).numpy()
        seconds.append(time.monotonic() - start)
        step += 1
        saved = step % self._settings.save_checkpoints_steps == 0 or step == run.total
        self._check(found, step, saved, run.checkpoints)
        self._step.assign(step)
        losses.append(found)
        summaries.write(step, {f"loss_{name}": value for name, value in zip(LOSSES, found, strict=True)})
        if saved and run.early_stopping:
          summaries.write(step, {"dev": run.early_stopping.look(step)})
        if saved and run.checkpoints:
          run.checkpoints.save(step)
        progress.update(1, ", ".join(f"{name} {value:.4f}" for name, value in zip(LOSSES, found, strict=True) if value))
        if run.early_stopping and run.early_stopping.stopped:
          logging.info("stopped early, at step %d of %d", step, run.total)
          break
    return np.array(losses), float(np.mean(seconds[1:])) if seconds[1:] else float("nan")

  def _distribute(self, run, start_step):
    def pipeline(context):
      rows = batched(run.order, self._settings.batch_size, start_step)
      if self._strategy.num_replicas_in_sync > 1:
        per_replica = context.get_per_replica_batch_size(self._settings.batch_size)
        rows = rows.unbatch().batch(per_replica, drop_remainder=True)
      return run.source.features(rows).prefetch(tf.data.AUTOTUNE)

    return self._strategy.distribute_datasets_from_function(pipeline)

  def _compiled_advance(self, run):
    """A graph that makes a step and returns its losses, [3]."""
    strategy, settings = self._strategy, self._settings
    bert, flow = self._bert_variables, self._flow_variables

    def losses_and_gradients(features, seed):
      with tf.GradientTape() as tape:
        losses = self._losses(run.source, features, seed)
        total = tf.reduce_sum(losses)
      # A table's gradient comes as rows with their numbers; the optimizer takes sums over whole tables.
      return losses, [tf.convert_to_tensor(gradient) for gradient in tape.gradient(total, [*bert, *flow])]

    if settings.use_xla:
      losses_and_gradients = tf.function(losses_and_gradients, autograph=False, jit_compile=True)

    def replica_step(features, step):
      replica = tf.distribute.get_replica_context().replica_id_in_sync_group
      seed = tf.stack([tf.constant(settings.seed, tf.int32), tf.cast(step, tf.int32)])
      seed = tf.random.experimental.stateless_fold_in(seed, tf.cast(replica, tf.int32))
      losses, gradients = losses_and_gradients(features, seed)
      run.optimizers[0].apply_gradients(zip(gradients[: len(bert)], bert, strict=True))
      if flow:
        run.optimizers[1].apply_gradients(zip(gradients[len(bert) :], flow, strict=True))
      return losses

    @tf.function(autograph=False)
    def advance(iterator, step):
      losses = strategy.run(replica_step, args=(next(iterator), step))
      return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)

    return advance

  def _losses(self, source, features, seed):
    """Share of the loss that a replica has, float32 [3], the parts in the order of `LOSSES`."""
    settings = self._settings
    *sides, targets = features
    embeddings = [
      self._embed(source, ids, tf.random.experimental.stateless_fold_in(seed, side)) for side, ids in enumerate(sides)
    ]
    compared = [self._flow(u) for u in embeddings] if self._flow else embeddings
    labelled = tf.math.is_finite(targets)
    losses = self._objective.losses(*compared, tf.where(labelled, targets, 0.0))
    supervised = tf.reduce_sum(tf.where(labelled, losses, 0.0)) / settings.batch_size
    flow = penalty = tf.zeros([])
    if self._flow and settings.flow_loss:
      for side, u in enumerate(embeddings):
        dropout_seed = None
        if self._flow.config.coupling_dropout:
          dropout_seed = tf.random.experimental.stateless_fold_in(seed, len(sides) + side)
        bits = self._flow.bits_per_dim(tf.stop_gradient(u), dropout_seed)
        flow += tf.reduce_sum(bits) / settings.batch_size
    if settings.l2_penalty:
      decayed = [tf.nn.l2_loss(weight) for weight in self._penalized()]
      penalty = settings.l2_penalty * tf.add_n(decayed) / self._strategy.num_replicas_in_sync
    return tf.stack([supervised, flow, penalty])

  def _penalized(self):
    """BERT's weights that are neither biases nor of a normalisation."""
    names = ("LayerNorm", "layer_norm", "bias", "output_weights")
    return [weight for weight in self._bert_variables if not any(name in weight.name for name in names)]

  def _steps_made(self):
    return int(tf.convert_to_tensor(self._step).numpy())

  def _check(self, losses, step, weights_too, checkpoints):
    finite = not weights_too or all(
      bool(tf.reduce_all(tf.math.is_finite(tf.convert_to_tensor(weight))))
      for weight in (*self._bert_variables, *self._flow_variables)
    )
    if np.isfinite(losses).all() and finite:
      return
    bad = [f"the {name} loss is {value}" for name, value in zip(LOSSES, losses, strict=True) if not np.isfinite(value)]
    latest = checkpoints and checkpoints.latest
    kept = f"the checkpoint before it, {latest}, is kept" if latest else "nothing was saved"
    raise TrainingError(
      f"training stopped: {(bad or ['a weight is not finite'])[0]} at step {step}; {kept}; lower learning_rate"
      + (" or flow_learning_rate" if self._flow else "")
    )


@dataclasses.dataclass(frozen=True)
class _Run:
  """One call of `fit`."""

  source: Any
  total: int
  order: Any
  optimizers: list
  checkpoints: Checkpoints | None
  early_stopping: Any
  first_step: int
