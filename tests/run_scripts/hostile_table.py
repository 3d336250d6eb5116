"""Command lines of run_table.py, right and wrong ones, all in one process.

Run as a module with a folder to work in, it prints json: {"results": those of `run_all`, "fits": {right case: number
of fits}, "by_hand": cosines of a flow fitted without the tables, "ranks": ranks of Table 1's words}.
"""

import functools
import json
import pathlib
import shutil
import sys

from tests.run_scripts import command_lines, tiny_data
from tests.testing import REPO

SEED = 7
# A small flow, which compiles fast; 3 steps per fit.
CONFIG = {"n_levels": 1, "depth": 1, "coupling_width": 8}


def write_files(folder):
  """Writes data, and files of word vectors, word frequencies and sentences."""
  data = tiny_data.write(folder / "data")
  pairs = tiny_data.sentences()
  (data / "QNLI").mkdir()
  labels = ["entailment", "not_entailment"]
  rows = [f"{i}\t{a}\t{b}\t{labels[i % 2]}\n" for i, (a, b) in enumerate(pairs)]
  (data / "QNLI/dev.tsv").write_text("index\tquestion\tsentence\tlabel\n" + "".join(rows))
  words = sorted({word.lower() for pair in pairs for sentence in pair for word in sentence.split()})
  vectors = [f"{word} {i % 7 - 3} {i % 5 - 2} {i % 3 - 1} {i % 11 - 5}\n" for i, word in enumerate(words)]
  (folder / "tiny.vec.txt").write_text("".join(vectors))
  (folder / "counts.txt").write_text("".join(f"{word} {1000 - i}\n" for i, word in enumerate(words)))
  (folder / "bad_counts.txt").write_text("word many\n")
  hard = "can't \u00e9t\u00e9\u00a0x [MASK] \u65e5\u672c  a\u0301b c\x0bd \u2028e\n"  # hard to split into words
  (folder / "corpus.txt").write_text("".join(f"{a}\n{b}\n" for a, b in pairs) + hard * 3)
  (folder / "one.txt").write_text("One sentence.\n")
  (folder / "small.json").write_text(json.dumps(CONFIG))
  (folder / "no_dev/STS/STSBenchmark").mkdir(parents=True)
  shutil.copy(data / "STS/STSBenchmark/sts-test.csv", folder / "no_dev/STS/STSBenchmark")
  (folder / "tuned").symlink_to(REPO / "bert_flow_tf/encoder/pretrained/mini")


def good(folder):
  """Returns command lines that succeed, in this order; "killed" is stopped at its second fit."""
  out, stsb = [f"--output_dir={folder}/out"], ["--task=STS-B"]
  two = ["--table=2", *stsb, "--num_seeds=2", "--calibration=whitening-8,natsv,none,FLOW", *out]
  return {
    "killed": two,
    "resumed": two,
    "again": two,
    "words": ["--table=2", *stsb, f"--model=glove:{folder}/tiny.vec.txt", f"--output_dir={folder}/words"],
    "tuned": ["--table=3", *stsb, f"--nli_model={folder}/tuned", "--calibration=", *out],
    "counts": ["--table=1", f"--frequency_file={folder}/counts.txt", f"--output_dir={folder}/counts"],
    "rest": ["--table=1,6", "--figure=2", f"--corpus={folder}/corpus.txt", *out],
    "beyond": ["--table=beyond,gains,ablation", *stsb, "--num_seeds=2", f"--output_dir={folder}/beyond"],
    "page": [f"--results_page={folder}/RESULTS.md", *out],
  }


