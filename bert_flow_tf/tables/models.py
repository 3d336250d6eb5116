"""The encoders of a table run."""

import os
import pathlib

import bert_flow_tf
from bert_flow_tf.encoder.word_vectors import PREFIX, WordVectors, wanted_words
from bert_flow_tf.io.experiment import encoder_label
from bert_flow_tf.tables.plan import label_of
from bert_flow_tf.tables.similarity_tables import Model
from bert_flow_tf.tables.workbench import Workbench

# The paper's encoders: their names on the hub and here, and their blocks, width and word pieces.
_PAPER = {
  "base": ("bert-base-uncased", (12, 768, 30522)),
  "large": ("bert-large-uncased", (24, 1024, 30522)),
}
_OTHER = "whole-word-masking"  # bert-large-uncased-whole-word-masking came later


def load_models(plan, settings, store, max_seq_length, model_cache_dir=None, precision="float32"):
  """(`Model`s of --model, `Model`s of --nli_model), those of --model as far as the plan needs them.

  Raises:
    EncoderError: one cannot be loaded.
  """
  plain = plan.models if plan.needs_models else ()
  given = [*((name, False) for name in plain), *((name, True) for name in plan.nli_models)]
  found = []
  for name, nli_tuned in given:
    if name.startswith(PREFIX):
      path = os.path.expanduser(name.removeprefix(PREFIX))
      encoder = WordVectors.from_file(path, wanted_words(_sentences(settings.tasks.values())))
      found.append(Model(label_of(name), Workbench(encoder, settings, store), words=True))
      continue
    encoder = bert_flow_tf.SentenceEncoder.from_pretrained(name, model_cache_dir, precision)
    encoder.bert.check_max_seq_length(max_seq_length)
    paper = paper_encoder(name, encoder.bert.config, nli_tuned)
    found.append(Model(label_of(name), Workbench(encoder, settings, store), paper, nli_tuned))
  return found[: len(plain)], found[len(plain) :]


def paper_encoder(name, config, nli_tuned=False):
  """Says "base" or "large" where the encoder is the paper's, by its name and its sizes; else None.

  Args:
    name: value of --model or --nli_model.
    config: the encoder's, with num_hidden_layers, hidden_size and vocab_size.
    nli_tuned: whether it was fine-tuned on NLI: then its name is its owner's, and has the paper's within it.
  """
  last = pathlib.Path(name).name.lower()
  tuned = encoder_label(name).lower()  # of a run of run_siamese the experiment's name too
  sizes = (config.num_hidden_layers, config.hidden_size, config.vocab_size)
  for encoder, (full_name, expected) in _PAPER.items():
    named = full_name in tuned and _OTHER not in tuned if nli_tuned else name == encoder or last == full_name
    if named and sizes == expected:
      return encoder
  return None


def _sentences(tasks):
  return {s for task in tasks for pairs in task.splits.values() for s in (*pairs.sentences_a, *pairs.sentences_b)}
