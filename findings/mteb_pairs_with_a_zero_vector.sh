#!/usr/bin/env bash
# Guess: mteb's main score of an STS task takes a pair with an embedding of zeros as the model's own similarity does: 0.
# Truth: `cosine_spearman`, the main score, is of scikit-learn's paired distances, where such a pair has .5, as much as one with
#        half its words in common; `spearman`, next to it, is of the model's similarity.
# Why it matters: static models give zeros for texts without a known word. A few such pairs decide the score; SentEval and
#        sentence-transformers' evaluator count them as 0.
# Versions: mteb 2.26.24, sentence-transformers 6.2.0, scikit-learn 1.9.1, torch 2.13.0, NumPy 2.4.6. Seen on 2026-11-28.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check mteb==2.26.24 sentence-transformers==6.2.0 scikit-learn==1.9.1 torch==2.13.0 \
  datasets==5.2.0 tokenizers==0.23.3 numpy==2.4.6

HF_HUB_OFFLINE=1 MTEB_CACHE=$folder/mteb venv/bin/python 2> log.txt > seen.txt << 'END' || { cat log.txt >&2; exit 1; }
import mteb
import numpy as np
from datasets import Dataset, DatasetDict
from mteb.abstasks.sts import AbsTaskSTS
from mteb.abstasks.task_metadata import TaskMetadata
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.evaluation import EmbeddingSimilarityEvaluator
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Tokenizer, models, pre_tokenizers

print("mteb", mteb.__version__)
PAIRS = {  # cosines 0 (no known word), 1, .89, .5, .32
  "sentence1": ["xyz", "cat", "cat cat dog", "cat dog", "cat"],
  "sentence2": ["cat", "cat", "cat", "dog bird", "cat bird bird bird"],
  "score": [0.0, 5.0, 4.0, 2.0, 1.0],
}
about = {field for field, value in TaskMetadata.model_fields.items() if not value.is_required()}
about &= {"date", "domains", "task_subtypes", "license", "annotations_creators", "dialect"}


class Pairs(AbsTaskSTS):
  metadata = TaskMetadata(
    **dict.fromkeys(about),
    name="Pairs",
    description="pairs",
    dataset={"path": "none/none", "revision": "none"},
    type="STS",
    category="t2t",
    modalities=["text"],
    eval_splits=["test"],
    eval_langs=["eng-Latn"],
    main_score="cosine_spearman",
  )

  def load_data(self, **unused):
    self.dataset, self.data_loaded = DatasetDict(test=Dataset.from_dict(PAIRS)), True


words = ["[UNK]", "cat", "dog", "bird"]
tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="[UNK]"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
rows = np.eye(len(words), dtype=np.float32)
rows[0] = 0
model = SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_weights=rows)], device="cpu")
result = mteb.evaluate(model, [Pairs()], cache=None, show_progress_bar=False).task_results[0].scores["test"][0]
for name in ("main_score", "cosine_spearman", "spearman"):
  print(name, round(100 * result[name]))
evaluator = EmbeddingSimilarityEvaluator(*PAIRS.values(), write_csv=False)
print("EmbeddingSimilarityEvaluator", round(100 * evaluator(model)["spearman_cosine"]))
print("main score of SICK-R, STS12:", *(mteb.get_task(name).metadata.main_score for name in ("SICK-R", "STS12")))
END
cat seen.txt

diff - seen.txt << 'END' || { echo "mteb_pairs_with_a_zero_vector.sh: the behavior has changed: < seen on 2026-11-28, > seen now" >&2; exit 1; }
mteb 2.26.24
main_score 82
cosine_spearman 82
spearman 100
EmbeddingSimilarityEvaluator 100
main score of SICK-R, STS12: cosine_spearman cosine_spearman
END
