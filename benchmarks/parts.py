"""The parts of the benchmark, their settings, and how each gets its data."""

import dataclasses
from collections.abc import Iterator
from typing import Any

from absl import logging

from bert_flow_tf.data.task import TaskData
from bert_flow_tf.data.tasks import STS_TASKS, DataSettings, find_task, load_task
from bert_flow_tf.encoder.settings import EncoderSettings
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.flow.config import FlowConfig
from bert_flow_tf.io.settings import Settings, setting
from bert_flow_tf.training.settings import FlowSettings

TASKS, STEP, ENCODER, STATIC = "tasks", "step", "encoder", "static"
SERVING, ALL = "serving", "all"
TITLES = {
  TASKS: "Whole tasks, our method and the original's",
  STEP: "One step of the flow's fit",
  ENCODER: "Sentences per second of the encoder",
  STATIC: "Sentences per second of the static encoder",
  SERVING: "A served model",
}
_SERVED_SENTENCES = 512


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
    "Python that has sentence-transformers and ONNX Runtime, for part encoder, or model2vec, for part static; default: "
    "this one.",
  )
  encoder_sentences: int = setting(256, "Distinct sentences, drawn at random, that part encoder embeds.", minimum=1)
  load_seconds: float = setting(60.0, "Seconds for which 32 clients send requests in part serving.", minimum=1.0)

  def __post_init__(self) -> None:
    super().__post_init__()
    if not self.tasks:
      raise ConfigError("tasks is empty; expected one or more values", "tasks")
    for name in self.tasks:
      if find_task(name).eval_split is None:
        raise ConfigError(f"tasks={name}: expected tasks with gold scores", "tasks")

  @property
  def parts(self) -> list[str]:
    """Names of the parts that are measured."""
    return list(TITLES) if self.benchmark == ALL else [self.benchmark]


class Benchmark:
  """Measures the parts; TensorFlow and the encoder are loaded when the first part needs them."""

  def __init__(
    self, settings: BenchmarkSettings, data: DataSettings, embedding: EncoderSettings, flow: FlowSettings
  ) -> None:
    self._settings, self._data, self._embedding, self._flow = settings, data, embedding, flow
    self._config = FlowConfig.from_json_file(str(flow.flow_model_config))

  def run(self) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yields the name, the result (JSON values) and the markdown of each part, measured one after the other."""
    encoder = None
    if not {*self._settings.parts} <= {STEP}:
      from bert_flow_tf.encoder.sentence_encoder import SentenceEncoder

      embedding = self._embedding
      encoder = SentenceEncoder.from_pretrained(embedding.encoder_name, **embedding.loading_arguments())
      chosen = encoder.identity(**embedding.pooling_arguments()).pooling_arguments()
      self._embedding = dataclasses.replace(embedding, **chosen)
    for name in self._settings.parts:
      yield name, *getattr(self, f"_{name}")(encoder)

  def _load(self, name: str) -> TaskData:
    return load_task(name, self._data.data_dir, self._data.tfds_data_dir, self._data.stsb_gold)

  def _sentences(self, name: str | None = None) -> list[str]:
    """Returns the distinct sentences of a task's evaluated split; None for the first task."""
    task = self._load(name or self._settings.tasks[0])
    pairs = task.splits[str(task.spec.eval_split)]
    return list(dict.fromkeys([*pairs.sentences_a, *pairs.sentences_b]))

  def _tasks(self, encoder):
    from benchmarks import tasks

    embedding, repeats = self._embedding, self._settings.repeats
    sizes = (embedding.sentence_embedding_type, embedding.max_seq_length, embedding.predict_batch_size, repeats)
    results, compiled = [], {}
    for name in self._settings.tasks:
      task = self._load(name)
      logging.info("%s: both methods, %d rounds", task.spec.name, repeats)
      results.append(tasks.run_task(task, encoder, self._config, self._flow.seed, *sizes, compiled))
      logging.info("%s: ratio %.2f", task.spec.name, results[-1]["ratio"])
    summary = tasks.summarize(results)
    return summary, tasks.to_markdown(summary)

  def _step(self, encoder):
    del encoder
    from benchmarks import step

    settings = self._settings
    result = step.run(self._config, settings.dim, self._flow.train_batch_size, settings.steps, settings.repeats)
    return result, step.to_markdown(result)

  def _encoder(self, encoder):
    from benchmarks import encoder as part

    settings, sentences = self._settings, self._sentences()
    sizes = (self._embedding.max_seq_length, self._embedding.predict_batch_size, settings.repeats)
    drawn = part.draw(sentences, settings.encoder_sentences)
    result = part.run(encoder.bert.folder, drawn, *sizes, settings.other_python, precision=self._embedding.precision)
    return result, part.to_markdown(result)

  def _static(self, encoder):
    from benchmarks import static
    from bert_flow_tf.encoder.sentence_encoder import SentenceEncoder

    settings, cache_dir = self._settings, self._embedding.model_cache_dir
    if not encoder.bert.is_static:
      place = {"cache_dir": cache_dir, "revision": encoder.bert.revision}
      encoder = SentenceEncoder.from_pretrained(f"static:{encoder.name}", **place)
    sentences = list(dict.fromkeys(text for name in settings.tasks for text in self._sentences(name)))
    sizes = (self._embedding.max_seq_length, settings.repeats)
    result = static.run(encoder, sentences, *sizes, settings.other_python, cache_dir)
    return result, static.to_markdown(result)

  def _serving(self, encoder):
    from benchmarks import serving

    embedding, settings = self._embedding, self._settings
    arguments = (embedding.max_seq_length, embedding.sentence_embedding_type, settings.load_seconds, settings.repeats)
    result = serving.run(encoder, self._config, self._sentences()[:_SERVED_SENTENCES], *arguments)
    return result, serving.to_markdown(result)
