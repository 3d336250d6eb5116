"""run_scripts/run_siamese.py: its flags and files, frozen encoders, and rejected command lines."""

import json

import numpy as np
import pytest
from absl import flags
from scipy import stats

from bert_flow_tf import SentenceEncoder
from bert_flow_tf.calibration.saving import load_calibration
from bert_flow_tf.data.tasks import load_task
from bert_flow_tf.encoder.identity import check_encoder
from bert_flow_tf.evaluation.metrics import cosine_similarity
from bert_flow_tf.training.siamese.objectives import Classifier
from tests.integrations import senteval_checkout
from tests.run_scripts import tiny_data
from tests.run_scripts.command_lines import check_rejected, check_succeeded
from tests.run_scripts.results import read_json, read_predictions
from tests.training.siamese import small_siamese

pytestmark = pytest.mark.slow
RUNNER = "siamese"
CACHED = False  # training changes an encoder
PAIRS = 40
LABELS = ("CONTRADICTION", "ENTAILMENT", "NEUTRAL")


# ../shared/original_runner.md, "Flags".
PUBLISHED = {
  **dict.fromkeys(("bert_config_file", "vocab_file", "task_name", "data_dir", "init_checkpoint", "exp_name")),
  **dict.fromkeys(("cached_dir", "eval_checkpoint_name")),
  **{"max_seq_length": 128, "label_min": 0, "label_max": 5, "auc": False, "log_every_step": 10},
  **{"save_checkpoints_steps": 1000, "use_xla": False, "seed": 1234, "do_train": False, "do_eval": False},
  **{"do_predict": False, "train_batch_size": 32, "eval_batch_size": 8, "predict_batch_size": 8},
  **{"learning_rate": 5e-5, "warmup_proportion": 0.1, "num_train_epochs": 3.0, "early_stopping": False},
  **{"start_delay_secs": 120, "throttle_secs": 600, "predict_pool": False, "do_predict_on_dev": False},
  **{"do_predict_on_full": False, "sentence_embedding_type": "avg", "flow": 0, "flow_loss": 0},
  **{"flow_learning_rate": 1e-3, "flow_model_config": "config_l3_d3_w32", "num_examples": -1},
  **{"use_full_for_training": 0, "dupe_factor": 1, "l2_penalty": -1, "low_dim": -1, "do_senteval": False},
  "senteval_tasks": "",
}
# The published runner demands the first two; the vocabulary decides the third.
OURS = {"output_parent_dir": "exp", "exp_name_prefix": "exp", "do_lower_case": None}


def prepare(folder):
  """Writes model, data and a flow's config below the folder."""
  small_siamese.save(folder / "model")
  (folder / "small.json").write_text('{"n_levels": 1, "depth": 1, "coupling_width": 4}')
  (folder / "deeper.json").write_text('{"n_levels": 1, "depth": 2, "coupling_width": 4}')
  (folder / "garbage.json").write_text("{")
  sick, stsb, snli = folder / "data/SICK", folder / "data/STS/STSBenchmark", folder / "data/SNLI"
  for path in (sick, stsb, snli):
    path.mkdir(parents=True)
  header = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"
  for seed, (file, split) in enumerate((("train", "train"), ("trial", "dev"), ("test_annotated", "test"))):
    rows = list(zip(*small_siamese.pairs(PAIRS, seed), strict=True))
    lines = [f"{i}\t{a}\t{b}\t{1 + label}\t{LABELS[int(label)]}\n" for i, (a, b, label) in enumerate(rows)]
    (sick / f"SICK_{file}.txt").write_text(header + "".join(lines))
    lines = [f"g\tf\ty\t{i}\t{2 * label}\t{a}\t{b}\n" for i, (a, b, label) in enumerate(rows)]
    (stsb / f"sts-{split}.csv").write_text("".join(lines))
  lines = [f"{a}\t{b}\t{'-' if i < 3 else LABELS[int(label)].lower()}\n" for i, (a, b, label) in enumerate(rows)]
  tiny_data.write_years(folder / "data")
  senteval_checkout.write(folder / "SentEval", folder / "data")
  (snli / "dev.tsv").write_text("sentence1\tsentence2\tgold_label\n" + "".join(lines))


