"""Settings of a flow's fit."""

import dataclasses

from bert_flow_tf.flow.config import packaged_configs
from bert_flow_tf.io.settings import setting


@dataclasses.dataclass(frozen=True)
class FlowSettings:
  """How a flow is made and fitted. `None` leaves the choice to the corpus or to the length of the fit."""

  flow_model_config: str = setting(
    "config_l2_d3_w32",
    f"One of {', '.join(packaged_configs())}, or a json file.",
    named=False,  # it has its own part in an experiment's name; a checkpoint holds its content
  )
  actnorm_init: str = setting(
    "data", "Initial actnorms: from data, or as the published runner.", choices=("data", "glorot")
  )
  permutation: str = setting("reverse", "As the published code, or as the paper.", choices=("reverse", "random"))
  flow_learning_rate: float | None = setting(None, "Constant learning rate of the flow; default 1e-3, 2e-5 for nli.")
  num_train_epochs: float | None = setting(
    None, "Passes over the pairs; default: the task's own (STS-B 1), 0.15 for nli."
  )
  train_batch_size: int = setting(32, "Pairs of a step, over all devices.")
  seed: int = setting(1234, "Seed of initial weights, order of the pairs and dropout.", minimum=0, maximum=2**31 - 1)
  distribution_strategy: str = setting(
    "default",
    "default: all GPUs, or the CPU; mirrored: the same, always through a MirroredStrategy; multi_worker_mirrored: the "
    "workers in TF_CONFIG.",
    named=False,
  )
  use_xla: bool | None = setting(None, "Compile the step with XLA; default: only for long fits, where it is faster.")
  save_checkpoints_steps: int = setting(100, "Steps between two checkpoints.", named=False, minimum=1)
