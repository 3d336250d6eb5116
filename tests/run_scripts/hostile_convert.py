"""What run_convert says to command lines, good and bad, all in one process.

Run as a module with a folder to work in, it prints json as `hostile` does.
"""

import json
import pathlib
import sys

import numpy as np

from tests.run_scripts.command_lines import run_all

# Google's checkpoint as an encoder of 12 dimensions; the flow takes all of them, or 6 of low_dim.
FLOWS = {
  "flow": (12, {"n_levels": 2, "depth": 1, "coupling_width": 5}, "reverse"),
  "low": (6, {"n_levels": 1, "depth": 2, "coupling_width": 3, "coupling": "affine", "activation": "gatu"}, "random"),
  "wide": (24, {"n_levels": 1, "depth": 1, "coupling_width": 4, "permutation": False}, "reverse"),
}
STEP = "bert/flow/revnet_0/revnet_step_0"


def flow_variables(name):
  """{name: array} of a flow below bert/flow/, every trainable one random."""
  from bert_flow_tf import FlowConfig, Glow
  from tests.flow import cases

  dim, config, permutation = FLOWS[name]
  flow = cases.randomize(Glow(FlowConfig(**config), dim, "glorot", permutation, seed=1), seed=2)
  return {f"bert/flow/{name}": array for name, array in flow.tf1_variables().items()}


def encoder_variables(pooler=True):
  """{name: array} of an encoder of 2 blocks."""
  from tests.encoder import tf1_files, tiny

  return tf1_files.google_variables(tiny.random_weights({**tiny.CONFIG, "num_hidden_layers": 2}, pooler=pooler))


def google(folder, variables=None, vocabulary=None, checkpoint="model.ckpt-1", write=None):
  """A folder of that encoder."""
  from tests.encoder import tf1_files

  variables = encoder_variables() if variables is None else variables
  config = {**tf1_files.GOOGLE_CONFIG, "num_hidden_layers": 2}
  return tf1_files.write_google(folder, variables, config, vocabulary, checkpoint, write or tf1_files.write_quickly)


def classifier(dim=12):
  """The classifier's matrix for 3 labels."""
  return {"output_weights": np.random.default_rng(5).normal(size=[3, 3 * dim]).astype(np.float32)}


def everything():
  """{name: array} of encoder, flow and classifier."""
  return {**encoder_variables(), **flow_variables("flow"), **classifier()}


def checkpoints():
  """{name: variables} of every checkpoint that is written."""
  from tests.encoder import tf1_files

  encoder, flow = encoder_variables(), flow_variables("flow")
  complete = everything()
  heads = tf1_files.pretraining_heads()
  step = {"global_step": np.array(1234, np.int64)}
  without_pooler = encoder_variables(pooler=False)
  rest = {name: array for name, array in complete.items() if name != f"{STEP}/actnorm/actnorm_center/b"}
  key = "bert/encoder/layer_1/attention/self/key/bias"
  return {
    "all/model.ckpt-1234": {**complete, **tf1_files.adam_slots(complete), **step},
    "bare/model.ckpt-7": {**encoder, **flow},
    "heads/bert_model.ckpt": {**encoder, **heads},
    "low/model.ckpt-1": {**without_pooler, **flow_variables("low")},
    "wide/model.ckpt-1": {**encoder, **flow_variables("wide"), **tf1_files.tensorflow_adam(encoder)},
    "less/model.ckpt-1": {name: array for name, array in complete.items() if name != key},
    "more/model.ckpt-1": {**complete, "bert/extra": np.zeros(3, np.float32), "other": np.zeros(2, np.float32)},
    "lessflow/model.ckpt-1": rest,
    "moreflow/model.ckpt-1": {**complete, f"{STEP}/extra": np.zeros(2, np.float32)},
    "nostep/model.ckpt-1": {name: array for name, array in complete.items() if not name.startswith(STEP)},
    "orphan/model.ckpt-1": {**encoder, "bert/gone/adam_m": np.zeros(3, np.float32)},
    "nan/model.ckpt-1": {**complete, "output_weights": np.full([3, 36], np.nan, np.float32)},
    "turned/model.ckpt-1": {**complete, "output_weights": np.zeros([36, 4], np.float32)},
    "double/model.ckpt-1": {**complete, "output_weights": np.zeros([3, 36])},
    "noencoder/model.ckpt-1": flow,
  }