def right(folder):
  """Returns {name: flags} of command lines that succeed, in this order."""
  sick = ["--task=SICK-E", "--learning_rate=1e-3", "--num_train_epochs=1", "--exp_name=sick"]
  flow = ["--flow", "1", "--flow_loss=1", f"--flow_model_config={folder}/small.json"]
  frozen = ["--task_name=STS-B", *flow, "--num_examples=0", "--use_full_for_training=1", "--num_train_epochs=1"]
  joint = ["--task=STS-B", *flow, "--num_examples=20", "--num_train_epochs=2", "--low_dim=4", "--exp_name=joint"]
  joint += ["--precision=bfloat16"]
  named = [*frozen, "--exp_name_prefix=p", "--label_max=4", "--throttle_secs=1", "--num_train_epochs=0.2"]
  return {
    "sick": [*sick, "--do_train", "--do_eval", "--do_predict", "--save_checkpoints_steps=1"],
    "sick pooled": [*sick, "--do_predict", "--predict_pool"],
    "sick again": [*sick, "--do_eval", "--do_predict", "--do_predict_on_full", "--do_lower_case"],
    "sick earlier": [*sick, "--do_predict", "--eval_checkpoint_name=model.ckpt-4"],
    "frozen": [
      *(*frozen, "--exp_name=frozen", "--do_train", "--do_eval"),
      *("--do_predict", "--do_predict_on_dev", "--do_predict_on_full"),
    ],
    "joint": [
      *joint,
      *("--do_train", "--do_eval", "--do_predict", "--do_predict_on_dev"),
      *("--dupe_factor=2", "--early_stopping", "--l2_penalty=1e-4"),
    ],
    "joint again": [*joint, "--do_eval", "--do_predict", "--do_predict_on_dev", "--predict_pool", "--l2_penalty=1e-4"],
    # Flow and classifier of other experiments are restored by name.
    "joint elsewhere": [
      *(flag.replace("=joint", "=elsewhere") for flag in joint if "--l2" not in flag),
      *("--do_predict", f"--init_checkpoint={folder}/exp/joint/model.ckpt-5"),
    ],
    "named": [*named, "--do_train"],
    "published": [
      *("--task=STS-B", *flow, "--use_full_for_training=1", "--num_train_epochs=3", "--exp_name=published"),
      *("--as_published", "--early_stopping", "--do_train", "--do_eval"),
    ],
    "no epochs": ["--task=STS-B", "--do_train", "--num_train_epochs=1e-10", "--do_predict", "--exp_name=untrained"],
    "nothing trained": ["--task=STS-B", "--do_eval", "--do_predict_on_dev", "--exp_name=nothing"],
    "senteval": [
      *("--task=STS-B", "--do_senteval", f"--senteval={folder}/SentEval", "--senteval_trusted"),
      *("--senteval_tasks=STS12", "--exp_name=senteval"),
    ],
    "a union": ["--task=STS-12-16", "--do_eval", "--exp_name=union"],
    "subsets": ["--task=STS-13", "--do_eval", "--exp_name=subsets"],
  }


def always(folder):
  flags = [f"--output_parent_dir={folder}/exp", f"--data_dir={folder}/data", f"--model={folder}/model"]
  return [*flags, "--max_seq_length=16", "--train_batch_size=8"]


def finish(folder):
  return {"defaults": {name: flags.FLAGS[name].default for name in flags.FLAGS}}


def test_published_flags_and_defaults(ran):
  assert len(PUBLISHED) + len(OURS) == 46
  assert {name: ran[1]["defaults"][name] for name in PUBLISHED | OURS} == PUBLISHED | OURS


