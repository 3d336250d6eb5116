"""Interrupts a training."""


class Interrupt(Exception):
  """The exception of `interrupt_at`."""


def interrupt_at(monkeypatch, step):
  """Makes the next training stop by an exception once its progress shows `step` steps, until `monkeypatch.undo`.

  Progress is shown after a checkpoint is saved.
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

  monkeypatch.setattr("bert_flow_tf.training.loop.Progress", StoppingProgress)