def bad(folder):
  """Returns {name: (flags, text of the error)} of command lines that are rejected: the flag, or the file at fault."""
  words = f"--model=glove:{folder}/tiny.vec.txt"
  rejected = {
    "nothing": ([], "--table"),
    "unknown table": (["--table=2,9"], "--table=9"),
    "settings": (["--table=7"], "--table=7"),
    "unknown figure": (["--figure=1"], "--figure=1"),
    "unknown task": (["--table=2", "--task=STS-C"], "--task=STS-C"),
    "task that is no column": (["--table=2", "--task=STS-B,QNLI"], "--task=QNLI"),
    "task that is not used": (["--table=5", "--task=STS-B"], "--task: is not used by this run"),
    "unit that is not used": (["--table=2", "--edit_unit=characters"], "--edit_unit: is not used by this run"),
    "unknown unit": (["--table=6", "--edit_unit=words"], "--edit_unit"),
    "nli_model that is not used": (["--table=2", "--nli_model=mini"], "--nli_model"),
    "num_seeds that is not used": (["--table=1", "--num_seeds=2"], "--num_seeds"),
    "no frequencies": (["--table=1"], "--table=1"),
    "frequencies twice": (
      ["--table=1", f"--corpus={folder}/corpus.txt", f"--frequency_file={folder}/counts.txt"],
      "--frequency_file",
    ),
    "absent frequencies": (["--table=1", "--frequency_file=absent"], "--frequency_file=absent"),
    "damaged frequencies": (["--table=1", f"--frequency_file={folder}/bad_counts.txt"], "bad_counts.txt, line 1"),
    "unknown calibration": (["--table=5", "--calibration=pca"], "pca"),
    "calibration twice": (["--table=5", "--calibration=SN,sn"], "calibration"),
    "no model": (["--table=2", "--model="], "--model"),
    "model twice": (["--table=2", "--model=mini,mini"], "--model"),
    "model and its namesake": (["--table=3,4", f"--model={folder}/tuned", f"--nli_model={folder}/tuned"], "'tuned'"),
    "unknown model": (["--table=5", "--model=gpt"], "model"),
    "only words": (["--table=5", words], "--table=5"),
    "words in a figure": (["--figure=2", words], "--figure=2"),
    "words fine-tuned": (["--table=3", f"--nli_model=glove:{folder}/tiny.vec.txt"], "--nli_model"),
    "absent words": (["--table=2", "--model=glove:absent", "--train_batch_size=8"], "absent"),
    "no words": (["--table=2", "--model=glove:", "--train_batch_size=8"], "names no file|glove:"),
    "absent corpus": (["--table=transfer", "--transfer_corpus=target"], "--transfer_corpus=target"),
    "corpus twice": (["--table=transfer", "--transfer_corpus=nli,NLI"], "--transfer_corpus=nli"),
    "corpus too small": (["--table=transfer", "--task=STS-B", f"--transfer_corpus={folder}/one.txt"], "batch"),
    "transfer that is not used": (["--table=2", "--transfer_corpus=nli"], "--transfer_corpus"),
    "seeds that are not used": (["--table=ablation", "--num_seeds=2"], "--num_seeds"),
    "beyond words": (["--table=beyond", words], "--table=beyond"),
    "no MRPC": (["--table=gains", f"--data_dir={folder}/data"], "MRPC"),
    "no seeds": (["--table=2", "--num_seeds=0"], "num_seeds"),
    "seeds that end": (["--table=8", f"--seed={2**31 - 3}"], "--seed"),
    "seed of -1": (["--table=8", "--seed=-1"], "seed"),
    "batch of 0": (["--table=8", "--train_batch_size=0"], "train_batch_size"),
    "batch above all pairs": (["--table=8", "--train_batch_size=9999"], "9999"),
    "epochs of 0": (["--table=8", "--num_train_epochs=0"], "num_train_epochs"),
    "length": (["--table=8", "--max_seq_length=1"], "max_seq_length=1"),
    "no config": (["--table=8", "--flow_model_config=absent"], "absent"),
    "no data": (["--table=2", "--task=STS-B", f"--data_dir={folder}/absent"], "absent"),
    "no QNLI": (["--table=4", f"--data_dir={folder}/no_dev"], "QNLI"),
    "no dev": (["--table=6", f"--data_dir={folder}/no_dev"], "--table=6|sts-dev|sts-train"),
    "output is empty": (["--table=8", "--output_dir="], "--output_dir"),
    "output is a file": (["--table=8", f"--output_dir={folder}/one.txt"], "--output_dir"),
    "page is empty": (["--results_page="], "--results_page"),
    "page is a folder": (["--table=8", f"--results_page={folder}"], "--results_page"),
    "page in no folder": (["--table=8", f"--results_page={folder}/absent/R.md"], "--results_page"),
    "no tables": ([f"--results_page={folder}/R.md"], "--results_page"),
  }
  return {name: ([*flags, *_elsewhere(folder, flags)], text) for name, (flags, text) in rejected.items()}


def _elsewhere(folder, flags):
  """Returns a flag for a folder that does not exist, in which a rejected run must leave nothing."""
  return [] if any(flag.startswith("--output_dir") for flag in flags) else [f"--output_dir={folder}/refused"]


