"""A pre-training from text to a model folder with its card."""

import os
import pathlib
import tempfile
from typing import Any

import numpy as np
from absl import logging

from bert_flow_tf.encoder.saving import check_place
from bert_flow_tf.errors import ConfigError
from bert_flow_tf.evaluation import report
from bert_flow_tf.io import files
from bert_flow_tf.io.experiment import Stopwatch, make_folder
from bert_flow_tf.io.lock import owned
from bert_flow_tf.pretraining import card, corpus
from bert_flow_tf.pretraining.masked_lm import MaskedLanguageModel
from bert_flow_tf.pretraining.masking import MaskedBatches
from bert_flow_tf.pretraining.settings import PretrainingSettings
from bert_flow_tf.pretraining.trainer import PretrainingTrainer, final_loss
from bert_flow_tf.training.distribution import is_chief, make_strategy, wait_for_all, worker_failures

MODEL_FOLDER = "model"


def pretrain(
  settings: PretrainingSettings,
  output_dir: str | os.PathLike,
  data_dir: str | None = None,
  about: dict[str, Any] | None = None,
) -> dict[str, Any] | None:
  """Trains a BERT from scratch, or resumes its training, and writes model, card and results.json.

  Args:
    settings: the settings.
    output_dir: folder of this training.
    data_dir: folder with STS/STSBenchmark, for the scores in the card; None for none.
    about: flags and versions, for results.json and the card.

  Returns:
    The content of results.json; None in workers other than the chief.

  Raises:
    ConfigError, DataError: settings, folder or text cannot be used.
    TrainingError: the loss became NaN or infinite, or another worker was lost.
  """
  watch, folder = Stopwatch(), pathlib.Path(output_dir).expanduser()
  sentences, checksum = corpus.read_corpus(settings.corpus or "")
  if data_dir is not None:
    card.load_task(data_dir)
  strategy = make_strategy(settings.distribution_strategy, settings.worker_wait_seconds, settings.deterministic)
  _check_folder(folder)
  # Only the chief writes: the other workers may have the same folder, or none.
  with owned(folder, "output_dir") if is_chief(strategy) else tempfile.TemporaryDirectory() as temporary:
    return _pretrain(settings, pathlib.Path(temporary or folder), sentences, checksum, strategy, watch, data_dir, about)


def _pretrain(settings, folder, sentences, checksum, strategy, watch, data_dir, about):
  """Trains in a folder that this process owns; see `pretrain`."""
  make_folder(folder, "output_dir")
  with watch.timing("reading"):
    pieces = corpus.make_vocabulary(folder, settings, sentences, checksum)
    ids, tokenizer = corpus.tokenize(folder, settings, pieces, sentences)
  sizes = settings.sizes(len(pieces))
  with worker_failures(strategy), strategy.scope():
    model = MaskedLanguageModel(sizes, settings.dropout, settings.precision, settings.seed)
  identity = {"sizes": sizes, "corpus": checksum, "vocabulary": tokenizer.checksum}
  trainer = PretrainingTrainer(model, settings, strategy, folder / corpus.CHECKPOINTS, identity)
  batches = _batches(settings, pieces, ids, tokenizer)
  parameters, passes = int(model.model.count_params()), settings.num_train_steps / batches.batches_a_pass
  logging.info("%d parameters, %d pieces; %.2f passes over the text", parameters, len(pieces), passes)
  with watch.timing("training"):
    losses = trainer.train(batches)
  results = None
  if is_chief(strategy):
    results = {
      "corpus": {"file": settings.corpus, "sha256": checksum, "sentences": len(sentences), "used": len(ids)},
      "sizes": sizes,
      "parameters": parameters,
      "passes": passes,
      "final_loss": final_loss(losses),
      "seconds": watch.seconds,
      **(about or {}),
    }
    results["stsb_test_spearman"] = _write_model(folder, settings, model, pieces, results, data_dir, watch)
    report.write_results(folder, {**results, "losses": np.asarray(losses)})
  wait_for_all(strategy)
  return results


def _check_folder(folder):
  """Checks that the model's place is free, or holds an earlier model of this training."""
  if (folder / MODEL_FOLDER).exists() and not (folder / corpus.CHECKPOINTS).exists():
    raise ConfigError(
      f"output_dir={folder}: {folder / MODEL_FOLDER} exists and is not of a training of this command; choose another "
      "folder, because the finished model replaces it",
      argument="output_dir",
    )
  check_place(folder / MODEL_FOLDER)


def _batches(settings, pieces, ids, tokenizer):
  mask, *specials = (pieces.index(piece) for piece in ("[MASK]", "[CLS]", "[SEP]", "[PAD]"))
  return MaskedBatches(ids, settings.train_batch_size, mask, specials, len(pieces), tokenizer.pad_id, settings.seed)


def _write_model(folder, settings, model, pieces, results, data_dir, watch):
  """Writes the model with its card, and returns its scores on STS-B, or None without data."""
  place = folder / MODEL_FOLDER
  model.save(place, pieces, settings.do_lower_case, card.card(results, settings, None), settings.weights_dtype)
  if data_dir is None:
    return None
  with watch.timing("evaluating"):
    scores = card.scores(place, data_dir, settings.max_seq_length)
  files.write_text(place / "README.md", card.card(results, settings, scores))
  return scores
