"""Settings, data and encoder of a run; each part is a module of this folder, whose `run(benchmark)` measures it."""

import dataclasses
import functools
import sys
from typing import Any

from bert_flow_tf.data.task import TaskData
from bert_flow_tf.data.tasks import STS_TASKS, DataSettings, find_task, load_task
from bert_flow_tf.encoder.settings import EncoderSettings
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.flow.config import FlowConfig
from bert_flow_tf.io.settings import Settings, setting
from bert_flow_tf.training.settings import FlowSettings

# {part: its title}
TITLES = {
  "tasks": "Whole tasks, our method and the original's",
  "step": "One step of the flow's fit",
  "encoder": "Sentences per second of the encoder",
  "training_step": "A step of training through the encoder",
  "startup": "From the import to the first sentence",
  "static": "Sentences per second of the static encoder",
  "serving": "A served model",
  "duplicates": "Near-duplicates of a large file",
  "hybrid": "An index of vectors, and one with words",
}
ALL = "all"


@dataclasses.dataclass(frozen=True)
class BenchmarkSettings(Settings):
  """Parts of the benchmark and their sizes."""

  benchmark: str = setting(ALL, "Part that is measured.", choices=(*TITLES, ALL))
  repeats: int = setting(3, "Rounds, of which medians are taken; the methods take turns in each.", minimum=1)
  tasks: tuple[str, ...] = setting(STS_TASKS, "Tasks of parts tasks and static.")
  steps: int = setting(400, "Steps of a fit in part step.", minimum=20)
  dim: int = setting(768, "Dimensions of the embeddings in part step.", minimum=1)
  other_python: str | None = setting(
    None,
    "Python that has sentence-transformers and ONNX Runtime, for part encoder, model2vec, for part static, or semhash, "
    "for part duplicates; default: this one.",
  )
  encoder_sentences: int = setting(256, "Distinct sentences, drawn at random, that part encoder embeds.", minimum=1)
  architecture: str = setting(
    "bert",
    "Random weights in part encoder: of BERT-base's, BERT-large's, all-MiniLM-L6-v2's or ModernBERT-base's shape.",
    choices=("bert", "bert-large", "minilm", "modernbert"),
  )
  joined_sentences: int = setting(1, "Sentences that part encoder joins to one long text.", minimum=1)
  training_steps: int = setting(5, "Steps of a round in part training_step.", minimum=1)
  random_base: bool = setting(False, "Random weights of BERT-base's shape in parts training_step and startup.")
  baseline: str | None = setting(
    None, "Root of another checkout of this project, which parts training_step and startup measure in turns."
  )
  load_seconds: float = setting(60.0, "Seconds for which 32 clients send requests in part serving.", minimum=1.0)

  corpus: str | None = setting(None, "File of sentences, one per line, of parts duplicates and hybrid.")
  lines: int = setting(1_000_000, "Sentences of these two parts; lines are repeated with numbers.", minimum=2)
  part: int = setting(100_000, "Sentences of part duplicates that are compared by all cosines.", minimum=2)

  def __post_init__(self) -> None:
    super().__post_init__()
    if not self.tasks or None in [find_task(name).eval_split for name in self.tasks]:
      raise ConfigError(f"tasks={','.join(self.tasks)}: expected one or more tasks with gold scores", "tasks")


class Benchmark:
  """What the parts share: the settings, tasks and the encoder, which is loaded once."""

  def __init__(
    self, settings: BenchmarkSettings, data: DataSettings, embedding: EncoderSettings, flow: FlowSettings
  ) -> None:
    self.settings, self.data, self.embedding, self.flow = settings, data, embedding, flow
    self.config = FlowConfig.from_json_file(str(flow.flow_model_config))
    self.other_python = settings.other_python or sys.executable

  @functools.cached_property
  def encoder(self) -> Any:
    """The encoder of the flags, which is loaded when a part needs it."""
    from bert_flow_tf.encoder.sentence_encoder import SentenceEncoder

    return SentenceEncoder.from_pretrained(self.embedding.encoder_name, **self.embedding.loading_arguments())

  @functools.cached_property
  def pooling_arguments(self) -> dict[str, Any]:
    """sentence_embedding_type and max_seq_length, the encoder's where the flags leave them open."""
    return self.encoder.identity(**self.embedding.pooling_arguments()).settings.pooling_arguments()

  def task(self, name: str) -> TaskData:
    """Returns a task."""
    return load_task(name, self.data.data_dir, self.data.tfds_data_dir, self.data.stsb_gold)

  def sentences(self, *names: str) -> list[str]:
    """Returns the distinct sentences of the evaluated splits of tasks."""
    sentences: dict[str, None] = {}
    for name in names:
      task = self.task(name)
      pairs = task.splits[str(task.spec.eval_split)]
      sentences |= dict.fromkeys([*pairs.sentences_a, *pairs.sentences_b])
    return list(sentences)
