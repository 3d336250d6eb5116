"""Saves a model of each kind into tests/golden/models/VERSION, with the vectors and similarities that it computes.

Those of the model `search` are of queries. Needs the extra [openvino].

python -m tests.golden.save_models        run once for each release
"""

import pathlib
import tempfile
from typing import Any

import numpy as np

from bert_flow_tf import SentenceModel
from bert_flow_tf._version import __version__
from bert_flow_tf.flow import FlowConfig
from tests.encoder import tiny

_FOLDER = pathlib.Path(__file__).with_name("models")
_WORDS = ("a", "b", "dog", "dogs", "cat", "cats", "mask", ".")
_SENTENCES = [
  "a dog.",
  "cats",
  "dog b dogs",
  "",
  "a b a b .",
  "dog",
  "cats b",
  "b . a",
  "dogs dogs",
  "mask",
  "[ ]",
  "a",
]
_FITTED_ON, _QUERIES = 200, 20
# A flow of one step, whose file is small.
_FLOW = FlowConfig(coupling_width=4, n_levels=1, depth=1)
# {folder: calibration, arguments of `SentenceModel.from_pretrained` besides the name}
_KINDS: dict[str, tuple[str | None, dict[str, Any]]] = {
  "none": (None, {"low_dim": 4, "sentence_embedding_type": "avg-last-1", "precision": "bfloat16"}),
  "int8": (None, {"precision": "int8"}),
  "openvino": ("mean", {"precision": "bfloat16", "engine": "openvino"}),
  "prompt": ("mean", {"prompt": "a "}),
  "flow": ("flow", {"max_seq_length": 8}),
  "flow-of-mix": ("flow", {"sentence_embedding_type": "mix", "token_weights": "idf"}),
  "flow+soft-whitening": ("flow+soft-whitening", {}),
  "flow+characters-12": ("flow+characters-12", {"low_dim": 6}),
  "whitening-6": ("whitening-6", {"low_dim": 3}),
  "soft-whitening-of-mix": ("soft-whitening", {"sentence_embedding_type": "mix", "token_weights": "idf"}),
  "soft-whitening+characters-16": ("soft-whitening+characters-16", {}),
  "characters-16": ("characters-16", {}),
  "sn+natsv-2": ("sn+natsv-2", {}),
  "search": ("tempered-whitening", {}),
  "static-sn": ("sn", {}),
  "word-vectors-mean": ("mean", {}),
}


def save(folder: pathlib.Path) -> None:
  """Writes the models, `vectors.npz`, and `word_vectors.txt` to a folder."""
  rng = np.random.default_rng(0)
  folder.mkdir(parents=True)
  words = folder / "word_vectors.txt"
  words.write_text("".join(f"{word} {' '.join(map('{:.4f}'.format, rng.normal(size=6)))}\n" for word in _WORDS))
  corpus = [" ".join(rng.choice(_WORDS, size=rng.integers(1, 7))) for _ in range(_FITTED_ON)]
  queries = [f"{word} {text}" for word in ("cat", "mask") for text in corpus[:_QUERIES]]
  vectors = {"sentences": np.array(_SENTENCES)}
  with tempfile.TemporaryDirectory() as temporary:
    bert = tiny.save_tiny(pathlib.Path(temporary) / "bert")
    encoders = {"static-sn": f"static:{bert}", "word-vectors-mean": f"glove:{words}"}
    for kind, (calibration, arguments) in _KINDS.items():
      settings: dict[str, Any] = {}
      model = SentenceModel.from_pretrained(encoders.get(kind, str(bert)), **arguments)
      if calibration:
        if calibration.startswith("flow"):
          settings["flow_model_config"] = _FLOW
        if kind == "search":
          settings["queries"] = queries
        model.fit(corpus, calibration=calibration, show_progress=False, **settings)
      model.save(folder / kind)
      if kind == "search":
        model = model.for_queries()
      vectors[kind] = model.encode(_SENTENCES)
      vectors[f"{kind}/similarity"] = model.similarity(_SENTENCES, _SENTENCES[1:] + _SENTENCES[:1])
  np.savez_compressed(folder / "vectors.npz", **vectors)


if __name__ == "__main__":
  save(_FOLDER / __version__)
