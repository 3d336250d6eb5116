"""Measures speed, as ratios of two ways of doing the same work in one run.

python run_benchmark.py --benchmark=tasks --model=FOLDER --data_dir=FOLDER
"""

import json
import pathlib
import platform
import sys

if __package__ in (None, ""):  # run as a file, from any folder
  sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from absl import flags, logging

from bert_flow_tf.benchmark import measure
from bert_flow_tf.data.tasks import STS_TASKS, find_task, load_task
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.flow.config import FlowConfig
from bert_flow_tf.io.experiment import make_folder
from bert_flow_tf.io.files import write_text
from run_scripts import common_flags

FLAGS = flags.FLAGS

TASKS, STEP, ENCODER, SERVING, ALL = "tasks", "step", "encoder", "serving", "all"
PARTS = {
  TASKS: "Whole tasks, our way and the original's",
  STEP: "One step of the flow's fit",
  ENCODER: "Sentences a second of the encoder",
  SERVING: "A served model",
}
_SERVED_SENTENCES = 512


def define_flags():
  """The flags of this runner."""
  flags.DEFINE_enum("benchmark", ALL, [*PARTS, ALL], "What is measured.")
  flags.DEFINE_integer("repeats", 3, "Rounds, of which medians are taken; the ways take turns within each.", 1)
  flags.DEFINE_string("output_dir", "benchmark", "Folder for NAME.json and NAME.md of what was measured.")
  flags.DEFINE_list("tasks", list(STS_TASKS), "Tasks that --benchmark=tasks measures.")
  flags.DEFINE_string("data_dir", None, "Folder of the tasks' files; TensorFlow Datasets if not given.")
  flags.DEFINE_string("tfds_data_dir", None, "Folder of TensorFlow Datasets, where --data_dir is not given.")
  flags.DEFINE_string("stsb_gold", None, "The benchmark's sts-test.csv, for STS-B from TensorFlow Datasets.")
  common_flags.define_encoder_flags()
  flags.DEFINE_string("flow_model_config", "config_l2_d3_w32", "The flow's configuration.")
  flags.DEFINE_integer("train_batch_size", 32, "Pairs a step.", 1)
  flags.DEFINE_integer("seed", 1234, "Of the flow and of the order of the pairs.", 0, 2**31 - 1)
  flags.DEFINE_integer("steps", 400, "Steps of a fit that --benchmark=step times.", 20)
  flags.DEFINE_integer("dim", 768, "Width of the embeddings of --benchmark=step.", 1)
  flags.DEFINE_string(
    "other_python",
    None,
    "A Python that has sentence-transformers and ONNX Runtime, for --benchmark=encoder; this one if not given.",
  )
  flags.DEFINE_list(
    "encoder_sizes",
    [],
    "hidden_size, num_hidden_layers, num_attention_heads, intermediate_size of the encoder of random weights; "
    "BERT-base's if not given.",
  )
  flags.DEFINE_integer("encoder_sentences", None, "Distinct sentences to embed, drawn at random; all if not given.", 1)
  flags.DEFINE_list("sentence_counts", ["1000", "3000", "10000"], "Rising numbers of sentences for the encoder's cost.")
  flags.DEFINE_float("load_seconds", 60.0, "How long 32 clients ask at once with --benchmark=serving.", 1.0)
  flags.DEFINE_string("scaling_model", "mini", "Encoder whose cost by the number of sentences is measured.")


def whole_numbers(name, least):
  """The values of a list flag as ints.

  Raises:
    ConfigError: one is no whole number of at least `least`.
  """
  try:
    found = [int(value) for value in FLAGS[name].value]
  except ValueError:
    found = [least - 1]
  if any(value < least for value in found):
    given = ",".join(FLAGS[name].value)
    raise ConfigError(f"--{name}={given}: expected whole numbers of at least {least}, with commas between them")
  return found


def encoder_sizes():
  """--encoder_sizes as config.json has them, None for BERT-base.

  Raises:
    ConfigError: not four numbers, or heads that do not divide the width.
  """
  values = whole_numbers("encoder_sizes", 1)
  if values and (len(values) != 4 or values[0] % values[2]):
    raise ConfigError(
      f"--encoder_sizes={','.join(map(str, values))}: expected hidden_size, num_hidden_layers, num_attention_heads "
      "(a divisor of hidden_size) and intermediate_size, as in 768,12,12,3072"
    )
  names = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
  return dict(zip(names, values, strict=True)) if values else None


def check_flags():
  """Refuses what can be seen wrong before anything is measured.

  Raises:
    ConfigError: a list flag is empty or holds a wrong value, or a task is unknown or has no gold.
  """
  for name, least in (("sentence_counts", 1), ("tasks", None)):
    if not FLAGS[name].value:
      raise ConfigError(f"--{name} is empty; expected one or more values, with commas between them")
    if least:
      whole_numbers(name, least)
  for name in FLAGS.tasks:
    if find_task(name).eval_split is None:
      raise ConfigError(f"--tasks={name}: expected tasks with gold scores")
  encoder_sizes()


