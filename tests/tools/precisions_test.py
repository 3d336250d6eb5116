"""tools/precisions.py: the scores of a precision, and how they differ from the first one's."""

import re

import pytest
from scipy import stats

from bert_flow_tf import SentenceModel, load_task
from tools import precisions


@pytest.mark.slow
def test_scores_and_their_differences(tmp_path, monkeypatch, capsys):
  monkeypatch.chdir(tmp_path)
  for name, value in (("_TASKS", ("sample",)), ("_EMBEDDINGS", (("avg", None),)), ("_FITS", {"whitening": [{}]})):
    monkeypatch.setattr(precisions, name, value)
  precisions.main(str(tmp_path), "mini", ["float32", "int8"])
  *batches, _, _, _, whole, rounded = capsys.readouterr().out.splitlines()
  assert "| float32 | 0 |" in "\n".join(batches)

  task = load_task("sample")
  pairs = task.splits["test"]
  sides = [
    [text for part in task.splits.values() for text in getattr(part, side)] for side in ("sentences_a", "sentences_b")
  ]
  scores = []
  for precision in ("float32", "int8"):
    model = SentenceModel.from_pretrained("mini", sentence_embedding_type="avg", precision=precision)
    model.fit(tuple(sides), calibration="whitening", show_progress=False)
    scores.append(100 * stats.spearmanr(model.similarity(pairs.sentences_a, pairs.sentences_b), pairs.scores)[0])
  shown = [float(re.split(r" \| ", line)[2]) for line in (whole, rounded)]
  assert shown == pytest.approx([scores[0], scores[1] - scores[0]], abs=0.02)
