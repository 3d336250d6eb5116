"""The encoders of a run."""

import dataclasses
import os
import pathlib
from typing import Any

from bert_flow_tf.encoder.word_vectors import PREFIX, WordVectors, wanted_words
from bert_flow_tf.io.experiment import encoder_label
from bert_flow_tf.tables.inputs import Inputs
from bert_flow_tf.tables.plan import Plan, label_of
from bert_flow_tf.tables.store import Store
from bert_flow_tf.tables.workbench import Workbench

# The paper's encoders: name on the hub; number of blocks, width, and size of the vocabulary.
_PAPER = {
  "base": ("bert-base-uncased", (12, 768, 30522)),
  "large": ("bert-large-uncased", (24, 1024, 30522)),
}
_OTHER = "whole-word-masking"  # bert-large-uncased-whole-word-masking is newer than the paper


def load_models(plan: Plan, inputs: Inputs, store: Store) -> tuple[list[Workbench], list[Workbench]]:
  """Loads the encoders of `plan.model`, as far as they are needed, and those of `plan.nli_model`.

  Raises:
    EncoderError: one cannot be loaded.
  """
  plain = plan.model if plan.needs_models else ()
  models = [_load(name, False, inputs, store) for name in plain]
  return models, [_load(name, True, inputs, store) for name in plan.nli_model]


def with_activation(bench: Workbench, hidden_act: str) -> Workbench:
  """Returns the workbench of the same encoder with another activation, by which it is named.

  Args:
    bench: an encoder with a BERT.
    hidden_act: transformers' name of the activation.
  """
  encoder = bench.encoder
  if encoder.bert.config.hidden_act != hidden_act:
    encoder = _load_bert(encoder.name, dataclasses.replace(bench.inputs.embedding, hidden_act=hidden_act))
  return Workbench(encoder, bench.inputs, bench.store, f"{bench.label} with {hidden_act}", nli_tuned=bench.nli_tuned)


def variant_of(bench: Workbench, token_weights: str, static: bool = False) -> Workbench:
  """Returns the workbench of the same encoder with other token weights, or of its word embeddings alone.

  Args:
    bench: an encoder with a BERT.
    token_weights: a `token_weights`, see `SentenceEncoder`.
    static: whether its transformer is left out.

  Raises:
    ConfigError, EncoderError: the weights are unknown, or the encoder cannot be loaded.
  """
  from bert_flow_tf.encoder.sentence_encoder import SentenceEncoder
  from bert_flow_tf.encoder.token_weights import make_token_weights

  encoder = bench.encoder
  if static:
    encoder = _load_bert(f"static:{encoder.name}", bench.inputs.embedding, token_weights)
  else:
    weights = make_token_weights(token_weights, encoder.tokenizer, bench.inputs.embedding.frequency_corpus)
    encoder = SentenceEncoder(encoder.bert, encoder.tokenizer, weights, encoder.settings)
  return Workbench(encoder, bench.inputs, bench.store, bench.label, nli_tuned=bench.nli_tuned)


def _load_bert(name, settings, token_weights=None):
  from bert_flow_tf.model import SentenceModel  # imports TensorFlow, after the files are read

  arguments = {"max_seq_length": settings.max_seq_length, **settings.loading_arguments()}
  arguments |= {
    "token_weights": token_weights,
    "frequency_corpus": settings.frequency_corpus if token_weights else None,
  }
  return SentenceModel.from_pretrained(name, **arguments).encoder


def _load(name, nli_tuned, inputs, store):
  if name.startswith(PREFIX):
    path = os.path.expanduser(name.removeprefix(PREFIX))
    encoder = WordVectors.from_file(path, wanted_words(_sentences(inputs.tasks.values())))
    return Workbench(encoder, inputs, store, label_of(name), words=True)
  encoder = _load_bert(name, inputs.embedding)
  paper = paper_encoder(name, encoder.bert.config, nli_tuned)
  return Workbench(encoder, inputs, store, label_of(name), paper, nli_tuned)


def paper_encoder(name: str, config: Any, nli_tuned: bool = False) -> str | None:
  """Returns "base" or "large" if the encoder is the paper's by its name and sizes, else None.

  Args:
    name: name or folder of the encoder.
    config: its configuration, with num_hidden_layers, hidden_size and vocab_size.
    nli_tuned: whether it was fine-tuned on NLI: then the paper's name may be a part of its name.
  """
  last = pathlib.Path(name).name.lower()
  tuned = encoder_label(name).lower()  # with the experiment's name, for an encoder of run_siamese.py
  sizes = (config.num_hidden_layers, config.hidden_size, config.vocab_size)
  for encoder, (full_name, expected) in _PAPER.items():
    named = full_name in tuned and _OTHER not in tuned if nli_tuned else name == encoder or last == full_name
    if named and sizes == expected:
      return encoder
  return None


def sizes_of(bench: Workbench) -> dict[str, Any]:
  """Returns the sizes of an encoder with a BERT and the name that it was loaded by, JSON values for a reader."""
  config = bench.encoder.bert.config
  sizes = {"blocks": config.num_hidden_layers, "dimensions": config.hidden_size, "word pieces": config.vocab_size}
  return {**sizes, "folder": bench.encoder.name}


def _sentences(tasks):
  return {s for task in tasks for pairs in task.splits.values() for s in (*pairs.sentences_a, *pairs.sentences_b)}
