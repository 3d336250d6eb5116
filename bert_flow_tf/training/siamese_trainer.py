"""Fine-tunes an encoder on pairs of sentences, over tf.distribute, and resumes a training that was interrupted."""

import dataclasses
import os
import re

import tensorflow as tf

from bert_flow_tf.data.pipeline import ORDER, batched, pair_order
from bert_flow_tf.encoder import fine_tuning
from bert_flow_tf.encoder.pooling import Pooling
from bert_flow_tf.encoder.sentence_encoder import SentenceEncoder
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.flow.glow import Glow
from bert_flow_tf.io.settings import named_values
from bert_flow_tf.training.classifier import VARIABLE
from bert_flow_tf.training.distribution import check_batch_size, distribute_batches, seed_of_step
from bert_flow_tf.training.early_stopping import EarlyStopping
from bert_flow_tf.training.labelled_pairs import LabelledPairs
from bert_flow_tf.training.loop import LoopResult, TrainingLoop
from bert_flow_tf.training.objectives import CosineObjective, SoftmaxObjective
from bert_flow_tf.training.optimizer import EXCLUDED_FROM_WEIGHT_DECAY, AdamWeightDecay
from bert_flow_tf.training.schedule import WarmUpLinearDecay, num_steps
from bert_flow_tf.training.siamese_settings import SiameseSettings

# Names of BERT's biases, weights of a normalization, and the classifier, which the l2 penalty leaves out.
_NOT_DECAYED = re.compile("|".join((*EXCLUDED_FROM_WEIGHT_DECAY, VARIABLE)))
# Parts of the loss, in the order of a row of `SiameseResult.losses`.
LOSSES = ("supervised", "flow", "l2_penalty")


@dataclasses.dataclass(frozen=True)
class SiameseResult(LoopResult):
  """Result of `SiameseTrainer.fit`; the parts of its losses are named in `LOSSES`, and their sum is minimized.

  Attributes:
    planned_steps: steps that would have been made without early stopping.
    best: (score, step) on dev with early stopping, else None.
  """

  planned_steps: int
  best: tuple[float, int] | None


