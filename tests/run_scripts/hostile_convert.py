"""Command lines of run_convert, good and bad, run in one process.

Run as a module with a folder to work in, it prints the results as JSON; see `command_lines.run_all`.
"""

import json
import pathlib
import sys

import numpy as np

from tests.run_scripts.command_lines import run_all

# {name: (dim, config, permutation)}; the encoder has 12 dimensions.
FLOWS = {
  "flow": (12, {"n_levels": 2, "depth": 1, "coupling_width": 5}, "reverse"),
  "low": (12, {"n_levels": 1, "depth": 2, "coupling_width": 3, "coupling": "affine", "activation": "gatu"}, "random"),
  "wide": (24, {"n_levels": 1, "depth": 1, "coupling_width": 4, "permutation": False}, "reverse"),
}
COMMIT = "c0ffee" * 6 + "0000"
STEP = "bert/flow/revnet_0/revnet_step_0"
CENTER = "actnorm/actnorm_center/b"


def flow_variables(name):
  """Returns {name: array} of a flow below bert/flow/, with random trainable weights."""
  from bert_flow_tf import FlowConfig, Glow
  from tests.flow import cases

  dim, config, permutation = FLOWS[name]
  flow = cases.randomize(Glow(FlowConfig(**config), dim, "glorot", permutation, seed=1), seed=2)
  return {f"bert/flow/{name}": array for name, array in flow.tf1_variables().items()}


def encoder_variables(pooler=True):
  """Returns {name: array} of an encoder with 2 blocks."""
  from tests.encoder import tf1_files, tiny

  return tf1_files.google_variables(tiny.random_weights({**tiny.CONFIG, "num_hidden_layers": 2}, pooler=pooler))


def google(folder, variables=None, vocabulary=None, checkpoint="model.ckpt-1", write=None):
  """Writes Google's folder of that encoder and returns it."""
  from tests.encoder import tf1_files

  variables = encoder_variables() if variables is None else variables
  config = {**tf1_files.GOOGLE_CONFIG, "num_hidden_layers": 2}
  return tf1_files.write_google(folder, variables, config, vocabulary, checkpoint, write or tf1_files.write_quickly)


def classifier(dim=12):
  """Returns {name: array} of a classifier with 3 labels."""
  return {"loss/output_weights": np.random.default_rng(5).normal(size=[3, 3 * dim]).astype(np.float32)}


def everything():
  """Returns {name: array} of encoder, flow and classifier."""
  return {**encoder_variables(), **flow_variables("flow"), **classifier()}


def checkpoints():
  """Returns {name: variables} of every checkpoint that is written."""
  from tests.encoder import tf1_files

  encoder, flow = encoder_variables(), flow_variables("flow")
  complete = everything()
  step = {"global_step": np.array(1234, np.int64)}
  return {
    "all/model.ckpt-1234": {**complete, **tf1_files.adam_slots(complete), **step},
    "bare/model.ckpt-7": {**encoder, **flow},
    "heads/bert_model.ckpt": {**encoder, **tf1_files.pretraining_heads()},
    # low_dim=6, which the classifier alone shows: the flow keeps all 12 dimensions.
    "low/model.ckpt-1": {**encoder_variables(pooler=False), **flow_variables("low"), **classifier(6)},
    "wide/model.ckpt-1": {**encoder, **flow_variables("wide"), **tf1_files.tensorflow_adam(encoder)},
    "more/model.ckpt-1": {
      **complete,
      "bert/extra": np.zeros(3, np.float32),
      "bert/gone/adam_m": np.zeros(3, np.float32),
    },
    "lessflow/model.ckpt-1": {name: array for name, array in complete.items() if name != f"{STEP}/{CENTER}"},
    "moreflow/model.ckpt-1": {**complete, f"{STEP}/extra": np.zeros(2, np.float32)},
    "nan/model.ckpt-1": {**complete, "loss/output_weights": np.full([3, 36], np.nan, np.float32)},
    "turned/model.ckpt-1": {**complete, "loss/output_weights": np.zeros([36, 4], np.float32)},
    "noencoder/model.ckpt-1": flow,
  }