def test_command_lines(ran):
  folder, _ = ran
  check_succeeded(ran, right)
  check_rejected(ran, RUNNER, alone=False)
  expected = {"sick", "frozen", "joint", "elsewhere", "untrained", "published", "nothing", "union", "senteval"}
  expected.add("subsets")
  expected.add("p_t_STS-B_ep_0.20_lr_5.00e-05_bsz_8_f_11_1.00e-03_allsplits_small")
  assert {path.name for path in (folder / "exp").iterdir()} == expected


def eval_results(folder):
  """{name: value} of eval_results.txt, which is sorted."""
  lines = (folder / "eval_results.txt").read_text().splitlines()
  assert lines == sorted(lines)
  return {name: float(value) for name, value in (line.split(" = ") for line in lines)}


def encoded(encoder, columns, pooling="avg"):
  return [encoder.encode(list(side), pooling, max_seq_length=16) for side in columns]


def test_eval_results_of_tasks_made_of_subsets(ran):
  for name, task in (("union", "STS-12-16"), ("subsets", "STS-13")):
    values = eval_results(ran[0] / f"exp/{name}")
    pairs = load_task(task, ran[0] / "data").splits["test"]
    encoder = SentenceEncoder.from_pretrained(ran[0] / "model")
    cosines = cosine_similarity(*encoded(encoder, (pairs.sentences_a, pairs.sentences_b)))
    scored = ~np.isnan(pairs.scores)
    # Most words are unknown to this encoder, so that cosines are alike and rounding shows.
    expected = stats.pearsonr(cosines[scored], pairs.scores[scored]).statistic
    assert values["eval_pearsonr"] == pytest.approx(expected, abs=1e-3) and values["global_step"] == 0


def test_labels(ran):
  """Saved encoder and classifier give the predictions, and the scores follow from those."""
  folder = ran[0] / "exp/sick"
  results = read_json(folder / "results.json")
  encoder = SentenceEncoder.from_pretrained(folder / "encoder")
  classifier = Classifier.load(folder / "classifier")
  columns = read_predictions(folder)
  a, b = encoded(encoder, (columns["sentence1"], columns["sentence2"]))
  logits = np.hstack([a, b, np.abs(a - b)]) @ classifier.output_weights.numpy().T
  probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
  labels = np.array(["contradiction", "entailment", "neutral"])
  written = np.stack([np.array(columns[f"p_{label}"], float) for label in labels], axis=1)
  np.testing.assert_allclose(written, probabilities, atol=1e-5)
  assert columns["predicted"] == tuple(labels[written.argmax(axis=1)])
  right = np.mean(np.array(columns["predicted"]) == np.array(columns["gold"]))
  majority = max(columns["gold"].count(label) for label in labels) / PAIRS
  test, dev = results["results"]["test"], results["results"]["dev"]
  assert (test["accuracy"], test["majority"]) == (pytest.approx(100 * right), pytest.approx(100 * majority))
  values = eval_results(folder)
  assert values.keys() == {"eval_accuracy", "eval_loss", "global_step", "loss"} and values["global_step"] == 5
  assert values["eval_accuracy"] == pytest.approx(dev["accuracy"] / 100)
  assert values["eval_loss"] == pytest.approx(dev["loss"], rel=1e-5)
  lines = [json.loads(line) for line in (folder / "test_pooled.tsv").read_text().splitlines()]
  for side, expected in {"embedding_a": a, "embedding_b": b}.items():
    np.testing.assert_allclose([line[side] for line in lines], expected, atol=1e-5)
  training = read_json(folder / "training.json")
  assert (training["steps"], training["labelled"], training["unlabelled"]) == (5, 40, 0)
  assert training["encoder_sha256"] == encoder.weights_checksum != training["encoder_sha256_before"]
  assert training["seconds_per_step"] > 0 and training["peak_memory_bytes"]["host"] > 2**20