class SiameseTrainer:
  """Trainer of BERT through two encodings with shared weights, with a classifier and optionally a flow.

      u, v = embeddings of the two sentences, with dropout;  with a flow f: f(u), f(v) in their place
      loss = mean over the batch of the objective's losses (0 for a pair without label)
             + flow_loss * (mean bits per dimension of u + mean bits per dimension of v)
             + l2_penalty / 2 * sum of squares of BERT's decayed weights

  Two optimizers, each `AdamWeightDecay` with gradients clipped to a joint norm of 1: BERT and the classifier at a rate
  that warms up and decays (`WarmUpLinearDecay`), the flow at a constant one. The flow's own loss does not reach BERT,
  which could lower it without limit by shrinking its embeddings. The norm is that of dense gradients; TensorFlow 1
  counted the rows of the table of word embeddings one by one.
  Dropout follows from seed, step and replica, so that a resumed training ends with the same weights to the bit.

  Args:
    encoder: a `SentenceEncoder`, created under `strategy.scope()`.
    pooling: its `Pooling`.
    objective: created under the same scope.
    flow: `Glow` created under the same scope, or None.
    settings: `SiameseSettings`.
    strategy: a `tf.distribute.Strategy` of one machine; None for the current one.
    low_dim: see `SentenceEncoder.encode`.
    checkpoint_folder, summary_folder, show_progress: see `TrainingLoop`.

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
  ) -> None:
    self._encoder, self._pooling, self._low_dim = encoder, pooling, low_dim
    self._objective, self._flow = objective, flow
    self._settings = (settings or SiameseSettings()).resolved()
    self._strategy = strategy or tf.distribute.get_strategy()
    self._checkpoint_folder, self._summary_folder = checkpoint_folder, summary_folder
    self._show_progress = show_progress
    check_batch_size(self._strategy, self._settings.train_batch_size)
    self._bert_variables = [*fine_tuning.trained_weights(encoder.bert, pooling), *objective.variables]
    self._flow_variables = list(flow.trainable_variables) if flow else []

  def fit(
    self, source: LabelledPairs, num_train_epochs: float = 1.0, early_stopping: EarlyStopping | None = None
  ) -> SiameseResult:
    """Trains; a second call continues from the current weights.

    Args:
      source: the pairs.
      num_train_epochs: passes over the pairs, a positive number.
      early_stopping: needs a checkpoint folder; None for none.

    Raises:
      ConfigError: the training would make no step, or nothing could be learned.
      TrainingError: a loss or a weight became NaN or infinite; the last good checkpoint is kept.
      FlowError: the flow cannot be initialized from these embeddings.
    """
    total = num_steps(source.num_pairs, self._settings.train_batch_size, num_train_epochs)
    if not source.labelled and not (self._flow and self._settings.flow_loss):
      raise ConfigError("no pair has a label and flow_loss is off: nothing can be learned")
    if early_stopping and self._checkpoint_folder is None:
      raise ConfigError("early_stopping keeps the best weights in checkpoint_folder, which is None")
    optimizers = self._optimizers(total)
    order = pair_order(len(source), self._settings.seed)
    loop = self._loop(source, total, optimizers, early_stopping)
    loop.restore(lambda: self._initialize_flow(source, order))
    advance = self._compiled_advance(source, optimizers)
    batches = distribute_batches(self._strategy, source, order, self._settings.train_batch_size, loop.step)
    iterator = iter(batches)
    result = loop.run(
      lambda step, _: advance(iterator, tf.constant(step, tf.int64)).numpy(),
      lambda losses: ", ".join(f"{name} {value:.4f}" for name, value in zip(LOSSES, losses[-1], strict=True) if value),
      before_saving=lambda step, _: {"dev": early_stopping.look(step)} if early_stopping else {},
      stopped=lambda: early_stopping is not None and early_stopping.stopped,
    )
    if early_stopping:
      early_stopping.take_best()
    return SiameseResult(**vars(result), planned_steps=total, best=early_stopping.best if early_stopping else None)

  def _optimizers(self, total):
    """Returns the optimizers of BERT and the flow, built."""
    settings = self._settings
    rate = WarmUpLinearDecay(settings.learning_rate, total, int(total * settings.warmup_proportion))
    with self._strategy.scope():
      optimizers = [AdamWeightDecay(rate), AdamWeightDecay(settings.flow_learning_rate)]
      optimizers[0].build(self._bert_variables)
      optimizers[1].build(self._flow_variables)
    return optimizers

  def _loop(self, source, total, optimizers, early_stopping):
    weights = {"weights": list(self._bert_variables)} | ({"flow": self._flow} if self._flow else {})
    objects = {**weights, "optimizers": optimizers}
    identity = self._identity(source, total, early_stopping)
    if early_stopping:
      objects["early_stopping"] = early_stopping.variables
      early_stopping.keep_in(self._checkpoint_folder, identity, **weights)
    trained = [*self._bert_variables, *self._flow_variables]
    return TrainingLoop(
      losses=[f"loss_{name}" for name in LOSSES],
      total=total,
      strategy=self._strategy,
      objects=objects,
      variables=trained,
      trained=trained,
      identity=identity,
      save_checkpoints_steps=self._settings.save_checkpoints_steps,
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
      identity["save_checkpoints_steps"] = self._settings.save_checkpoints_steps
    return identity

  def _initialize_flow(self, source, order):
    """Initializes from the first sentences of the first batch, without dropout, as a fit of the flow alone."""
    if self._flow and self._flow.needs_initialization:
      ids, _, _ = next(iter(source.features(batched(order, self._settings.train_batch_size).take(1))))
      self._flow.initialize(self._embed(source, ids, None))

  def _embed(self, source, ids, dropout_seed):
    ids, mask = source.tokens(ids)
    return fine_tuning.embed(self._encoder.bert, ids, mask, self._pooling, dropout_seed, self._low_dim)

  def _compiled_advance(self, source, optimizers):
    """Returns the function (iterator, step) -> losses before the step, float32 [3]."""
    strategy, settings = self._strategy, self._settings
    bert, flow = self._bert_variables, self._flow_variables

    def losses_and_gradients(features, seed):
      with tf.GradientTape() as tape:
        losses = self._losses(source, features, seed)
        total = tf.reduce_sum(losses)
      # A table's gradient comes as rows with their indices; the optimizer sums over whole tables.
      return losses, [tf.convert_to_tensor(gradient) for gradient in tape.gradient(total, [*bert, *flow])]

    if settings.use_xla:
      losses_and_gradients = tf.function(losses_and_gradients, autograph=False, jit_compile=True)

    def replica_step(features, step):
      replica = tf.distribute.get_replica_context().replica_id_in_sync_group
      seed = seed_of_step(tf.constant(settings.seed, tf.int32), step, replica)
      losses, gradients = losses_and_gradients(features, seed)
      optimizers[0].apply_gradients(zip(gradients[: len(bert)], bert, strict=True))
      if flow:
        optimizers[1].apply_gradients(zip(gradients[len(bert) :], flow, strict=True))
      return losses

    @tf.function(autograph=False)
    def advance(iterator, step):
      losses = strategy.run(replica_step, args=(next(iterator), step))
      return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)

    return advance

  def _losses(self, source, features, seed):
    """Returns a replica's share of the loss, float32 [3], the parts in the order of `LOSSES`."""
    settings = self._settings
    *sides, targets = features
    embeddings = [
      self._embed(source, ids, tf.random.experimental.stateless_fold_in(seed, side)) for side, ids in enumerate(sides)
    ]
    compared = [self._flow(u) for u in embeddings] if self._flow else embeddings
    labelled = tf.math.is_finite(targets)
    losses = self._objective.losses(*compared, tf.where(labelled, targets, 0.0))
    supervised = tf.reduce_sum(tf.where(labelled, losses, 0.0)) / settings.train_batch_size
    flow = penalty = tf.zeros([])
    if self._flow and settings.flow_loss:
      for side, u in enumerate(embeddings):
        dropout_seed = None
        if self._flow.config.coupling_dropout:
          dropout_seed = tf.random.experimental.stateless_fold_in(seed, len(sides) + side)
        bits = self._flow.bits_per_dim(tf.stop_gradient(u), dropout_seed)
        flow += tf.reduce_sum(bits) / settings.train_batch_size
    if settings.l2_penalty:
      decayed = [tf.nn.l2_loss(weight) for weight in self._bert_variables if not _NOT_DECAYED.search(weight.name)]
      penalty = settings.l2_penalty * tf.add_n(decayed) / self._strategy.num_replicas_in_sync
    return tf.stack([supervised, flow, penalty])
