"""BERT-flow for TensorFlow 2: sentence embeddings calibrated by a normalizing flow.

Li et al., "On the Sentence Embeddings from Pre-trained Language Models", EMNLP 2020.
"""

import importlib

from bert_flow_tf._keras2 import require_keras_2
from bert_flow_tf._version import __version__

require_keras_2()

# Resolved at first use: reading data or scoring predictions must not cost an import of TensorFlow.
_PUBLIC = {
  "BertFlowError": "bert_flow_tf.errors",
  "FlowConfig": "bert_flow_tf.flow.config",
  "Glow": "bert_flow_tf.flow.glow",
  "SentenceEncoder": "bert_flow_tf.encoder.sentence_encoder",
  "SentenceModel": "bert_flow_tf.model",
  "AdamWeightDecay": "bert_flow_tf.training.optimizer",
  "EmbeddingPairs": "bert_flow_tf.training.sources",
  "SentencePairsWithDropout": "bert_flow_tf.training.sources",
  "Trainer": "bert_flow_tf.training.flow_trainer",
  "make_strategy": "bert_flow_tf.training.distribution",
  "load_task": "bert_flow_tf.data.tasks",
}

__all__ = ["__version__", *_PUBLIC]


def __getattr__(name):
  if name not in _PUBLIC:
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
  return getattr(importlib.import_module(_PUBLIC[name]), name)


def __dir__():
  return sorted(__all__)
