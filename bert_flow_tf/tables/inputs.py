"""Tasks, corpora and settings that all encoders of a run share."""

import dataclasses
import functools
from typing import Any

from absl import logging

from bert_flow_tf.data.flow_corpus import NLI, TARGET, FlowCorpus, load_flow_corpus
from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.data.task import TaskData
from bert_flow_tf.data.tasks import DataSettings
from bert_flow_tf.encoder.settings import DEFAULT_MAX_SEQ_LENGTH, EncoderSettings
from bert_flow_tf.errors import DataError
from bert_flow_tf.tables.plan import Plan
from bert_flow_tf.training.settings import FlowSettings

TARGET_OF = "target of "


class Inputs:
  """Tasks, corpora and settings of a run; each corpus is read once.

  Args:
    tasks: {name: task} of all tasks of the run.
    data: folders of the corpora.
    embedding: max_seq_length (64 if it is None), predict_batch_size and cached_dir.
    flow: settings of the flow; a corpus decides what is None, and a table the seed.

  Attributes:
    The arguments.
  """

  def __init__(
    self, tasks: dict[str, TaskData], data: DataSettings, embedding: EncoderSettings, flow: FlowSettings
  ) -> None:
    embedding = dataclasses.replace(embedding, max_seq_length=embedding.max_seq_length or DEFAULT_MAX_SEQ_LENGTH)
    self.tasks, self.data, self.embedding, self.flow = tasks, data, embedding, flow
    self._of_task = functools.cache(lambda task: load_flow_corpus(TARGET, tasks[task]))
    self._of_tasks = functools.cache(self._joined)
    self._of_name = functools.cache(lambda name: load_flow_corpus(name, None, data.data_dir, data.tfds_data_dir))
    self.why_missing = functools.cache(self._why_missing)

  def corpus(self, name: str, task: str | None = None) -> FlowCorpus:
    """Returns the corpus of a recipe.

    Args:
      name: "target", the sentences of the evaluated task; `target_of(TASK, ...)`; "nli"; or a file.
      task: the evaluated task, for "target".

    Raises:
      DataError: it cannot be read.
    """
    if name == TARGET:
      return self._of_task(task)
    if name.startswith(TARGET_OF):
      return self._of_tasks(name.removeprefix(TARGET_OF))
    return self._of_name(name)

  def _joined(self, names):
    """Returns the corpus of one task or several, with commas between their names."""
    corpora = [self._of_task(task) for task in names.split(",")]
    if len(corpora) == 1:
      return corpora[0]
    pairs = SentencePairs.concatenate([corpus.pairs for corpus in corpora])
    return FlowCorpus(TARGET, pairs, "; ".join(corpus.source for corpus in corpora))

  def _why_missing(self, name: str) -> str:
    """Returns why a recipe's corpus cannot be read; "" if it can."""
    if name == TARGET or name.startswith(TARGET_OF):
      return ""
    try:
      self._of_name(name)
    except DataError as error:
      logging.warning("rows of the corpus %s have no scores: %s", name, error)
      return str(error)
    return ""

  def flow_settings(self, corpus: FlowCorpus, seed: int) -> FlowSettings:
    """Returns the settings of one fit."""
    return dataclasses.replace(self.flow.for_corpus(corpus), seed=seed)

  def flow_key(self, corpus: FlowCorpus, seed: int) -> dict[str, Any]:
    """Returns everything that decides a flow, except code, embeddings and sentences, as JSON values."""
    from bert_flow_tf.data.pipeline import ORDER  # needs TensorFlow, which fits and embeddings have imported already

    key = self.flow_settings(corpus, seed).identity() | {"order": ORDER}
    del key["use_xla"]  # changes rounding only
    return key

  def check_fits(self, plan: Plan) -> None:
    """Checks the flow's settings, and that every corpus has a batch, before anything slow.

    Raises:
      ConfigError, TrainingError: a setting is not allowed, or a corpus is too small.
    """
    from bert_flow_tf.training.calibrate import check_flow
    from bert_flow_tf.training.distribution import make_strategy

    corpora = [self.corpus(TARGET, task) for task in self.tasks]
    corpora += [self.corpus(name) for name in plan.transfer_corpus if name != NLI]
    if plan.fits_on_nli and not self.why_missing(NLI):
      corpora.append(self.corpus(NLI))
    for corpus in corpora:
      settings = self.flow_settings(corpus, plan.seed)
      fitting_dim = 1 << (settings.config.n_levels + 1)  # the encoder is not loaded yet
      check_flow(settings, fitting_dim, len(corpus.pairs), make_strategy(settings.distribution_strategy))
