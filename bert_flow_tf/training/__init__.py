"""Training: fits of calibrations and of flows, fine-tuning of encoders, and the loop of both."""

from typing import Any

__all__ = ["EmbeddingPairs", "FlowSettings", "Trainer"]


def __getattr__(name: str) -> Any:
  if name not in __all__:
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
  # Imported at the first use: settings are read without TensorFlow.
  from bert_flow_tf.training import flow_trainer

  return getattr(flow_trainer, name)
