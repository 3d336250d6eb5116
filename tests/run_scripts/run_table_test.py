"""run_scripts/run_table.py: right, wrong and interrupted command lines, all in one process."""

import collections
import json
import shutil

import pytest
from scipy import stats

from bert_flow_tf import SentenceEncoder, SentenceModel
from bert_flow_tf.data.tasks import load_task
from bert_flow_tf.tables.recipe import CONTROLS
from bert_flow_tf.tables.workbench import Workbench
from tests.run_scripts import tiny_data
from tests.run_scripts.command_lines import check_rejected
from tests.run_scripts.results import read_json
from tests.testing import REPO

pytestmark = pytest.mark.slow
RUNNER = "table"
SEED = 7
# A small flow, which compiles fast; 3 steps per fit.
CONFIG = {"n_levels": 1, "depth": 1, "coupling_width": 8}


def prepare(folder):
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


def right(folder):
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
  }


def by_hand(folder):
  """Returns the cosines of STS-B's test split by the flow of SEED, without the tables."""
  splits = load_task("STS-B", folder / "data").splits.values()
  sides = [
    [sentence for pairs in splits for sentence in getattr(pairs, side)] for side in ("sentences_a", "sentences_b")
  ]
  settings = {"seed": SEED, "num_train_epochs": 1.0, "flow_model_config": folder / "small.json"}
  model = SentenceModel.from_pretrained("mini").fit(tuple(sides), **settings)
  return model.similarity(*(side[-tiny_data.PAIRS :] for side in sides)).tolist()


def ranks_by_hand(folder):
  """Returns the rows of the vocabulary by their counts in the corpus, tokenized line by line."""
  tokenizer = SentenceEncoder.from_pretrained("mini").tokenizer
  lines = (folder / "corpus.txt").read_text().split("\n")[:-1]
  counts = collections.Counter(piece for line in tokenizer(lines, 1000) for piece in line.tolist())
  ranked = sorted(counts, key=lambda piece: (-counts[piece], piece))
  return [piece for piece in ranked if tokenizer.vocab[piece] not in ("[CLS]", "[SEP]", "[UNK]")]


def always(folder):
  data = [f"--data_dir={folder}/data", f"--flow_model_config={folder}/small.json", f"--seed={SEED}"]
  return [*data, f"--output_dir={folder}/refused"]


def run_right(folder, run_all):
  """Counts the fits of each right line; the first is stopped at its second fit."""
  results = {"fits": {}}
  fit = Workbench._fit
  for name, arguments in right(folder).items():
    counts = results["fits"][name] = {"flow": 0, "linear": 0}

    def counted(self, embedding, spec, *others, name=name, counts=counts):
      kind = "flow" if spec.method == "flow" else "linear"
      if name == "killed" and counts["flow"] == 1 and kind == "flow":
        raise KeyboardInterrupt
      counts[kind] += 1
      return fit(self, embedding, spec, *others)

    Workbench._fit = counted
    results |= run_all(command_lines={name: arguments})
  return results


def finish(folder):
  return {"by_hand": by_hand(folder), "ranks": ranks_by_hand(folder)}


def cells(folder, table):
  """Returns {row: {column: plain cell}} of our rows."""
  output = read_json(folder / f"table_{table}.json")
  return {row["name"]: row["cells"] for row in output["rows"] if row["source"] == "ours"}


def test_right_command_lines(ran):
  folder, output = ran
  statuses = {name: output[name]["status"] for name in right(folder)}
  assert statuses == {name: 130 if name == "killed" else 0 for name in statuses}, output


def test_wrong_command_lines_leave_no_files(ran):
  folder, _ = ran
  check_rejected(ran, RUNNER, alone=False)
  assert not (folder / "refused/cells").exists() and not (folder / "R.md").exists()


def test_a_killed_run_is_resumed(ran):
  """The second run makes the fits that the first did not finish; the third none."""
  folder, output = ran
  assert [output["fits"][name] for name in ("killed", "resumed", "again")] == [
    {"flow": 1, "linear": 0},
    {"flow": 1, "linear": 2},
    {"flow": 0, "linear": 0},
  ]
  resumed, again = (output[name]["stdout"] for name in ("resumed", "again"))
  assert resumed == again
  assert resumed == (folder / "out/table_2.md").read_text() + "\n"