def write(folder):
  """Writes the checkpoints, each with bert_config.json and vocab.txt, and other files of the command lines."""
  from bert_flow_tf import SentenceEncoder
  from bert_flow_tf.calibration.names import make_calibration
  from bert_flow_tf.training.objectives import Classifier
  from tests.encoder import tf1_files, tiny

  lower = [piece for piece in tiny.VOCABULARY if piece != "Dog"]
  for name, variables in checkpoints().items():
    prefix = folder / name
    save = tf1_files.write_checkpoint if name == "all/model.ckpt-1234" else tf1_files.write_quickly
    google(prefix.parent, variables, lower, prefix.name, save)
  google(folder / "cased_L-2_H-12_A-3", checkpoint="bert_model.ckpt")
  hub = folder / "hub/models--someone--tiny"
  (hub / "refs").mkdir(parents=True)
  (hub / "refs/v1").write_text(COMMIT)
  tiny.save_tiny(hub / "snapshots" / COMMIT)
  (folder / "empty").mkdir()
  (folder / "taken").mkdir()
  (folder / "taken/notes.txt").write_text("mine")
  (folder / "flow.json").write_text(json.dumps({**FLOWS["flow"][1], "coupling_dropout": 0.1}))
  (folder / "otherflow.json").write_text(json.dumps({**FLOWS["flow"][1], "depth": 2, "coupling_width": 7}))
  identity = SentenceEncoder.from_pretrained(hub / "snapshots" / COMMIT).identity("avg-first-last", 16).to_dict()
  Classifier(np.ones([3, 36], np.float32), "abc", identity).save(folder / "other_classifier")
  make_calibration("mean").fit(np.random.default_rng(0).normal(size=[9, 12])).save(folder / "mean")


def read_flags(folder, checkpoint, output_dir, *flags):
  """Returns the flags that convert a checkpoint to folders."""
  return [
    f"--tf1_checkpoint={folder}/{checkpoint}",
    f"--output_dir={folder}/{output_dir}",
    "--max_seq_length=16",
    *flags,
  ]


def good(folder):
  """Returns {name: flags} of command lines that work, in their order."""

  def read(checkpoint, name, *flags):
    return read_flags(folder, checkpoint, f"to/{name}", *flags)

  def write_back(name, checkpoint, *parts):
    flag_names = {"encoder": "encoder", "flow": "flow_folder", "classifier": "classifier_folder"}
    flags = [f"--{flag_names[part]}={folder}/to/{name}/{part}" for part in ("encoder", *parts)]
    return [*flags, f"--output_checkpoint={folder}/back/{checkpoint}"]

  elsewhere = [f"--bert_config_file={folder}/all/bert_config.json", f"--vocab_file={folder}/all/vocab.txt"]
  return {
    "all": read("all/model.ckpt-1234", "all", f"--flow_model_config={folder}/flow.json"),
    "all back": write_back("all", "all/model.ckpt-1234", "flow", "classifier"),
    "index": read("bare/model.ckpt-7.index", "bare", *elsewhere, "--sentence_embedding_type=cls"),
    "bare back": write_back("bare", "bare/model.ckpt-7", "flow"),
    "heads": read("heads", "heads", "--nodo_lower_case"),
    "heads back": write_back("heads", "heads/bert_model.ckpt"),
    "low_dim, no pooler": read("low", "low"),
    "low_dim back": write_back("low", "low/model.ckpt-1", "flow", "classifier"),
    "wide": read("wide", "wide", "--sentence_embedding_type=concat-top-2"),
    "wide back": write_back("wide", "wide/model.ckpt-1", "flow"),
    "cased": read("cased_L-2_H-12_A-3", "cased"),
    "other encoder": read("wide", "other", "--allow_other_encoder"),
    "a revision of the hub's back": [
      *("--encoder=someone/tiny", "--model_revision=v1", f"--model_cache_dir={folder}/hub"),
      f"--output_checkpoint={folder}/back/hub/model.ckpt",
    ],
    "into an empty folder": [f"--tf1_checkpoint={folder}/heads", f"--output_dir={folder}/empty"],
    "other encoder back": [
      *(f"--encoder={folder}/to/low/encoder", f"--flow_folder={folder}/to/all/flow", "--allow_other_encoder"),
      f"--output_checkpoint={folder}/back/other/model.ckpt",
    ],
  }


