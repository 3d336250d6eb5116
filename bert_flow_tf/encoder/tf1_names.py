"""BERT's variables under the names of Google's checkpoints, of TFBertModel and of PyTorch's BertModel.

bert/encoder/layer_0/attention/self/query/kernel           TensorFlow 1
bert/encoder/layer_._0/attention/self/query/kernel:0       TFBertModel, after the model's own name
bert.encoder.layer.0.attention.self.query.weight           PyTorch, transposed
"""

import re

from bert_flow_tf.errors import EncoderError

POOLER = ("bert/pooler/dense/kernel", "bert/pooler/dense/bias")
FLOW = "bert/flow/"
GLOBAL_STEP = "global_step"
_TABLES = ("word_embeddings", "token_type_embeddings", "position_embeddings")
_TRANSFORM = "cls/predictions/transform"
# Of the pre-training that Google's checkpoints come from: masked words and next sentence.
_HEADS = (
  "cls/predictions/output_bias",
  *(f"{_TRANSFORM}/dense/{name}" for name in ("kernel", "bias")),
  *(f"{_TRANSFORM}/LayerNorm/{name}" for name in ("beta", "gamma")),
  "cls/seq_relationship/output_weights",
  "cls/seq_relationship/output_bias",
)
# Of Google's AdamWeightDecayOptimizer and of TensorFlow's AdamOptimizer, after the variable's name.
_SLOTS = ("/adam_m", "/adam_v", "/Adam", "/Adam_1")
_POWERS = ("beta1_power", "beta2_power")


def bert_shapes(values, pooler=True):
  """{variable: shape} of Google's BERT.

  Args:
    values: of bert_config.json, sizes given.
    pooler: whether the pooled output's variables belong to it.
  """
  hidden, inner = values["hidden_size"], values["intermediate_size"]
  rows = dict(zip(_TABLES, ("vocab_size", "type_vocab_size", "max_position_embeddings"), strict=True))
  shapes = {f"bert/embeddings/{table}": (values[key], hidden) for table, key in rows.items()}
  norms = ["bert/embeddings/LayerNorm"]
  dense = {"bert/pooler/dense": (hidden, hidden)} if pooler else {}
  for number in range(values["num_hidden_layers"]):
    layer = f"bert/encoder/layer_{number}"
    dense |= {f"{layer}/attention/self/{name}": (hidden, hidden) for name in ("query", "key", "value")}
    dense |= {
      f"{layer}/attention/output/dense": (hidden, hidden),
      f"{layer}/intermediate/dense": (hidden, inner),
      f"{layer}/output/dense": (inner, hidden),
    }
    norms += [f"{layer}/attention/output/LayerNorm", f"{layer}/output/LayerNorm"]
  for name, shape in dense.items():
    shapes |= {f"{name}/kernel": shape, f"{name}/bias": shape[1:]}
  for name in norms:
    shapes |= {f"{name}/gamma": (hidden,), f"{name}/beta": (hidden,)}
  return shapes


def of_keras(name):
  """TensorFlow 1's name of a TFBertModel weight.

  Args:
    name: "bert/encoder/layer_._0/...:0", as the model's weight has it after the model's own name.
  """
  name = name.partition(":")[0].replace("/layer_._", "/layer_")
  tables = "|".join(_TABLES)
  return re.sub(rf"^(bert/embeddings/(?:{tables}))/(?:weight|embeddings)$", r"\1", name)


def of_torch(name):
  """PyTorch's name for a variable of `bert_shapes`; kernels are transposed there (`is_kernel`)."""
  name = name.replace("/layer_", "/layer/")
  for ours, theirs in {"kernel": "weight", "gamma": "weight", "beta": "bias"}.items():
    name = re.sub(f"/{ours}$", f"/{theirs}", name)
  return name.replace("/", ".") + (".weight" if name.split("/")[-1] in _TABLES else "")


def is_kernel(name):
  """Whether a variable is a dense layer's matrix: [inputs, outputs] here, [outputs, inputs] in PyTorch."""
  return name.endswith("/kernel")


def has_pooler(names):
  """Whether a checkpoint has variables of the pooled output."""
  return any(name in names for name in POOLER)


def left_out(name, names):
  """What a variable is that no folder of ours keeps: "Adam slots", "global_step", "pre-training heads"; or None.

  Args:
    name: the variable.
    names: all of the checkpoint. A slot of a variable that is not among them is none.
  """
  if name == GLOBAL_STEP:
    return GLOBAL_STEP
  if name in _HEADS:
    return "pre-training heads"
  if name in _POWERS:
    return "Adam slots"
  return "Adam slots" if any(name.endswith(end) and name.removesuffix(end) in names for end in _SLOTS) else None


def check_layers(names, values, where):
  """Refuses a number of blocks for which there are not enough variables, before anything is made for each block.

  Raises:
    EncoderError: as said.
  """
  if values["num_hidden_layers"] > len(names):
    raise EncoderError(
      f"{where}: found {len(names)} variables, expected those of num_hidden_layers = {values['num_hidden_layers']} "
      "blocks: use the bert_config.json that belongs to the checkpoint."
    )


def check_names(found, expected, where):
  """Refuses variables that are not the expected ones; the message lists all of them.

  Raises:
    EncoderError: some are missing or unknown.
  """
  missing, unknown = sorted(set(expected) - set(found)), sorted(set(found) - set(expected))
  if missing or unknown:
    parts = [
      f"{len(names)} {what}: {', '.join(names)}"
      for what, names in (("missing", missing), ("unknown", unknown))
      if names
    ]
    raise EncoderError(
      f"{where}: its variables are not those of the BERT that bert_config.json describes; {'; '.join(parts)}."
    )
