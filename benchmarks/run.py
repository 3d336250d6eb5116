"""Measures speed, as the ratio of two methods of the same work in one run.

python benchmarks/run.py --benchmark=tasks --model=FOLDER --data_dir=FOLDER
"""

import importlib
import json
import pathlib
import platform
import sys

if __package__ in (None, ""):  # run as a file, from any folder
  sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from absl import flags

from benchmarks import measure
from benchmarks.parts import ALL, TITLES, Benchmark, BenchmarkSettings
from bert_flow_tf.data.tasks import DataSettings
from bert_flow_tf.encoder.settings import EncoderSettings
from bert_flow_tf.io.cpus import usable_cpus
from bert_flow_tf.io.files import write_text
from bert_flow_tf.training.settings import FlowSettings
from run_scripts import common_flags, runner

FLAGS = flags.FLAGS


def define_flags() -> None:
  """Defines the flags of this runner."""
  common_flags.define_settings(BenchmarkSettings)
  common_flags.define_data_flags()
  common_flags.define_encoder_flags()
  common_flags.define_settings(FlowSettings, ("flow_model_config", "train_batch_size", "seed"))
  flags.DEFINE_string("output_dir", "exp/benchmark", "Folder for NAME.json and NAME.md of each part.")


def main() -> None:
  """Measures the parts; the results of each are written as soon as they are known."""
  settings, *others = map(common_flags.settings, (BenchmarkSettings, DataSettings, EncoderSettings, FlowSettings))
  benchmark = Benchmark(settings, *others)
  folder = pathlib.Path(FLAGS.output_dir)
  folder.mkdir(parents=True, exist_ok=True)
  about = {"flags": common_flags.values(), "cores": usable_cpus(), "machine": platform.machine()}
  about["versions"] = common_flags.versions()
  # Two parts need a file.
  all_parts = [name for name in TITLES if name not in ("duplicates", "hybrid") or settings.corpus]
  for name in all_parts if settings.benchmark == ALL else [settings.benchmark]:
    before = measure.load()
    result, text = importlib.import_module(f"benchmarks.{name}").run(benchmark)
    about |= {"load_before": before, "load_after": measure.load()}
    load = f"load of the machine {before:.1f} before and {about['load_after']:.1f} after"
    page = f"## {TITLES[name]}\n\n{text}\n\n{about['cores']} cores, {load}, medians of {settings.repeats} rounds.\n"
    write_text(folder / f"{name}.json", json.dumps({**result, **about}, indent=2) + "\n")
    write_text(folder / f"{name}.md", page)
    print(page)


console = runner.command(define_flags, main, resumes=False)

if __name__ == "__main__":
  console()
