"""Two exported versions, `mini` with a flow and a tiny encoder with a whitening, and a process that serves both."""

import atexit
import dataclasses
import functools
import importlib.util
import json
import os
import pathlib
import pickle
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import pytest

from tests.testing import REPO

for package in ("tensorflow_text", "tensorflow_serving", "grpc"):
  # Not imported: to look for it is quicker.
  if importlib.util.find_spec(package) is None:
    pytest.skip(f"{package} is not installed: pip install '.[serving]'", allow_module_level=True)

from bert_flow_tf import FlowConfig, Glow, SentenceEncoder, SentenceModel  # noqa: E402
from bert_flow_tf.calibration.names import make_calibration  # noqa: E402
from bert_flow_tf.encoder.text.word_piece import pad_batch  # noqa: E402
from bert_flow_tf.serving.export import export_model  # noqa: E402
from bert_flow_tf.serving.served_model import MAX_ROWS  # noqa: E402
from bert_flow_tf.serving.signatures import SIGNATURES, signatures_of  # noqa: E402
from tests.encoder import tiny  # noqa: E402

import tensorflow as tf  # noqa: E402 # isort: skip

NAME = "bert_flow"
TABLE = signatures_of(SIGNATURES, has_flow=True)  # of models whose texts have no roles
TEXTS = [
  "A man is playing a guitar.",
  "",
  "word " * 500,
  "Crème brûlée — 東京, ΟΔΟΣ; don't [MASK] it!\t\x00\u200b\ue000",
  *(f"The number {i} is {'very ' * (i % 9)}large." for i in range(60)),
]
# More than version 7 computes at once.
MANY = [" ".join(["a", "b", "dog", "cats"][: i % 5] * (i % 3)) for i in range(2 * 1024 + 3)]
INVALID = [b"caf\xe9 is \xff\xfe open", b"\xed\xa0\x80 lone", b"\xf0\x9f\x98"]


@dataclasses.dataclass
class Served:
  """Exported versions, their models in Python, and the answers of the process that has no project code."""

  base: pathlib.Path
  model: SentenceModel  # of version 1
  tiny: SentenceModel  # of version 7
  seen: dict  # what the process printed; see `tf_only`
  answers: dict  # {"REQUEST/OUTPUT": array}

  @property
  def server(self):
    """Returns HOST:PORT."""
    return f"localhost:{self.seen['port']}"


def random_flow(embeddings, config=None):
  """Returns a flow initialized from embeddings, with random other weights, so that no layer is the identity."""
  flow = Glow(config or FlowConfig(), dim=embeddings.shape[1], seed=1)
  flow.initialize(embeddings)
  rng = np.random.default_rng(2)
  for weight in flow.trainable_weights:
    weight.assign_add(rng.normal(0, 0.03, weight.shape).astype(np.float32))
  return flow


def close(actual, expected, tolerance=1e-5):
  """Asserts a difference of at most `tolerance`, relative to the largest value."""
  np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * np.abs(expected).max())


def example(sentence):
  """Returns a serialized tf.Example with a text, as TFX has them."""
  feature = tf.train.Feature(bytes_list=tf.train.BytesList(value=[sentence.encode()]))
  return tf.train.Example(features=tf.train.Features(feature={"text": feature})).SerializeToString()


def padded_as_the_server_does(batches):
  """Joins batches of different widths, each padded with its own first element."""
  width = max(batch.shape[1] for batch in batches)
  rows = [np.pad(batch, [[0, 0], [0, width - batch.shape[1]]], constant_values=batch[0, 0]) for batch in batches]
  return np.concatenate(rows)


def rejected():
  """Returns {name: (version, signature, inputs)} of requests with inputs of different lengths, or impossible ones."""
  cases = {}
  for version in (1, 7):
    for a, b in ((3, 1), (1, 3), (2, 0), (0, 2)):
      texts = {"text_a": ["a dog"] * a, "text_b": ["a"] * b}
      cases[f"similarity {version} {a} {b}"] = version, "similarity", texts
    ids = [[2, 2]] * 3
    cases[f"embed_ids {version}"] = version, "embed_ids", {"ids": ids, "lengths": [2]}
    for length in (-1, 0, 3):
      cases[f"embed_ids {version} length {length}"] = version, "embed_ids", {"ids": ids, "lengths": [2, 1, length]}
  cases["text in place of a tf.Example"] = (1, "embed_examples", {"examples": ["A man plays."]})
  cases["too many rows"] = (7, "serving_default", {"text": [""] * (MAX_ROWS + 1)})
  return cases