def test_flow_is_that_of_the_library(ran):
  """The first seed's cell is that of embeddings, flow, fit and Spearman without the tables."""
  folder, output = ran
  gold = load_task("STS-B", folder / "data").splits["test"].scores
  expected = 100 * stats.spearmanr(output["by_hand"], gold)[0]
  cell = cells(folder / "out", "2")["mini, avg-first-last, flow (target)"]["STS-B"]
  assert len(cell["values"]) == 2 and cell["values"][0] == pytest.approx(expected, abs=0.2)
  assert cell["spread"] == pytest.approx(abs(cell["values"][0] - cell["values"][1]) / 2**0.5)


def test_the_command_of_a_table_makes_that_table(ran):
  folder, _ = ran
  about = json.loads((folder / "out/table_1.json").read_text())["about"]
  assert (
    "--table=1" in about["command"] and "--table=1,6" not in about["command"] and "--figure" not in about["command"]
  )
  assert f"--corpus={folder}/corpus.txt" in about["command"] and about["seeds"] == []
  about = json.loads((folder / "out/table_6.json").read_text())["about"]
  assert "--corpus" not in about["command"] and about["seeds"] == [7] and list(about["encoders"]) == ["mini"]


def test_word_vectors(ran):
  folder, output = ran
  rows = cells(folder / "words", "2")
  assert list(rows) == [
    f"tiny, avg of word vectors{end}" for end in ("", ", flow (target)", ", sn (target)", ", whitening (target)")
  ]
  assert all(isinstance(row["STS-B"]["value"], float) for row in rows.values()) and output["fits"]["words"]["flow"] == 1


def test_fine_tuned_encoder(ran):
  """The same weights under another name: no fit, and rows with the encoder's kind."""
  folder, output = ran
  rows, plain = cells(folder / "out", "3"), cells(folder / "out", "2")
  assert output["fits"]["tuned"] == {"flow": 0, "linear": 0}
  ends = ["avg", "avg-first-last", "avg-first-last, flow (NLI)", "avg-first-last, flow (target)", *CONTROLS]
  assert list(rows) == [f"tuned (fine-tuned on NLI), {end}" for end in ends]
  tuned, flow = (
    of[name]["STS-B"]["values"]
    for of, name in [
      (rows, "tuned (fine-tuned on NLI), avg-first-last, flow (target)"),
      (plain, "mini, avg-first-last, flow (target)"),
    ]
  )
  assert tuned == flow[:1]


def test_word_frequencies_of_both_kinds(ran):
  folder, output = ran
  stored = [json.loads(file.read_text()) for file in (folder / "out/cells").iterdir()]
  (ranks,) = (cell["value"] for cell in stored if cell["key"]["kind"] == "ranks")
  assert ranks == output["ranks"]
  counts, corpus = (cells(folder / name, "1") for name in ("counts", "out"))
  assert list(counts) == list(corpus) and len(counts) == 7
  for rows in (counts, corpus):
    figures = [cell["value"] for cell in rows["mini, mean l2-norm"].values()]
    assert isinstance(figures[0], float) and isinstance(figures[1], float) and figures[3] is None
  assert counts != corpus


def test_table_6_and_figure_2(ran):
  """Both use the same fit."""
  folder, output = ran
  assert output["fits"]["rest"]["flow"] == 1
  rows = cells(folder / "out", "6")
  assert rows["gold similarity"]["gold similarity"]["value"] == pytest.approx(100.0)
  assert (folder / "out/figure_2_mini.png").read_bytes().startswith(b"\x89PNG")


def test_beyond(ran):
  """The rows that Table 2 has too have its scores, and each gain is a difference of two rows."""
  folder, _ = ran
  rows, second = cells(folder / "beyond", "beyond"), cells(folder / "out", "2")
  assert {row["STS-B"]["reason"] for row in rows.values()} == {""}
  for name in ("mini, avg", "mini, avg-first-last", "mini, avg-first-last, flow (target)"):
    assert rows[name]["STS-B"]["values"] == second[name]["STS-B"]["values"]
  flow, whitening = "mini, avg-first-last, flow", "mini, avg-first-last, whitening"
  gain = cells(folder / "beyond", "gains")[f"{flow} over avg-first-last, whitening (target)"]["STS-B"]
  expected = rows[f"{flow} (target)"]["STS-B"]["value"] - rows[f"{whitening} (target)"]["STS-B"]["value"]
  assert gain["value"] == pytest.approx(expected) and gain["interval"][0] < gain["value"] < gain["interval"][1]
  recipe = "mini, recipe: mix, idf, soft-whitening (target)"
  assert cells(folder / "beyond", "ablation")[recipe]["STS-B"]["values"] == rows[recipe]["STS-B"]["values"]