def test_checkpoints(ran):
  """The last 3 are kept, and an earlier one can be used for predictions."""
  folder = ran[0] / "exp/sick"
  assert sorted(path.name for path in folder.glob("*.index")) == [f"model.ckpt-{step}.index" for step in (3, 4, 5)]
  earlier, last = (read_predictions(folder, f"{prefix}test_results.tsv") for prefix in ("model.ckpt-4.", ""))
  assert earlier["sentence1"] == last["sentence1"] and earlier["p_neutral"] != last["p_neutral"]
  encoder = SentenceEncoder.from_pretrained(folder / "model.ckpt-5")
  saved = SentenceEncoder.from_pretrained(folder / "encoder")
  assert (encoder.weights_checksum, encoder.deciding_settings) == (saved.weights_checksum, saved.deciding_settings)


def test_evaluated_again_from_what_was_saved(ran):
  folder, outputs = ran

  def tables(name):
    lines = outputs[name]["stdout"].splitlines()
    return [line for line in lines if not line.startswith(("seconds:", "trained", "page:", "dev_results"))]

  assert len(tables("sick")) == 4 and tables("sick again") == tables("sick")
  assert tables("joint again") == tables("joint") and tables("joint")[2].startswith("dev")
  full = read_predictions(folder / "exp/sick", "full_results.tsv")
  assert len(full["index"]) == 3 * PAIRS


def test_frozen_encoder_is_frozen(ran):
  """Not a bit of its weights changes while a flow is fitted, and no encoder is saved next to the flow."""
  folder, _ = ran
  encoder = SentenceEncoder.from_pretrained(folder / "model")
  training, results = (read_json(folder / "exp/frozen" / name) for name in ("training.json", "results.json"))
  assert training["frozen"] and training["encoder_sha256"] == encoder.weights_checksum
  assert results["encoder"]["weights_sha256"] == encoder.weights_checksum
  assert (training["steps"], training["labelled"], training["unlabelled"]) == (15, 0, 3 * PAIRS)
  assert not (folder / "exp/frozen/encoder").exists()
  checkpoint = SentenceEncoder.from_pretrained(folder / "exp/frozen/model.ckpt-15")
  assert checkpoint.weights_checksum == encoder.weights_checksum
  flow = load_calibration(folder / "exp/frozen/flow")
  check_encoder(flow, encoder.identity("avg", 16), encoder.dim("avg"), "flow")
  written = np.loadtxt(folder / "exp/frozen/full_results.tsv")
  for number, split in enumerate(("test", "dev")):
    stsb = (folder / f"data/STS/STSBenchmark/sts-{split}.csv").read_text().splitlines()
    gold, *sides = zip(*(line.split("\t")[4:] for line in stsb), strict=True)
    plain = encoded(encoder, sides)
    calibrated = [flow.transform(side) for side in plain]
    for method, (u, v) in {"without_flow": plain, "with_flow": calibrated}.items():
      expected = 100 * stats.spearmanr(cosine_similarity(u, v), np.array(gold, float))[0]
      assert results["results"][split][method]["spearman"] == pytest.approx(expected, abs=0.5)
    of_split = written[number * PAIRS : (number + 1) * PAIRS]
    np.testing.assert_allclose(of_split, cosine_similarity(*calibrated), atol=1e-4)
    if split == "dev":
      np.testing.assert_allclose(np.loadtxt(folder / "exp/frozen/dev_results.tsv"), of_split, atol=1e-5)
      gold = np.array(gold, float)
      scores = [100 * found.statistic for found in (stats.pearsonr(of_split, gold), stats.spearmanr(of_split, gold))]
      line = next(line for line in ran[1]["frozen"]["stdout"].splitlines() if line.startswith("dev_results.tsv: "))
      assert [float(word.strip(",")) for word in line.split()[2:5:2]] == pytest.approx(scores, abs=0.6)
  bits = [flow.flow.bits_per_dim(side).numpy().mean() for side in plain]
  values = eval_results(folder / "exp/frozen")
  assert values["eval_loss"] == values["loss"] == 0 and values["eval_loss_flow"] == pytest.approx(sum(bits), rel=1e-4)
  assert values["eval_loss_total"] == values["eval_loss_flow"] and -1 < values["eval_pearsonr"] < 1


