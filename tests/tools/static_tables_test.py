"""tools/static_tables.py: what a calibration is fitted on, nDCG of questions, and cosines as of written folders."""

import gzip

import numpy as np
import pytest

from bert_flow_tf import SentenceEncoder, distill, load_task
from bert_flow_tf.evaluation.retrieval import score_rankings
from tools import static_tables as tables


def test_a_corpus_has_each_sentence_once_and_none_of_the_evaluated_sets(tmp_path):
  lines = ["A dog runs.", "a DOG runs", "Rain falls.", "", "A dog runs.", "Snow falls."]
  (tmp_path / "corpus.txt").write_text("\n".join(lines), "utf-8")
  (tmp_path / "corpus.txt.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
  for name in ("corpus.txt", "corpus.txt.gz"):
    assert tables.read_corpus(str(tmp_path / name), {"rainfalls"}) == ["A dog runs.", "a DOG runs", "Snow falls."]


def test_questions_have_the_ndcg_of_their_sentence_among_those_of_dev_and_test(tmp_path):
  (tmp_path / "QNLI").mkdir()
  rows = [f"{row}\tq{row}\tsentence {row}\t{'not_' * (row % 2)}entailment" for row in range(20)]
  (tmp_path / "QNLI" / "dev.tsv").write_text("\n".join(["index\tquestion\tsentence\tlabel", *rows]), "utf-8")
  (tmp_path / "QNLI" / "test.tsv").write_text("index\tquestion\tsentence\n0\tq\tanother\n1\tq\tsentence 0", "utf-8")
  asked = tables.QuestionSet(str(tmp_path))
  assert asked.sides[0] == [f"q{row}" for row in range(0, 20, 2)]
  assert asked.sentences == [*(f"sentence {row}" for row in range(20)), "another"]
  rng = np.random.default_rng(0)
  first, second = rng.standard_normal([10, 2]), rng.standard_normal([21, 2])
  cosines = first @ (second / np.linalg.norm(second, axis=1, keepdims=True)).T
  expected = []
  for question, row in enumerate(range(0, 20, 2)):
    ranking = [asked.sentences[document] for document in np.argsort(-cosines[question])]
    expected.append(score_rankings({"q": ranking}, {"q": {f"sentence {row}": 1}}).mean["ndcg@10"])
  assert asked.score(asked.values(first, second)) == pytest.approx(np.mean(expected))


def test_cosines_are_those_of_folders_with_the_calibration_in_them(tmp_path):
  # "" is a vector of zeros there, which a calibration would move.
  pairs = load_task("sample").split("test")
  each = tables.PairSet("sample", None)
  each.sides = ([*pairs.sentences_a, ""], [*pairs.sentences_b, "A man is eating."])
  corpus = [*each.sentences] * 2
  encoder = SentenceEncoder.from_pretrained("static:mini")
  distill(encoder, tmp_path / "plain", show_progress=False)
  embed = tables.make_embed(str(tmp_path / "plain"), None)
  found = {row[:2]: row[2] for row in tables.rows_of(embed, [each], {tables._CORPUS: corpus, tables._TRAIN: corpus})}
  assert found["mean", tables._TRAIN] == [None]  # which is for STS-B alone
  for calibration in ("none", "mean"):
    folder = tmp_path / calibration
    settings = {} if calibration == "none" else {"calibration": calibration, "sentences": corpus}
    plain = SentenceEncoder.from_pretrained(f"static:{tmp_path / 'plain'}")
    written = distill(plain, folder, show_progress=False, **settings)
    first, second = (written.encode(list(side)) for side in each.sides)
    on = "" if calibration == "none" else tables._CORPUS
    (values,) = found[calibration, on]
    np.testing.assert_allclose(values, each.values(first, second), atol=1e-5)
    assert values[-1] == 0
