"""The vocabulary, and the server's own small files."""

import pathlib

from bert_flow_tf.io.files import write_text
from bert_flow_tf.serving.graph_tokenizer import vocabulary_of


def write_vocabulary(tokenizer, folder):
  """Writes vocab.txt, a word piece a line in the order of their ids; returns its path, a str."""
  path = pathlib.Path(folder) / "vocab.txt"
  write_text(path, "".join(f"{piece or ''}\n" for piece in vocabulary_of(tokenizer)))
  return str(path)


def write_server_files(layout, model_name):
  """Writes the sample models.config and this version's batching_params.pbtxt."""
  write_text(layout.models_config, MODELS_CONFIG.format(name=model_name))
  write_text(layout.batching, BATCHING)


def docker_command(model_name, base="BASE"):
  """A command line that serves the model; not run by us."""
  return (
    f"docker run --rm -p 8500:8500 -p 8501:8501 -v {base}:/models/{model_name} -e MODEL_NAME={model_name} "
    "tensorflow/serving:2.19.1 --enable_batching=true --enable_per_model_batching_parameters=true"
  )


MODELS_CONFIG = """\
# A sample of --model_config_file: two versions side by side, under two labels. Not run by us.
model_config_list {{
  config {{
    name: "{name}"
    base_path: "/models/{name}"
    model_platform: "tensorflow"
    # Without a policy the server takes the highest version alone.
    # model_version_policy {{ specific {{ versions: 1 versions: 2 }} }}
    # version_labels {{ key: "stable" value: 1 }}
    # version_labels {{ key: "canary" value: 2 }}
  }}
}}
"""

# pad_variable_length_inputs is safe for embed_ids, whose lengths say what counts; text needs none.
BATCHING = """\
max_batch_size { value: 64 }
batch_timeout_micros { value: 2000 }
max_enqueued_batches { value: 256 }
num_batch_threads { value: 4 }
pad_variable_length_inputs: true
"""