def requests(ids, dim):
  """Returns {name: (version, signature, inputs)} of the requests that the process answers."""
  fixed_rows = [*ids[:3], *ids[4:9]]
  fixed = np.zeros([8, 64], np.int32)
  for row, tokens in zip(fixed, fixed_rows, strict=True):
    row[: len(tokens)] = tokens
  padded = padded_as_the_server_does([pad_batch(ids[:3])[0], pad_batch(ids[4:9])[0]])
  lengths = [len(row) for row in fixed_rows]
  few = {"ids": np.arange(32).reshape(2, 16) % 8, "lengths": [9, 2]}
  latent = np.random.default_rng(3).normal(size=[5, dim]).astype(np.float32)
  sizes = {"dim": dim, "latent_dim": dim, "max_seq_length": 64}
  return {
    "all": (1, "serving_default", {"text": TEXTS}),
    "pooled": (1, "embed_pooled", {"text": TEXTS}),
    "similarity": (1, "similarity", {"text_a": TEXTS, "text_b": TEXTS[::-1]}),
    "log_prob": (1, "log_prob", {"text": TEXTS}),
    "inverse": (1, "inverse", {"latent": latent}),
    "invalid": (1, "serving_default", {"text": INVALID}),
    "padded ids": (1, "embed_ids", {"ids": padded, "lengths": lengths}),
    "fixed ids": (1, "embed_ids_fixed", {"ids": fixed, "lengths": lengths}),
    "examples": (1, "embed_examples", {"examples": [example(text) for text in TEXTS]}),
    **{f"tiny {name}": (7, name, few) for name in ("embed_ids", "embed_ids_fixed")},
    "tiny": (7, "serving_default", {"text": ["a dog", "cats b", ""]}),
    "one part": (7, "similarity", {"text_a": MANY[:15], "text_b": MANY[:-16:-1]}),
    "parts": (7, "similarity", {"text_a": MANY, "text_b": MANY[::-1]}),
    "empty tiny": (7, "serving_default", {"text": []}),
    "one pair": (7, "similarity", {"text_a": ["a dog"], "text_b": ["a dog"]}),
    **{f"one {i}": (1, "serving_default", {"text": [TEXTS[i]]}) for i in (0, 1, 2, 3, 40)},
    **{f"empty {name}": (1, name, signature.example_inputs(0, sizes)) for name, signature in TABLE.items()},
    **rejected(),
  }


@functools.cache
def served():
  """Exports version 1, `mini` with a flow, and 7, a tiny BERT with a whitening and unit length."""
  folder = pathlib.Path(tempfile.mkdtemp(prefix="bert_flow_served_"))
  atexit.register(shutil.rmtree, folder, ignore_errors=True)
  base = folder / NAME
  encoder = SentenceEncoder.from_pretrained("mini")
  model = SentenceModel(encoder, random_flow(encoder.encode(TEXTS, show_progress=False)))
  export_model(model, base, about={"origin": {"folder": "exp/NAME/flow"}})
  small = SentenceEncoder.from_pretrained(str(tiny.save_tiny(folder / "tiny")))
  sentences = [" ".join(np.random.default_rng(i).choice(["a", "b", "dog", "cat"], 5)) for i in range(60)]
  whitening = make_calibration("whitening-4").fit(small.encode(sentences, max_seq_length=16, show_progress=False))
  tiny_model = SentenceModel(small, whitening, max_seq_length=16)
  export_model(tiny_model, base, version=7, normalize=True)
  dim = model.calibration.output_dim
  (folder / "requests").write_bytes(pickle.dumps(requests(encoder.tokenizer(TEXTS), dim)))
  command = [sys.executable, REPO / "tests/serving/tf_only.py", base, NAME, folder / "requests"]
  environment = {name: value for name, value in os.environ.items() if name != "TF_USE_LEGACY_KERAS"}
  process = subprocess.Popen(
    [*map(str, command), str(folder / "answers.npz")],
    cwd=folder,
    env={**environment, "CUDA_VISIBLE_DEVICES": "-1"},
    stdin=subprocess.PIPE,
    stdout=subprocess.PIPE,
    stderr=open(folder / "stderr", "w"),  # noqa: SIM115 (for as long as the process)
    text=True,
  )
  atexit.register(process.kill)
  line = process.stdout.readline()
  assert line, (folder / "stderr").read_text()[-4000:]
  with np.load(folder / "answers.npz") as answers:
    return Served(base, model, tiny_model, json.loads(line), dict(answers))
