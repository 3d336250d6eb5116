"""TensorFlow 1 checkpoints for tests, and Google's names of a tiny BERT's weights."""

import json

import numpy as np
import tensorflow as tf

from tests.encoder import tiny

GOOGLE_CONFIG = {key: value for key, value in tiny.CONFIG.items() if key not in ("model_type", "layer_norm_eps")}
GOOGLE_CONFIG |= {"attention_probs_dropout_prob": 0.1, "hidden_dropout_prob": 0.1, "initializer_range": 0.02}
NAMES = {"weight": "kernel", "bias": "bias"}


def google_variables(weights=None):
  """Returns {Google's name: array} of `tiny.random_weights`, whose names are PyTorch's."""
  variables = {}
  for name, array in (tiny.random_weights() if weights is None else weights).items():
    parts = name.split(".")
    if "LayerNorm" in parts:
      parts[-1] = {"weight": "gamma", "bias": "beta"}[parts[-1]]
    elif parts[-2].endswith("_embeddings"):
      parts.pop()
    elif parts[0] == "bert":
      parts[-1] = NAMES[parts[-1]]
      array = array.T
    joined = "/".join(parts).replace("encoder/layer/", "encoder/layer_")
    variables[joined] = np.ascontiguousarray(array)
  return variables


def pretraining_heads():
  """Returns the variables of masked words and next sentence in Google's checkpoints."""
  rng = np.random.default_rng(3)
  shapes = {
    "cls/predictions/output_bias": [24],
    "cls/predictions/transform/dense/kernel": [12, 12],
    "cls/predictions/transform/dense/bias": [12],
    "cls/predictions/transform/LayerNorm/gamma": [12],
    "cls/predictions/transform/LayerNorm/beta": [12],
    "cls/seq_relationship/output_weights": [2, 12],
    "cls/seq_relationship/output_bias": [2],
  }
  return {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def adam_slots(variables, names=("adam_m", "adam_v")):
  """Returns Adam's two moments of every variable under the names of BERT's optimizer."""
  return {f"{name}/{slot}": array * 0.5 for name, array in variables.items() for slot in names}


def tensorflow_adam(variables):
  """Returns the variables that `tf.compat.v1.train.AdamOptimizer` adds to a checkpoint."""
  powers = {f"beta{number}_power": np.array(0.5, np.float32) for number in (1, 2)}
  return {**adam_slots(variables, ("Adam", "Adam_1")), **powers}


def write_quickly(prefix, variables):
  """Saves variables with the operation of TensorFlow 1's Saver, but without a graph."""
  prefix.parent.mkdir(parents=True, exist_ok=True)
  names = list(variables)
  tf.raw_ops.SaveV2(
    prefix=str(prefix),
    tensor_names=names,
    shape_and_slices=[""] * len(names),
    tensors=[tf.constant(variables[name]) for name in names],
  )
  return prefix


def write_checkpoint(prefix, variables):
  """Saves variables by TensorFlow 1's Saver."""
  prefix.parent.mkdir(parents=True, exist_ok=True)
  with tf.Graph().as_default(), tf.compat.v1.Session() as session:
    for name, array in variables.items():
      tf.compat.v1.get_variable(name, initializer=array)
    session.run(tf.compat.v1.global_variables_initializer())
    tf.compat.v1.train.Saver().save(session, str(prefix), write_meta_graph=False, write_state=False)
  return prefix


def write_google(
  folder, variables=None, config=None, vocabulary=None, checkpoint="bert_model.ckpt", write=write_quickly
):
  """Writes a folder as Google's: bert_config.json, vocab.txt and a checkpoint."""
  folder.mkdir(parents=True, exist_ok=True)
  (folder / "bert_config.json").write_text(json.dumps(GOOGLE_CONFIG if config is None else config))
  pieces = tiny.VOCABULARY if vocabulary is None else vocabulary
  (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces))
  write(folder / checkpoint, google_variables() if variables is None else variables)
  return folder


def read_all(prefix):
  """Returns {name: array} of a checkpoint, read by TensorFlow."""
  reader = tf.train.load_checkpoint(str(prefix))
  return {name: np.asarray(reader.get_tensor(name)) for name in reader.get_variable_to_shape_map()}
