"""Training: fits of calibrations and of flows, fine-tuning of encoders, and the loop that both share.

It knows no task, page or results folder. `Fitter` is the fit of `SentenceModel.fit`; `Trainer` fits a flow alone.

Files in reading order:

    settings            FlowSettings: the settings that decide a fit
    fit_rows            the rows of a fit: sentences or vectors
    fitter              Fitter: the fit of any calibration on them; choice has `calibration=auto`
    flow_fit            the fit of a flow
    linear_fit          calibrations without steps
    calibrate           fit_calibration: vectors of any program
    sources             pairs of embeddings, computed once or in each step with dropout
    pipeline            the order of the pairs, and their batches, as a tf.data.Dataset
    flow_trainer        Trainer: the flow's steps
    loop                TrainingLoop: steps, checkpoints, progress, events
    optimizer           the published optimizer and learning rate
    devices             devices of this process
    strategies          several devices that train together
    workers             several machines
    siamese/            fine-tuning of an encoder on labeled pairs
"""

from typing import Any

__all__ = ["EmbeddingPairs", "FlowSettings", "Trainer"]


def __getattr__(name: str) -> Any:
  if name not in __all__:
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
  # Imported at the first use: settings are read without TensorFlow.
  from bert_flow_tf.training import flow_trainer

  return getattr(flow_trainer, name)