def by_hand(folder):
  """Returns the cosines of STS-B's test split by the flow of SEED, without the tables."""
  import numpy as np

  from bert_flow_tf import FlowConfig, Glow, SentenceEncoder
  from bert_flow_tf.data.tasks import load_task
  from bert_flow_tf.training.flow_trainer import Trainer
  from bert_flow_tf.training.settings import FlowSettings
  from bert_flow_tf.training.sources import EmbeddingPairs

  splits = load_task("STS-B", folder / "data").splits
  encoder = SentenceEncoder.from_pretrained("mini")
  a, b = (
    np.concatenate([encoder.encode(list(getattr(pairs, side))) for pairs in splits.values()])
    for side in ("sentences_a", "sentences_b")
  )
  flow = Glow(FlowConfig(**CONFIG), a.shape[1], seed=SEED)
  Trainer(flow, FlowSettings(seed=SEED), show_progress=False).fit(EmbeddingPairs(a, b), 1.0)
  u, v = (flow.transform(side[-tiny_data.PAIRS :]).numpy().astype(np.float64) for side in (a, b))
  cosines = np.sum(u * v, axis=1) / np.linalg.norm(u, axis=1) / np.linalg.norm(v, axis=1)
  return cosines.tolist()


def ranks_by_hand(folder):
  """Returns the rows of the vocabulary by their counts in the corpus, tokenized line by line."""
  from collections import Counter

  from bert_flow_tf import SentenceEncoder

  tokenizer = SentenceEncoder.from_pretrained("mini").tokenizer
  lines = (folder / "corpus.txt").read_text().split("\n")[:-1]
  counts = Counter(piece for line in tokenizer(lines, 1000) for piece in line.tolist())
  ranked = sorted(counts, key=lambda piece: (-counts[piece], piece))
  return [piece for piece in ranked if tokenizer.vocab[piece] not in ("[CLS]", "[SEP]", "[UNK]")]


def run_good(run_all, folder, always):
  """Runs the good cases and counts their fits; the first is stopped at its second fit."""
  from bert_flow_tf.tables.workbench import Workbench

  fits, results = {}, {}
  fit = Workbench._fit
  for name, arguments in good(folder).items():
    fits[name] = {"flow": 0, "linear": 0}

    def counted(self, embedding, spec, *others, name=name):
      kind = "flow" if spec.method == "flow" else "linear"
      if name == "killed" and fits[name]["flow"] == 1 and kind == "flow":
        raise KeyboardInterrupt
      fits[name][kind] += 1
      return fit(self, embedding, spec, *others)

    Workbench._fit = counted
    results |= run_all({name: arguments}, always)
    if name == "resumed":
      _damage(folder / "out/cells")
  return results, fits


def _damage(cells):
  """Truncates the file of one score, and changes the number in another."""
  scores = [file for file in sorted(cells.iterdir()) if '"kind": "cosines"' in file.read_text()]
  (whitening,) = (file for file in scores if '"calibration": "whitening-8"' in file.read_text())
  (natsv,) = (file for file in scores if '"calibration": "natsv"' in file.read_text())
  whitening.write_text(whitening.read_text()[:200])
  content = json.loads(natsv.read_text())
  content["value"]["cosines"][0] = 0.99
  natsv.write_text(json.dumps(content))


def without(module):
  """Returns the result of a table and a figure that need a module which cannot be imported."""
  from run_scripts import run_table

  hidden = {name: sys.modules.pop(name) for name in list(sys.modules) if name.split(".")[0] == module}
  sys.modules[module] = None
  try:
    return command_lines.run_all(run_table.main, {f"without {module}": ["--table=6", "--figure=2"]})
  finally:
    sys.modules.pop(module)
    sys.modules.update(hidden)


def main(folder):
  """Runs every case."""
  from run_scripts import run_table

  folder = pathlib.Path(folder)
  write_files(folder)
  run_table.define_flags()
  always = [f"--data_dir={folder}/data", f"--flow_model_config={folder}/small.json", f"--seed={SEED}"]
  run_all = functools.partial(command_lines.run_all, run_table.main)
  missing = without("rapidfuzz")
  rejected = run_all({name: arguments for name, (arguments, _) in bad(folder).items()}, always)
  results, fits = run_good(run_all, folder, always)
  results = {**rejected, **missing, **results}
  print(json.dumps({"results": results, "fits": fits, "by_hand": by_hand(folder), "ranks": ranks_by_hand(folder)}))


if __name__ == "__main__":
  main(sys.argv[1])
