"""The vocabulary and the server's configuration files."""

import pathlib

from bert_flow_tf.encoder.tokenizer import SentenceTokenizer
from bert_flow_tf.io.files import write_text
from bert_flow_tf.serving.graph_tokenizer import vocabulary_of
from bert_flow_tf.serving.layout import ExportLayout

_MODELS_CONFIG = """\
# Example of --model_config_file. Not run by us.
model_config_list {{
  config {{
    name: "{name}"
    base_path: "/models/{name}"
    model_platform: "tensorflow"
    # By default the server serves the highest version only. To serve two, or to roll back, name the versions:
    # model_version_policy {{ specific {{ versions: 1 versions: 2 }} }}
    # version_labels {{ key: "stable" value: 1 }}
    # version_labels {{ key: "canary" value: 2 }}
  }}
}}
"""
# Padding is safe: embed_ids reads `lengths` tokens of each row, and text has no second dimension.
_BATCHING = """\
max_batch_size { value: 64 }
batch_timeout_micros { value: 2000 }
max_enqueued_batches { value: 256 }
num_batch_threads { value: 4 }
pad_variable_length_inputs: true
"""


def write_vocabulary(tokenizer: SentenceTokenizer, folder: str) -> str:
  """Writes vocab.txt, a word piece per line in the order of their ids; returns its path."""
  path = pathlib.Path(folder) / "vocab.txt"
  write_text(path, "".join(f"{piece or ''}\n" for piece in vocabulary_of(tokenizer)))
  return str(path)


def write_server_files(layout: ExportLayout, model_name: str) -> None:
  """Writes an example of models.config and the version's batching_params.pbtxt."""
  write_text(layout.models_config, _MODELS_CONFIG.format(name=model_name))
  write_text(layout.batching, _BATCHING)