def test_some_labels_train_encoder_and_flow_together(ran):
  folder = ran[0] / "exp/joint"
  training = read_json(folder / "training.json")
  assert (training["planned_steps"], training["labelled"], training["unlabelled"]) == (10, 20, 20)
  assert training["best_on_dev"]["step"] % 5 == 0
  encoder = SentenceEncoder.from_pretrained(folder / "encoder", precision="bfloat16")
  assert encoder.weights_checksum == training["encoder_sha256"] != training["encoder_sha256_before"]
  flow = load_calibration(folder / "flow")
  assert flow.dim == 12 and flow.encoder["name"] == str(folder / "encoder")
  lines = [json.loads(line) for line in (folder / "dev_pooled.tsv").read_text().splitlines()]
  sides = [np.array([line[side] for line in lines]) for side in ("embedding_a", "embedding_b")]
  assert sides[0].shape == (PAIRS, 4)
  np.testing.assert_allclose(np.loadtxt(folder / "dev_results.tsv"), cosine_similarity(*sides), atol=1e-4)


def test_flow_of_another_experiment(ran):
  """Flow and classifier of init_checkpoint are used, if the experiment has no checkpoint of its own."""
  folder, _ = ran
  assert len(np.loadtxt(folder / "exp/elsewhere/test_results.tsv")) == PAIRS
  assert (folder / "exp/untrained/test_results.tsv").exists() and not (folder / "exp/untrained/training.json").exists()


def test_senteval(ran):
  results = read_json(ran[0] / "exp/senteval/senteval_results.json")
  assert list(results["results"]) == ["STS12"] and "STS12 all" in ran[1]["senteval"]["stdout"]


def test_as_published(ran):
  """Test pairs have the label 0, the flow starts without data, and the training ends when Pearson's r did not fall."""
  folder = ran[0] / "exp/published"
  training = read_json(folder / "training.json")
  assert (training["labelled"], training["planned_steps"]) == (3 * PAIRS, 45)
  assert training["steps"] in (30, 45)  # stops when an evaluation after the first is not lower
  assert load_calibration(folder / "flow").flow.actnorm_init == "glorot"
  assert eval_results(folder)["global_step"] == training["steps"]


def test_do_predict_on_dev_alone_predicts_nothing(ran):
  assert [path.name for path in (ran[0] / "exp/nothing").glob("*.tsv")] == []


def test_scores_before_the_training(ran):
  """The encoder that a training starts from is a method of its own; a frozen one is `without_flow`."""
  folder, _ = ran
  published, frozen, sick = (read_json(folder / f"exp/{name}/results.json") for name in ("published", "frozen", "sick"))
  encoder = SentenceEncoder.from_pretrained(folder / "model")
  for split in ("test", "dev"):
    stsb = (folder / f"data/STS/STSBenchmark/sts-{split}.csv").read_text().splitlines()
    gold, *sides = zip(*(line.split("\t")[4:] for line in stsb), strict=True)
    expected = 100 * stats.spearmanr(cosine_similarity(*encoded(encoder, sides)), np.array(gold, float))[0]
    scores = published["results"][split]
    assert list(scores) == ["before_training", "without_flow", "with_flow"]
    assert scores["before_training"]["spearman"] == pytest.approx(expected, abs=0.5)
    assert list(frozen["results"][split]) == ["without_flow", "with_flow"]
    assert sick["results"][split]["majority"] == 100 * max(sick["results"][split]["counts"].values()) / PAIRS
