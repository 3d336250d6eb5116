"""benchmarks: the methods do the same work, and the tables follow from the measurements."""

import dataclasses
import sys
import types

import numpy as np
import pytest

from benchmarks import encoder as benchmark_encoder
from benchmarks import measure as benchmark_measure
from benchmarks import models as benchmark_models
from benchmarks import serving as benchmark_serving
from benchmarks import step as benchmark_step
from benchmarks import tasks as benchmark_tasks
from benchmarks.parts import BenchmarkSettings
from benchmarks.worker_process import WorkerError
from bert_flow_tf.data.tasks import load_task
from bert_flow_tf.encoder.sentence_encoder import SentenceEncoder
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.flow.config import FlowConfig
from tests.encoder.tiny import save_tiny

SIZES = {"hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 20}
SENTENCES = ["a dog", "a cat", "a dog .", "b", "dogs a a b . dog cat", "a cat cats ."]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
  return SentenceEncoder.from_pretrained(str(save_tiny(tmp_path_factory.mktemp("tiny") / "bert")))


def test_ways_take_turns_and_each_ratio_is_of_one_round():
  calls, numbers = [], iter([4.0, 2.0, 30.0, 40.0, 9.0, 3.0])
  way = lambda name: lambda: (calls.append(name), next(numbers))[1]  # noqa: E731
  result = benchmark_measure.in_turns({"a": way("a"), "b": way("b")}, 3)
  assert calls == ["a", "b", "b", "a", "a", "b"]
  assert result == {"a": [4.0, 40.0, 9.0], "b": [2.0, 30.0, 3.0]}
  assert benchmark_measure.median_ratio(result["a"], result["b"]) == 2.0
  assert benchmark_measure.verdict(3.0, 3.0) == ">= 3: met"
  assert benchmark_measure.verdict(5.1, 5.0, at_most=True) == "<= 5: missed"


def test_the_originals_way_pads_everything_and_embeds_the_same(tiny):
  padded = benchmark_tasks.PaddedEncoder(tiny, "avg-first-last", 16, 4)
  ids, mask = padded.tokenize(SENTENCES)
  assert ids.shape == mask.shape == (6, 16)
  assert mask.sum(axis=1).tolist() == [len(row) for row in tiny.tokenizer(SENTENCES, 16)]
  expected = tiny.encode(SENTENCES, max_seq_length=16, show_progress=False)
  np.testing.assert_allclose(padded.encode(SENTENCES), expected, atol=1e-5)


@pytest.mark.slow
def test_both_ways_of_a_task_give_the_same_figures():
  task = load_task("hard-sample")
  task = dataclasses.replace(task, spec=dataclasses.replace(task.spec, num_train_epochs=1.0))
  encoder = SentenceEncoder.from_pretrained("mini")
  config = FlowConfig.from_json_file("config_l2_d2_w32")
  result = benchmark_tasks.run_task(task, encoder, config, 1, "avg-first-last", 32, 64, 1)
  summary = benchmark_tasks.summarize([result, result])
  (ours,), (original,) = (result["seconds"][way] for way in (benchmark_tasks.OURS, benchmark_tasks.ORIGINAL))
  assert summary["ratio"] == pytest.approx(original / ours)
  assert summary["seconds"][benchmark_tasks.OURS] == pytest.approx(2 * ours)
  assert summary["without_flow_apart"] < 0.05
  assert summary["with_flow_apart"] < 0.6
  figures = result["figures"][benchmark_tasks.OURS]
  assert figures["without_flow"] != figures["with_flow"]
  assert "| hard-sample |" in benchmark_tasks.to_markdown(summary)


@pytest.mark.slow
def test_a_step_is_timed_after_compilation():
  source = benchmark_step.random_pairs(64, 8)
  result = benchmark_step.fit(source, FlowConfig.from_json_file("config_l2_d2_w32"), 8, 4, 50, use_xla=False)
  # Compilation takes longer than hundreds of steps.
  assert 0 < result["step_ms"] < 1e3 * result["start_up_seconds"] / 20


def test_with_and_without_xla_take_turns(monkeypatch):
  def fit(source, config, dim, batch_size, steps, use_xla):
    assert (len(source), dim, batch_size, steps) == (8628, 4, 2, 30)
    return {"start_up_seconds": 9.0, "step_ms": 4.0} if use_xla else {"start_up_seconds": 5.0, "step_ms": 8.0}

  monkeypatch.setattr(benchmark_step, "fit", fit)
  result = benchmark_step.run(None, 4, 2, 30, 3)
  assert result["plain_over_xla"] == 2.0
  assert result["xla_pays_from_steps"] == 1000
  text = benchmark_step.to_markdown(result)
  assert "| with XLA | 9.0 | 4.00 | <= 5: met |" in text
  assert "| without XLA | 5.0 | 8.00 | <= 5: missed |" in text


def test_xla_pays_where_its_gain_makes_up_for_its_start():
  def medians(plain, xla):
    names = ("start_up_seconds", "step_ms")
    return {
      benchmark_step.PLAIN: dict(zip(names, plain, strict=True)),
      benchmark_step.XLA: dict(zip(names, xla, strict=True)),
    }

  assert benchmark_step.break_even(medians((5.0, 8.0), (9.0, 4.0))) == 1000
  assert benchmark_step.break_even(medians((5.0, 8.0), (4.0, 4.0))) == 0
  assert benchmark_step.break_even(medians((5.0, 4.0), (9.0, 4.0))) is None


def test_random_model_and_flops(tmp_path, tiny):
  benchmark_models.write_random_bert(tmp_path / "r", tiny.bert.folder, SIZES)
  encoder = SentenceEncoder.from_pretrained(str(tmp_path / "r"))
  assert encoder.hidden_size == 12
  assert np.isfinite(encoder.encode(SENTENCES, "cls", show_progress=False)).all()
  # BERT-base at length 128: 22.3 GFLOP a sequence by hand, 85 M weights in products, 2 operations each, and attention.
  base = types.SimpleNamespace(**benchmark_models.BASE)
  by_hand = 128 * (2 * 12 * 12 * 768**2 + 12 * 2 * 2 * 128 * 768)
  assert 128 * benchmark_models.flops_per_token(base, 128) == by_hand


def test_many_sentences_are_distinct_and_keep_their_lengths():
  result = benchmark_models.many_sentences(SENTENCES, 500)
  assert len(set(result)) == len(result) == 500
  assert result[:6] == SENTENCES
  assert benchmark_models.many_sentences(SENTENCES, 2) == SENTENCES[:2]
  # Even where there is hardly a choice, it ends.
  assert len(set(benchmark_models.many_sentences(["x"], 3))) == 3


@pytest.mark.slow
def test_encoder_without_the_others_says_how_to_install_them(tmp_path, tiny, monkeypatch):
  monkeypatch.setattr(benchmark_encoder, "_MATRIX", 64)
  python = tmp_path / "python"
  python.write_text(
    f"#!{sys.executable}\nimport runpy, sys\n"
    "sys.modules.update(dict.fromkeys(['sentence_transformers', 'onnxruntime']))\n"  # None: cannot be imported
    "sys.argv = sys.argv[1:]\nrunpy.run_path(sys.argv[0], run_name='__main__')\n"
  )
  python.chmod(0o755)
  result = benchmark_encoder.run(tiny.bert.folder, SENTENCES, 16, 4, 2, str(python), SIZES)
  assert result["skipped"].keys() == set(benchmark_encoder.TARGETS)
  assert all("pip install torch" in why for why in result["skipped"].values())
  assert list(result["sentences_per_second"]) == [benchmark_encoder.OURS]
  scaling = benchmark_encoder.run_scaling(tiny, SENTENCES, [2, 6], 16, 4, 1)
  text = benchmark_encoder.to_markdown(result, scaling)
  assert "skipped" in text
  for python in ("/nowhere", "/bin/true"):
    with pytest.raises(WorkerError) as raised:
      benchmark_encoder.run(tiny.bert.folder, SENTENCES, 16, 4, 1, python, SIZES)
    assert raised.value.argument == "other_python"


@pytest.mark.parametrize(
  ("name", "value"),
  [("sentence_counts", ("1000", "many")), ("sentence_counts", ()), ("sentence_counts", ("0",)), ("tasks", ("custom",))],
)
def test_wrong_settings_are_rejected(name, value):
  with pytest.raises(ConfigError) as raised:
    BenchmarkSettings(**{name: value})
  assert raised.value.argument == name


@pytest.mark.slow
def test_served_model_under_load(tiny):
  pytest.importorskip("tensorflow_text", reason="the extra [serving] is not installed")
  sentences = [f"{'a ' * i}dog cats" for i in range(12)]
  config = FlowConfig(n_levels=1, depth=1, coupling_width=4)
  result = benchmark_serving.run(tiny, config, sentences, 16, "avg-first-last", 1.0, 1)
  load = result["load"]
  assert load["wrong_answers"] == 0 and load["fewest_requests_of_a_client"] > 0
  assert load["requests"] >= load["clients"] == 32
  assert set(result["flow_share"]) == {1, 8, 64}
  assert "0 wrong answers" in benchmark_serving.to_markdown(result)


def test_a_wrong_answer_is_counted():
  expected = np.ones([4, 3], np.float32)
  answers = lambda signature, texts: np.ones([len(texts), 3]) + (0.1 if "c" in texts else 0.0)  # noqa: E731
  assert benchmark_serving.under_load(answers, ["a", "b"], expected[:2], 0.1, 2)["wrong_answers"] == 0
  assert benchmark_serving.under_load(answers, ["c"], expected[:1], 0.1, 2)["wrong_answers"] > 0
