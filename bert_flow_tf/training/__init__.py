"""Training: fits of calibrations and of flows, fine-tuning of encoders, and the loop of both."""

from typing import Any

__all__ = ["AdamWeightDecay", "EmbeddingPairs", "FlowFitter", "FlowSettings", "Trainer", "TrainingLoop"]


def __getattr__(name: str) -> Any:
  if name not in __all__:
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

  # Imported at the first use: settings are read without TensorFlow.
  from bert_flow_tf.training import calibrate, flow_trainer, loop

  for module in (calibrate, flow_trainer, loop):
    if hasattr(module, name):
      break
  return getattr(module, name)