def bad(folder):
  """Returns {name: (flags, text in the error)} of command lines that fail; they are run after the good ones."""

  def read(checkpoint, *flags, output_dir="never"):
    return read_flags(folder, checkpoint, output_dir, *flags)

  def write_back(*flags, encoder="to/all/encoder", output="back/never/model.ckpt"):
    return [f"--encoder={folder}/{encoder}", f"--output_checkpoint={folder}/{output}", *flags]

  low_as_cls = read("low", "--sentence_embedding_type=cls", output_dir="never_cls")
  return {
    "nothing": ([], "--tf1_checkpoint"),
    "no output_dir": ([f"--tf1_checkpoint={folder}/all"], "--output_dir"),
    "no encoder": ([f"--output_checkpoint={folder}/x"], "--encoder"),
    "empty flag": (["--tf1_checkpoint=", "--output_dir=x"], "--tf1_checkpoint"),
    "both directions": (read("all", "--encoder=mini"), "--encoder"),
    "both directions back": (write_back("--vocab_file=x"), "--vocab_file"),
    "absent": (read("absent/model.ckpt-1"), "error: --tf1_checkpoint"),
    "no checkpoint": (read("taken"), "taken"),
    "no config": (read("all", f"--bert_config_file={folder}/absent"), "--bert_config_file"),
    "no vocabulary": (read("all", f"--vocab_file={folder}/absent"), "--vocab_file"),
    "two unknown variables": (read("more"), "bert/extra, bert/gone/adam_m"),
    "a flow variable less": (read("lessflow"), f"revnet_0/revnet_step_0/{CENTER}"),
    "a flow variable more": (read("moreflow"), "revnet_0/revnet_step_0/extra"),
    "no encoder in it": (read("noencoder"), "bert/embeddings/LayerNorm/beta, "),
    "nan": (read("nan"), "loss/output_weights"),
    "classifier of another shape": (read("turned"), "output_weights"),
    "another flow config": (read("all", f"--flow_model_config={folder}/otherflow.json"), "--flow_model_config"),
    "no such flow config": (read("all", "--flow_model_config=absent"), "absent"),
    "a flow config and no flow": (read("heads", f"--flow_model_config={folder}/flow.json"), "--flow_model_config"),
    "labels for no classifier": (read("heads", "--labels=a,b"), "--labels"),
    "two labels for three": (read("all", "--labels=a,b"), "labels"),
    "another pooling": (read("wide"), "--sentence_embedding_type"),
    "another low_dim": (read("low", "--low_dim=4"), "--sentence_embedding_type"),
    "no such pooling": (read("all", "--sentence_embedding_type=median"), "sentence_embedding_type"),
    "cls without pooler": (low_as_cls, "sentence_embedding_type"),
    "too long": (read("all", "--max_seq_length=17"), "max_seq_length"),
    "output taken": (read("all", output_dir="taken"), "--output_dir"),
    "output below a file": (read("all", output_dir="flow.json/x"), "flow.json"),
    "checkpoint taken": (write_back(output="back/all/model.ckpt-1234"), "--output_checkpoint"),
    "checkpoint is a folder": (write_back(output="back"), "--output_checkpoint"),
    "folder of another model": (
      write_back(encoder="to/cased/encoder", output="back/all/model.ckpt-2"),
      "--output_checkpoint",
    ),
    "no such encoder": (write_back(encoder="absent"), "error: --encoder"),
    "a revision of a folder": (write_back("--model_revision=v1"), "--model_revision=v1"),
    "a revision of a checkpoint": (read("all", "--model_revision=v1"), "--model_revision"),
    "no such flow": (write_back(f"--flow_folder={folder}/absent"), "error: --flow_folder"),
    "not a flow": (write_back(f"--flow_folder={folder}/mean"), "mean"),
    "another classifier": (write_back(f"--classifier_folder={folder}/other_classifier"), "--classifier_folder"),
    "not a classifier": (write_back(f"--classifier_folder={folder}/mean"), "error: --classifier_folder"),
    "a flow of another encoder": (
      write_back(f"--flow_folder={folder}/to/all/flow", encoder="to/low/encoder"),
      "--flow_folder",
    ),
    "below a file": (write_back(output="flow.json/x/model.ckpt"), "flow.json"),
  }


def main(folder):
  """Runs every case."""
  from run_scripts import run_convert

  folder = pathlib.Path(folder)
  write(folder)
  run_convert.define_flags()
  rejected = {name: flags for name, (flags, _) in bad(folder).items()}
  print(json.dumps(run_all(run_convert.main, {**good(folder), **rejected})))


if __name__ == "__main__":
  main(sys.argv[1])