def load(name):
  """`TaskData` of a task."""
  return load_task(name, FLAGS.data_dir, FLAGS.tfds_data_dir, FLAGS.stsb_gold)


def benchmark_tasks(encoder):
  """Figures and text of --benchmark=tasks."""
  from bert_flow_tf.benchmark import tasks as part

  config = FlowConfig.from_json_file(FLAGS.flow_model_config)
  results, started = [], {}
  for name in FLAGS.tasks:
    task = load(name)
    logging.info("%s: both ways, %d rounds", task.spec.name, FLAGS.repeats)
    results.append(
      part.run_task(
        task,
        encoder,
        config,
        FLAGS.seed,
        FLAGS.sentence_embedding_type,
        FLAGS.max_seq_length,
        FLAGS.predict_batch_size,
        FLAGS.repeats,
        started,
      )
    )
    logging.info("%s: ratio %.2f", task.spec.name, results[-1]["ratio"])
  summary = part.summarize(results)
  return summary, part.to_markdown(summary)


def benchmark_step(encoder):
  """Figures and text of --benchmark=step."""
  del encoder
  from bert_flow_tf.benchmark import step as part

  config = FlowConfig.from_json_file(FLAGS.flow_model_config)
  found = part.run(config, FLAGS.dim, FLAGS.train_batch_size, FLAGS.steps, FLAGS.repeats)
  return found, part.to_markdown(found)


def benchmark_encoder(encoder):
  """Figures and text of --benchmark=encoder."""
  from bert_flow_tf.benchmark import encoder as part

  task = load(FLAGS.tasks[0])
  pairs = task.splits[task.spec.eval_split]
  sentences = list(dict.fromkeys([*pairs.sentences_a, *pairs.sentences_b]))
  arguments = (FLAGS.max_seq_length, FLAGS.predict_batch_size, FLAGS.repeats)
  drawn = part.draw(sentences, FLAGS.encoder_sentences)
  found = part.run(encoder.bert.folder, drawn, *arguments, FLAGS.other_python, encoder_sizes(), FLAGS.precision)
  scaling = part.run_scaling(FLAGS.scaling_model, sentences, whole_numbers("sentence_counts", 1), *arguments)
  return {**found, "scaling": scaling}, part.to_markdown(found, scaling)


def benchmark_serving(encoder):
  """Figures and text of --benchmark=serving."""
  from bert_flow_tf.benchmark import serving as part

  config = FlowConfig.from_json_file(FLAGS.flow_model_config)
  task = load(FLAGS.tasks[0])
  pairs = task.splits[task.spec.eval_split]
  sentences = list(dict.fromkeys([*pairs.sentences_a, *pairs.sentences_b]))[:_SERVED_SENTENCES]
  arguments = (FLAGS.max_seq_length, FLAGS.sentence_embedding_type, FLAGS.load_seconds, FLAGS.repeats)
  found = part.run(encoder, config, sentences, *arguments)
  return found, part.to_markdown(found)


def machine():
  """What the figures depend on beside the code."""
  return {
    "cores": measure.cores(),
    "machine": platform.machine(),
    "load_before": measure.load(),
    "versions": common_flags.versions(),
  }


def main(argv):
  """Measures the parts asked for; each is written as soon as it is known."""
  del argv
  check_flags()
  parts = list(PARTS) if FLAGS.benchmark == ALL else [FLAGS.benchmark]
  make_folder(FLAGS.output_dir, "output_dir")
  from bert_flow_tf import SentenceEncoder

  encoder = None
  if set(parts) - {STEP}:
    name = FLAGS.init_checkpoint or FLAGS.model
    encoder = SentenceEncoder.from_pretrained(name, FLAGS.model_cache_dir, FLAGS.precision)
  measured = {TASKS: benchmark_tasks, STEP: benchmark_step, ENCODER: benchmark_encoder, SERVING: benchmark_serving}
  for part in parts:
    about = {"flags": {flag.name: flag.value for flag in common_flags.own_flags()}, **machine()}
    found, text = measured[part](encoder)
    about["load_after"] = measure.load()
    load = f"load of the machine {about['load_before']:.1f} before and {about['load_after']:.1f} after"
    title = f"## {PARTS[part]}\n\n{text}\n\n{about['cores']} cores, {load}, medians of {FLAGS.repeats} rounds.\n"
    folder = pathlib.Path(FLAGS.output_dir)
    write_text(folder / f"{part}.json", json.dumps({**found, **about}, indent=2) + "\n")
    write_text(folder / f"{part}.md", title)
    print(title)


def console():
  """Entry point of the installed command."""
  define_flags()
  common_flags.run(main)


if __name__ == "__main__":
  console()