def write(folder):
  """Writes the checkpoints, each with bert_config.json and vocab.txt beside it, and hostile files."""
  from bert_flow_tf.calibration.spec import make_calibration
  from bert_flow_tf.training.classifier import ClassifierWeights
  from tests.encoder import tf1_files, tiny

  lower = [piece for piece in tiny.VOCABULARY if piece != "Dog"]
  for name, variables in checkpoints().items():
    prefix = folder / name
    save = tf1_files.write_checkpoint if name == "all/model.ckpt-1234" else tf1_files.write_quickly
    google(prefix.parent, variables, lower, prefix.name, save)
  config = {**tf1_files.GOOGLE_CONFIG, "num_hidden_layers": 2}
  for name, change in {
    "heads4": {"num_hidden_layers": 4},
    "vocab9": {"vocab_size": 9},
    "wide24": {"hidden_size": 24},
  }.items():
    (folder / f"{name}.json").write_text(json.dumps({**config, **change}))
  (folder / "noheads.json").write_text(json.dumps({**config, "num_attention_heads": None}))
  (folder / "huge.json").write_text(json.dumps({**config, "num_hidden_layers": 10**9}))
  (folder / "garbage.json").write_text("{")
  (folder / "long.txt").write_text("".join(f"{piece}\n" for piece in [*lower, *map(str, range(20))]))
  for name, damage in {"cutdata": "data-00000-of-00001", "cutindex": "index"}.items():
    google(folder / name)
    file = folder / name / f"model.ckpt-1.{damage}"
    file.write_bytes(file.read_bytes()[:-200])
  google(folder / "nodata")
  (folder / "nodata/model.ckpt-1.data-00000-of-00001").unlink()
  google(folder / "flipped")
  file = folder / "flipped/model.ckpt-1.data-00000-of-00001"
  content = bytearray(file.read_bytes())
  content[len(content) // 2] ^= 64
  file.write_bytes(content)
  for name in ("model.ckpt-1", "model.ckpt-2"):
    google(folder / "several", checkpoint=name)
  google(folder / "cased_L-2_H-12_A-3", checkpoint="bert_model.ckpt")
  (folder / "empty").mkdir()
  (folder / "taken").mkdir()
  (folder / "taken/notes.txt").write_text("mine")
  (folder / "flow.json").write_text(json.dumps({**FLOWS["flow"][1], "coupling_dropout": 0.1}))
  (folder / "otherflow.json").write_text(json.dumps({**FLOWS["flow"][1], "depth": 2, "coupling_width": 7}))
  other = {"name": "other", "sentence_embedding_type": "avg-first-last", "max_seq_length": 16, "low_dim": None}
  ClassifierWeights(np.ones([3, 36], np.float32), None, other).save(folder / "other_classifier")
  make_calibration("mean").fit(np.random.default_rng(0).normal(size=[9, 12])).save(folder / "mean")


def good(folder):
  """Command lines that work, in order."""
  seq = "--max_seq_length=16"

  def there(checkpoint, name, *flags):
    return [f"--tf1_checkpoint={folder}/{checkpoint}", f"--output_dir={folder}/to/{name}", seq, *flags]

  def back(name, checkpoint, *parts):
    places = {"encoder": "encoder", "flow": "flow_folder", "classifier": "classifier_folder"}
    flags = [f"--{places[part]}={folder}/to/{name}/{part}" for part in ("encoder", *parts)]
    return [*flags, f"--output_checkpoint={folder}/back/{checkpoint}"]

  outside = [f"--bert_config_file={folder}/all/bert_config.json", f"--vocab_file={folder}/all/vocab.txt"]
  return {
    "all": there("all/model.ckpt-1234", "all", f"--flow_model_config={folder}/flow.json"),
    "all back": back("all", "all/model.ckpt-1234", "flow", "classifier"),
    "index": there("bare/model.ckpt-7.index", "bare", *outside, "--sentence_embedding_type=cls"),
    "bare back": back("bare", "bare/model.ckpt-7", "flow"),
    "heads": there("heads", "heads", "--nodo_lower_case"),
    "heads back": back("heads", "heads/bert_model.ckpt"),
    "low_dim, no pooler": there("low", "low"),
    "low_dim back": back("low", "low/model.ckpt-1", "flow"),
    "wide": there("wide", "wide", "--sentence_embedding_type=avg-last-concat-2"),
    "wide back": back("wide", "wide/model.ckpt-1", "flow"),
    "cased": there("cased_L-2_H-12_A-3", "cased"),
    "insisting there": there("wide", "insisting", "--allow_other_encoder"),
    "into an empty folder": [f"--tf1_checkpoint={folder}/heads", f"--output_dir={folder}/empty"],
    "insisting": [
      *(f"--encoder={folder}/to/low/encoder", f"--flow_folder={folder}/to/all/flow", "--allow_other_encoder"),
      f"--output_checkpoint={folder}/back/insisting/model.ckpt",
    ],
  }


def bad(folder):
  """{name: (flags, what the line must hold)}; after the good ones."""

  def there(checkpoint, *flags):
    return [f"--tf1_checkpoint={folder}/{checkpoint}", f"--output_dir={folder}/never", "--max_seq_length=16", *flags]

  def back(*flags, output="back/never/model.ckpt"):
    return [f"--encoder={folder}/to/all/encoder", f"--output_checkpoint={folder}/{output}", *flags]

  key = "bert/encoder/layer_1/attention/self/key/bias"
  return {
    "nothing": ([], "--tf1_checkpoint (to turn a checkpoint into folders, with --output_dir) or --output_checkpoint"),
    "no output_dir": ([f"--tf1_checkpoint={folder}/all"], "--output_dir is missing"),
    "no encoder": ([f"--output_checkpoint={folder}/x"], "--encoder is missing"),
    "empty flag": (["--tf1_checkpoint=", "--output_dir=x"], "--tf1_checkpoint is empty"),
    "both ways": (there("all", "--encoder=mini"), "--encoder is of no use with --tf1_checkpoint"),
    "both ways back": (back("--vocab_file=x"), "--vocab_file is of no use with --output_checkpoint"),
    "absent": (there("absent/model.ckpt-1"), "absent/model.ckpt-1: found no model.ckpt-1.index, expected the prefix"),
    "absent folder": (there("absent/"), "found no .index|expected the prefix"),
    "no checkpoint": (there("taken"), "taken: found no checkpoint in this folder"),
    "several": (there("several"), "found 2 checkpoints (model.ckpt-1, model.ckpt-2), expected one"),
    "cut data": (there("cutdata"), "its data files hold"),
    "no data": (there("nodata"), "found 0 of its 1 data files"),
    "cut index": (there("cutindex"), "model.ckpt-1.index: cannot be read"),
    "flipped bit": (there("flipped"), "Checksum does not match"),
    "no config": (there("all", f"--bert_config_file={folder}/absent"), "--bert_config_file"),
    "config is garbage": (there("all", f"--bert_config_file={folder}/garbage.json"), "not readable as JSON"),
    "config without heads": (
      there("all", f"--bert_config_file={folder}/noheads.json"),
      "found num_attention_heads = None",
    ),
    "config of more blocks": (
      there("all", f"--bert_config_file={folder}/heads4.json"),
      "32 missing: bert/encoder/layer_2/",
    ),
    "config of a billion blocks": (
      there("all", f"--bert_config_file={folder}/huge.json"),
      "num_hidden_layers = 1000000000",
    ),
    "config of another width": (
      there("all", f"--bert_config_file={folder}/wide24.json"),
      "of shape [24, 12], expected [24, 24]",
    ),
    "config of fewer pieces": (
      there("all", f"--bert_config_file={folder}/vocab9.json"),
      "found 14 word pieces, expected at most",
    ),
    "no vocabulary": (there("all", f"--vocab_file={folder}/absent"), "--vocab_file"),
    "long vocabulary": (there("all", f"--vocab_file={folder}/long.txt"), "found 34 word pieces, expected at most"),
    "a variable less": (there("less"), f"1 missing: {key}."),
    "two more": (there("more"), "2 unknown: bert/extra, other."),
    "a flow variable less": (there("lessflow"), f"missing: {STEP}/actnorm/actnorm_center/b"),
    "a flow variable more": (there("moreflow"), f"unknown: {STEP}/extra"),
    "a step less": (there("nostep"), f"missing: {STEP}/..."),
    "a slot of nothing": (there("orphan"), "1 unknown: bert/gone/adam_m."),
    "no encoder in it": (there("noencoder"), "37 missing: bert/embeddings/LayerNorm/beta, "),
    "nan": (there("nan"), "output_weights holds NaN or infinity"),
    "classifier of another shape": (
      there("turned"),
      "output_weights has shape [36, 4], expected [num_labels, 3 * dim]",
    ),
    "classifier of float64": (there("double"), "found output_weights of float64, expected float32"),
    "another flow config": (
      there("all", f"--flow_model_config={folder}/otherflow.json"),
      "coupling_width 7 there, 5 in the checkpoint, depth 2 there, 1 in the checkpoint",
    ),
    "no such flow config": (there("all", "--flow_model_config=absent"), "flow config absent: no such file"),
    "a flow config and no flow": (there("heads", f"--flow_model_config={folder}/flow.json"), "holds no flow"),
    "labels for no classifier": (there("heads", "--labels=a,b"), "--labels=a,b: "),
    "two labels for three": (there("all", "--labels=a,b"), "labels are ['a', 'b'], expected 3 different names"),
    "another pooling": (there("wide"), "takes embeddings of 24 dimensions, found 12"),
    "low_dim given": (there("low", "--low_dim=4"), "takes embeddings of 6 dimensions, found 4"),
    "no such pooling": (there("all", "--sentence_embedding_type=max"), "sentence_embedding_type=max"),
    "cls without pooler": (
      [*there("low", "--sentence_embedding_type=cls"), f"--output_dir={folder}/never_cls"],
      "no weights for the pooled output",
    ),
    "too long": ([*there("all"), "--max_seq_length=17"], "max_seq_length=17"),
    "output taken": ([f"--tf1_checkpoint={folder}/all", f"--output_dir={folder}/taken"], "there is something already"),
    "output below a file": ([f"--tf1_checkpoint={folder}/all", f"--output_dir={folder}/flow.json/x"], "flow.json"),
    "checkpoint taken": (back(output="back/all/model.ckpt-1234"), "there is a checkpoint of this name"),
    "checkpoint is a folder": (back(output="back"), "back is a folder, expected a checkpoint's prefix"),
    "another model beside": (
      [f"--encoder={folder}/to/cased/encoder", f"--output_checkpoint={folder}/back/all/model.ckpt-2"],
      "belongs to another model",
    ),
    "no such encoder": ([f"--encoder={folder}/absent", f"--output_checkpoint={folder}/back/x"], "no such folder"),
    "no such flow": (back(f"--flow_folder={folder}/absent"), "absent"),
    "no flow": (back(f"--flow_folder={folder}/mean"), "holds mean, expected a flow"),
    "another classifier": (
      back(f"--classifier_folder={folder}/other_classifier"),
      "was fitted on embeddings of 'other'",
    ),
    "no classifier": (back(f"--classifier_folder={folder}/mean"), "no classifier.json in it"),
    "a flow of another encoder": (
      [
        f"--encoder={folder}/to/low/encoder",
        f"--flow_folder={folder}/to/all/flow",
        f"--output_checkpoint={folder}/back/x",
      ],
      "insist with --allow_other_encoder",
    ),
    "nowhere": (back(output="flow.json/x/model.ckpt"), "flow.json"),
  }


def main(folder):
  """Runs every case."""
  from run_scripts import run_convert

  folder = pathlib.Path(folder)
  write(folder)
  run_convert.define_flags()
  refused = {name: arguments for name, (arguments, _) in bad(folder).items()}
  print(json.dumps(run_all(run_convert.main, {**good(folder), **refused})))


if __name__ == "__main__":
  main(sys.argv[1])
