"""Stops a fit in the middle."""


class Interrupt(Exception):
  """What `interrupt_at` stops a fit with."""


def interrupt_at(monkeypatch, step, module="trainer"):
  """Makes the next fit stop by an exception once it shows that `step` steps are made; `monkeypatch.undo` ends that.

  Args:
    monkeypatch: pytest's.
    step: the step.
    module: where the fit is, below `bert_flow_tf.training`. `Trainer` shows steps once they are saved.
  """

  class StoppingProgress:
    def __init__(self, total, show, what, unit, done):
      self.done = done

    def __enter__(self):
      return self

    def __exit__(self, *unused):
      pass

    def update(self, count, note=""):
      self.done += count
      if self.done >= step:
        raise Interrupt

  monkeypatch.setattr(f"bert_flow_tf.training.{module}.Progress", StoppingProgress)
