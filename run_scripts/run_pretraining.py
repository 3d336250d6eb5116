"""Trains a small BERT from scratch by masked-language modeling of a text file.

python run_scripts/run_pretraining.py --corpus=corpus.txt.gz --output_dir=my_bert
python run_scripts/run_flow.py --model=my_bert/model --task=STS-B --data_dir=FOLDER
"""

import pathlib
import sys

if __package__ in (None, ""):  # run as a file, from any folder
  sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from absl import flags

from bert_flow_tf.errors import ConfigError
from bert_flow_tf.evaluation import report
from bert_flow_tf.pretraining.settings import PretrainingSettings
from run_scripts import common_flags, runner

FLAGS = flags.FLAGS


def define_flags() -> None:
  """Defines the flags of this runner."""
  common_flags.define_settings(PretrainingSettings)
  flags.DEFINE_string(
    "output_dir",
    "pretrained",
    "Folder of this training: model/ in it is the finished model. The same command resumes an interrupted training.",
  )
  flags.DEFINE_string("data_dir", None, "Folder with STS/STSBenchmark, for the scores in the model's card.")


def main(argv: list[str]) -> None:
  """Trains, and prints loss, folder and scores."""
  del argv
  for name in ("corpus", "output_dir"):
    if not FLAGS[name].value:
      raise ConfigError(f"{name}={FLAGS[name].value or ''}: expected a path", argument=name)
  common_flags.check_not_empty(("vocab_file", "data_dir"))
  settings = common_flags.settings(PretrainingSettings)
  # TensorFlow's import takes seconds: the flags are checked before it.
  from bert_flow_tf.pretraining.pretrain import MODEL_FOLDER, pretrain

  about = {
    "flags": common_flags.values(),
    "versions": common_flags.versions(),
  }
  results = pretrain(settings, FLAGS.output_dir, FLAGS.data_dir, about)
  if results is None:  # another worker prints
    return
  place = pathlib.Path(FLAGS.output_dir).expanduser() / MODEL_FOLDER
  print(f"final loss {results['final_loss']:.4f} nats; the model is in {place}")
  for name, value in (results["stsb_test_spearman"] or {}).items():
    print(f"STS-B test, Spearman x 100, {name}: {value:.2f}")
  print(f"seconds: {report.spent(results['seconds'])}")


def console() -> None:
  """Runs the installed command."""
  define_flags()
  runner.run(main)


if __name__ == "__main__":
  console()
