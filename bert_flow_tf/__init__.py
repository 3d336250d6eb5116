"""BERT-flow for TensorFlow 2: sentence embeddings calibrated by a normalizing flow.

Li et al., "On the Sentence Embeddings from Pre-trained Language Models", EMNLP 2020.
"""

import importlib
import os
from typing import Any

from bert_flow_tf._version import __version__
from bert_flow_tf.io import openmp

# TensorFlow's C++ logs a missing GPU or CPU instruction as an error. Real errors also reach Python.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

# Resolved at first use: reading data or scoring predictions must not cost an import of TensorFlow.
_PUBLIC = {
  "BertFlowError": "bert_flow_tf.errors",
  "Calibration": "bert_flow_tf.calibration.step",
  "Duplicates": "bert_flow_tf.vectors",
  "EncoderIdentity": "bert_flow_tf.encoder.identity",
  "EncoderLayer": "bert_flow_tf.encoder.layer",
  "FlowConfig": "bert_flow_tf.flow.config",
  "Glow": "bert_flow_tf.flow",
  "SentenceEncoder": "bert_flow_tf.encoder.sentence_encoder",
  "SentenceIndex": "bert_flow_tf.vectors.sentence_index",
  "SentenceModel": "bert_flow_tf.model",
  "SentEvalAdapter": "bert_flow_tf.integrations.senteval",
  "SentenceTransformersAdapter": "bert_flow_tf.integrations.sentence_transformers",
  "distill": "bert_flow_tf.serving.distill",
  "evaluate_retrieval": "bert_flow_tf.vectors.retrieval",
  "export_model": "bert_flow_tf.serving.export",
  "find_duplicates": "bert_flow_tf.vectors",
  "fit_calibration": "bert_flow_tf.training.calibrate",
  "load_calibration": "bert_flow_tf.calibration.saving",
  "load_task": "bert_flow_tf.data.tasks",
  "near_duplicates": "bert_flow_tf.vectors",
  "paraphrase_mining": "bert_flow_tf.vectors",
  "search": "bert_flow_tf.vectors",
}

__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str) -> Any:
  if name not in _PUBLIC:
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
  # Some modules import TensorFlow, which can load the OpenMP of FAISS.
  with openmp.sleeping_threads():
    return getattr(importlib.import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
  return sorted(__all__)
