"""Runs: what the commands do with models and tasks, and the folders that they write.

Files in reading order:

    flow_run          `bert-flow fit`; the place to begin
    eval_run          `bert-flow eval`
    siamese_run       `bert-flow siamese`: siamese_parts are loaded, siamese_training trains, siamese_scores evaluates
    run_folder        the folder of a run, written once for all commands
"""

__all__ = [
  "eval_run",
  "flow_run",
  "run_folder",
  "siamese_parts",
  "siamese_run",
  "siamese_scores",
  "siamese_training",
]
