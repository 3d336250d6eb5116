"""Runs of `bert-flow fit` on a few pairs, in this process."""

import json

from bert_flow_tf import SentenceModel, load_task
from bert_flow_tf.calibration.names import parse_calibrations
from bert_flow_tf.data.flow_corpus import TARGET, load_flow_corpus
from bert_flow_tf.io.experiment import OutputSettings
from bert_flow_tf.runs.flow_run import FlowRun, FlowRunSettings
from bert_flow_tf.training.strategies import make_strategy


def write_pairs(path, start=0, count=40):
  """Writes some scored pairs of the packaged sample, and returns the path as str."""
  pairs = load_task("sample").splits["test"]
  rows = list(zip(pairs.sentences_a, pairs.sentences_b, pairs.scores, strict=True))[start : start + count]
  lines = [f"{a}\t{b}\t{score}\n" for a, b, score in rows]
  path.write_text("sentence1\tsentence2\tscore\n" + "".join(lines))
  return str(path)


def write_beir(folder, count=24):
  """Writes a folder in BEIR's layout: pairs of the packaged sample, of which the first sentence finds the second."""
  pairs = load_task("sample").splits["test"]
  (folder / "qrels").mkdir(parents=True)
  for name, prefix, texts in (("queries", "q", pairs.sentences_a), ("corpus", "d", pairs.sentences_b)):
    lines = [json.dumps({"_id": f"{prefix}{row}", "text": text}) + "\n" for row, text in enumerate(texts[:count])]
    (folder / f"{name}.jsonl").write_text("".join(lines))
  lines = [f"q{row}\td{row}\t2\nq{row}\td{row + 1}\t0\n" for row in range(count - 4)]
  (folder / "qrels/test.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(lines))
  return folder


def fit(folder, file, *names, **arguments):
  """Returns a run of static:mini in a folder that has fitted calibrations, and written nothing."""
  model, task = SentenceModel.from_pretrained("static:mini", **arguments), load_task("custom", file)
  settings = FlowRunSettings(output=OutputSettings(output=str(folder)))
  run = FlowRun(model, settings, parse_calibrations(names), task, load_flow_corpus(TARGET, task), make_strategy())
  run.check()
  run.fit()
  return run
