"""What several tests share: one export of `mini` and one of a tiny encoder, and the process that serves both."""

import atexit
import dataclasses
import functools
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import pytest

from tests.testing import REPO

for package in ("tensorflow_text", "tensorflow_serving", "grpc"):
  # Looked for and not imported: bert_flow_tf must come before what uses Keras.
  if importlib.util.find_spec(package) is None:
    pytest.skip(f"{package} is not installed: pip install 'bert-flow-tf[serving]'", allow_module_level=True)

from bert_flow_tf import FlowConfig, Glow, SentenceEncoder  # noqa: E402
from bert_flow_tf.calibration.spec import make_calibration  # noqa: E402
from bert_flow_tf.data.features import pad_batch  # noqa: E402
from bert_flow_tf.serving.export import export_model  # noqa: E402
from tests.encoder import tiny  # noqa: E402

NAME = "bert_flow"
TEXTS = [
  "A man is playing a guitar.",
  "",
  "word " * 500,
  "Crème brûlée — 東京, ΟΔΟΣ; don't [MASK] it!\t\x00\u200b\ue000",
  *(f"The number {i} is {'very ' * (i % 9)}large." for i in range(60)),
]
INVALID = [b"caf\xe9 is \xff\xfe open", b"\xed\xa0\x80 lone", b"\xf0\x9f\x98"]


@dataclasses.dataclass
class Served:
  """Exports, their Python models, and the answers of the process that knows neither."""

  base: pathlib.Path
  encoder: SentenceEncoder
  flow: Glow
  tiny_encoder: SentenceEncoder
  whitening: object
  ids: list
  seen: dict
  answers: dict

  @property
  def server(self):
    """HOST:PORT."""
    return f"localhost:{self.seen['port']}"


def random_flow(embeddings, **config):
  """A flow initialised from embeddings, its other weights random: no layer is the identity."""
  flow = Glow(FlowConfig.from_dict({**FlowConfig().to_dict(), **config}), dim=embeddings.shape[1], seed=1)
  flow.initialize(embeddings)
  rng = np.random.default_rng(2)
  for weight in flow.trainable_weights:
    weight.assign_add(rng.normal(0, 0.03, weight.shape).astype(np.float32))
  return flow


def text(sentences):
  """Sentences, or bytes, as an input of `tf_only`."""
  return {"bytes": [list(one if isinstance(one, bytes) else one.encode()) for one in sentences]}


def array(values):
  """An array as an input of `tf_only`."""
  return {"array": values.ravel().tolist(), "dtype": values.dtype.name, "shape": list(values.shape)}


def padded_as_the_server_does(batches):
  """Joins batches of different width: each tensor is padded with its own first element."""
  width = max(batch.shape[1] for batch in batches)
  rows = [np.pad(batch, [[0, 0], [0, width - batch.shape[1]]], constant_values=batch[0, 0]) for batch in batches]
  return np.concatenate(rows)


def _requests(ids, dim):
  one_by_one = {f"one {i}": (1, "serving_default", {"text": text([TEXTS[i]])}) for i in (0, 1, 2, 3, 40)}
  nothing = {
    f"no {name}": (1, name, {key: text([]) for key in keys})
    for name, keys in {
      "serving_default": ["text"],
      "embed_pooled": ["text"],
      "similarity": ["text_a", "text_b"],
      "log_prob": ["text"],
    }.items()
  }
  nothing["no embed_ids"] = (
    1,
    "embed_ids",
    {"ids": array(np.zeros([0, 0], np.int32)), "lengths": array(np.zeros([0], np.int32))},
  )
  nothing["no inverse"] = (1, "inverse", {"latent": array(np.zeros([0, dim], np.float32))})
  batches = [pad_batch(ids[:3])[0], pad_batch(ids[4:9])[0]]
  lengths = np.array([len(row) for row in [*ids[:3], *ids[4:9]]], np.int32)
  latent = np.random.default_rng(3).normal(size=[5, dim]).astype(np.float32)
  return {
    "all": (1, "serving_default", {"text": text(TEXTS)}),
    "pooled": (1, "embed_pooled", {"text": text(TEXTS)}),
    "similarity": (1, "similarity", {"text_a": text(TEXTS), "text_b": text(TEXTS[::-1])}),
    "log_prob": (1, "log_prob", {"text": text(TEXTS)}),
    "inverse": (1, "inverse", {"latent": array(latent)}),
    "invalid": (1, "serving_default", {"text": text(INVALID)}),
    "padded ids": (1, "embed_ids", {"ids": array(padded_as_the_server_does(batches)), "lengths": array(lengths)}),
    "tiny": (7, "serving_default", {"text": text(["a dog", "cats b", ""])}),
    "no tiny": (7, "serving_default", {"text": text([])}),
    **one_by_one,
    **nothing,
  }


@functools.cache
def served():
  """Exports version 1, `mini` with a flow, and 7, a tiny BERT in bfloat16 with a whitening and unit length."""
  folder = pathlib.Path(tempfile.mkdtemp(prefix="bert_flow_served_"))
  atexit.register(shutil.rmtree, folder, ignore_errors=True)
  base = folder / NAME
  encoder = SentenceEncoder.from_pretrained("mini")
  flow = random_flow(encoder.encode(TEXTS, show_progress=False))
  export_model(encoder, flow, base, about={"origin": {"folder": "exp/NAME/flow"}})
  small = SentenceEncoder.from_pretrained(str(tiny.save_tiny(folder / "tiny")))
  sentences = [" ".join(np.random.default_rng(i).choice(["a", "b", "dog", "cat"], 5)) for i in range(60)]
  whitening = make_calibration("whitening-4").fit(small.encode(sentences, max_seq_length=16, show_progress=False))
  export_model(small, whitening, base, version=7, max_seq_length=16, normalize=True, weights_dtype="bfloat16", about={})
  ids = encoder.tokenizer(TEXTS)
  (folder / "requests.json").write_text(json.dumps(_requests(ids, flow.dim)))
  command = [sys.executable, str(REPO / "tests/export/tf_only.py"), base, NAME, folder / "requests.json"]
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
    found = dict(answers)
  return Served(base, encoder, flow, small, whitening, ids, json.loads(line), found)
