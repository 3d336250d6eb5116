"""Settings of an experiment of run_flow, and its name."""

import dataclasses
import os
import pathlib

from bert_flow_tf.data.flow_corpus import LEARNING_RATE, TARGET, FlowCorpus
from bert_flow_tf.data.settings import CorpusSettings, DataSettings
from bert_flow_tf.encoder.settings import DEFAULT_POOLING, EmbeddingSettings
from bert_flow_tf.io.experiment import OutputSettings, encoder_label, experiment_name
from bert_flow_tf.training.settings import FlowSettings, RunSettings

# Calibrations that are part of an experiment's name; more would make it too long.
_NAMED_CALIBRATIONS = 3
# BERT's learning rate in the original's name of an experiment; the encoder is frozen here.
_ORIGINAL_LEARNING_RATE = 5e-5


@dataclasses.dataclass(frozen=True)
class ExperimentSettings:
  """Settings of an experiment, by part."""

  data: DataSettings = dataclasses.field(default_factory=DataSettings)
  corpus: CorpusSettings = dataclasses.field(default_factory=CorpusSettings)
  embedding: EmbeddingSettings = dataclasses.field(default_factory=EmbeddingSettings)
  flow: FlowSettings = dataclasses.field(default_factory=FlowSettings)
  run: RunSettings = dataclasses.field(default_factory=RunSettings)
  output: OutputSettings = dataclasses.field(default_factory=OutputSettings)

  def for_corpus(self, corpus: FlowCorpus) -> "ExperimentSettings":
    """Returns the settings with the corpus's learning rate and number of epochs where none is given."""
    return dataclasses.replace(self, flow=self.flow.for_corpus(corpus))

  def name(self, task: str) -> str:
    """Returns the name of an experiment, such as "STS-B_mini_flow_1ep": it ends with a hash of fields without a part.

    Args:
      task: name of the task.
    """
    prefix, pooling, weights = self.output.exp_name_prefix, self.embedding.pooling_name, self.embedding.token_weights
    config = pathlib.Path(str(self.flow.flow_model_config)).stem.removeprefix("config_")
    parts = {
      "prefix": "" if prefix == OutputSettings.exp_name_prefix else prefix,
      "task": task,
      "model": encoder_label(self.embedding.encoder_name),
      "sentence_embedding_type": "" if pooling == DEFAULT_POOLING else pooling,
      "token_weights": weights or "",
      "calibration": "_".join(self.run.calibration),
      "flow_model_config": "" if config == "l2_d3_w32" else config,
      "num_train_epochs": f"{self.flow.epochs:g}ep",
      "flow_learning_rate": "" if self.flow.rate == LEARNING_RATE else f"lr{self.flow.rate:g}",
      "seed": "" if self.flow.seed == FlowSettings.seed else f"seed{self.flow.seed}",
    }
    if len(self.run.calibration) > _NAMED_CALIBRATIONS:
      del parts["calibration"]  # which then takes part in the hash
    return self._published_name(task) if self.run.name_as_published else self._name(parts, task)

  def _name(self, parts, task):
    others = {"data_dir": os.path.abspath(str(self.data.data_dir))} if task == "custom" else {}
    return experiment_name(parts, self.data, self.corpus, self.embedding, self.flow, self.run, **others)

  def _published_name(self, task):
    """Returns the original's name of an experiment, then encoder, configuration, seed and a hash of other fields."""
    full = self.corpus.use_full_for_training in (None, True) and self.corpus.flow_corpus in (None, TARGET)
    parts = {
      "task": f"{self.output.exp_name_prefix}_t_{task}",
      "num_train_epochs": f"ep_{self.flow.epochs:.2f}",
      "learning_rate": f"lr_{_ORIGINAL_LEARNING_RATE:.2e}",
      "sentence_embedding_type": f"e_{self.embedding.pooling_name}",
      "flow_learning_rate": f"f_11_{self.flow.rate:.2e}",
      "allsplits": "allsplits" if full else "",
      "model": f"m_{encoder_label(self.embedding.encoder_name)}",
      "flow_model_config": f"c_{pathlib.Path(str(self.flow.flow_model_config)).stem.removeprefix('config_')}",
      "seed": f"s_{self.flow.seed}",
    }
    return self._name(parts, task)

  def folder(self, task: str) -> pathlib.Path:
    """Returns the experiment's folder."""
    return self.output.folder(self.name(task))
