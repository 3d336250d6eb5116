"""The folders that are damaged: how each is made and loaded."""

import dataclasses
import functools
import json
import pathlib
import tempfile

import numpy as np

from bert_flow_tf import SentenceEncoder, SentenceModel
from bert_flow_tf.calibration.combined import SideBySide
from bert_flow_tf.calibration.flow import FlowCalibration
from bert_flow_tf.calibration.names import make_calibration
from bert_flow_tf.calibration.saving import load_calibration
from bert_flow_tf.corpus.job import EmbeddingJob, JobSettings
from bert_flow_tf.encoder.cache import EmbeddingCache
from bert_flow_tf.encoder.other.word_vectors import WordVectors
from bert_flow_tf.encoder.saving import save_encoder
from bert_flow_tf.errors import DataError
from bert_flow_tf.report import result_files
from bert_flow_tf.report.record import RunRecord, read_record, write_record
from bert_flow_tf.runs.run_folder import describe_measured
from bert_flow_tf.runs.siamese_run import read_facts, write_facts
from bert_flow_tf.serving.export import export_model
from bert_flow_tf.serving.metadata import read_origin
from bert_flow_tf.tables.table import Cell, Row, Table
from bert_flow_tf.tables.workbench import Store
from bert_flow_tf.tf1.write import write_model
from bert_flow_tf.training.siamese.objectives import Classifier
from bert_flow_tf.vectors.vector_folder import find_vector_files
from tests.calibration.cases import cone
from tests.corpus import toy
from tests.damage import Case, hub_snapshot
from tests.encoder import tiny
from tests.report.records import WORSE, record_of, with_spectra
from tests.training import small
from tools.results_page import read_tables

TEXTS = ["a dog", "a cat.", "dogs b"]
_DIM = 4


@functools.cache
def _encoder():
  folder = pathlib.Path(tempfile.mkdtemp()) / "tiny"
  return SentenceEncoder.from_pretrained(str(tiny.save_tiny(folder)))


def _flow():
  flow = small.make_flow()
  flow.initialize(small.embeddings()[0])
  return flow


def _side_by_side(folder):
  SideBySide([FlowCalibration(_flow()), make_calibration("soft-whitening").fit(cone(40, _DIM))]).save(folder)


def _transformed(folder):
  calibration = load_calibration(folder)
  return calibration.transform(cone(9, _DIM, seed=1)), getattr(calibration, "count", None), calibration.encoder


def _embedded(folder, name=""):
  encoder = SentenceEncoder.from_pretrained(f"{name}{folder}")
  return encoder.encode(TEXTS, show_progress=False)


def _model(folder):
  return SentenceModel.load(folder, model=_encoder()).encode(TEXTS)


def _google(folder):
  save_encoder(_encoder(), folder.parent / "source")
  write_model(str(folder.parent / "source"), str(folder / "bert_model.ckpt"))


def _unsealed_google(folder):
  _google(folder)
  config = folder / "bert_config.json"
  values = json.loads(config.read_text())
  config.write_text(json.dumps({name: value for name, value in values.items() if name != "sha256"}))


def _fitted(folder):
  _, flow = small.fit(checkpoint_folder=folder, save_checkpoints_steps=2)
  return small.weights(flow)


def _embed_corpus(output, folder):
  text = folder.parent / "corpus.txt"
  if not text.exists():
    text.write_text("".join(f"sentence {number}\n" for number in range(20)))
  settings = JobSettings(input=(str(text),), output_dir=str(folder), output_format=output, shard_size=8)
  EmbeddingJob(settings).run(dataclasses.replace(toy.EMBEDDER, about={"encoder": {}}))
  counters = json.loads((folder / "manifest.json").read_text())["counters"]
  return counters, {path.name: path.read_bytes() for path in sorted(folder.glob("shard-*[!n]"))}  # no receipts


def _vectors(folder):
  return [chunk for file in find_vector_files([str(folder)]) for chunk in file.blocks()]


def _cached(folder):
  rows = cone(len(TEXTS), _DIM).astype(np.float32)
  cache = EmbeddingCache(folder)
  embeddings, cached = cache.load("key", TEXTS, _DIM)
  cache.save("key", [text for text, known in zip(TEXTS, cached, strict=True) if not known], rows[~cached])
  return np.where(cached[:, None], embeddings, rows)  # a row that is not cached is computed


def _export(folder):
  model = SentenceModel(_encoder(), make_calibration("whitening-3").fit(cone(40, 12)))
  version = export_model(model, folder.parent / "served", model_name="tiny")
  version.rename(folder)
  version.parent.rmdir()


def _served(folder):
  return SentenceModel.from_pretrained(f"saved_model:{folder}").encode(TEXTS)


def _stored(folder):
  return Store(folder).kept({"a": 1}, lambda: {"score": 0.5, "cosines": [0.25, None]})


def _table(folder):
  folder.mkdir()
  rows = (Row("flow", "ours", {"STS-B": Cell((0.7123, 0.7101), 0.7226)}),)
  table = Table("2", "A table", "Spearman", ("STS-B",), rows, ("a note",), {"date": "today"})
  (folder / "table_2.json").write_text(table.json())


def _results(folder):
  model = SentenceModel(_encoder(), make_calibration("mean").fit(cone(40, 12)))
  model.save(folder / "mean")
  about = {"task": "sts-b", "encoder": {"name": "tiny"}, "controls": {}, **describe_measured({"mean": model})}
  result_files.write_results(folder, {**about, "results": {"test": {"mean": {"spearman": 0.7123}}}})


def _origin(folder):
  values = read_origin(folder / "mean")
  if not values:  # after a warning
    raise DataError(f"{folder}: no scores")
  return values["figures"], values["warnings"], values["origin"]["task"]


def _run(folder, **about):
  """Writes a run's folder; with `predictions`, drawings.npz has them."""
  about = {"data": {"STS-B": "a file"}, **about}
  records = [with_spectra(record_of(*WORSE, matches={"characters": 0.1}))]
  write_record(folder, RunRecord("a title", records, about), True, "predictions" not in about)


def _record(folder):
  """Returns what the page of a run shows; a missing drawing is a refusal, as the page says so."""
  (task,) = read_record(folder).tasks
  if task.gaps:
    raise DataError(f"{folder}: {task.gaps}")
  numbers = [task.result.scores, task.result.gains, task.right_order, task.predictions.cosines]
  if task.spectra is not None:
    numbers.append({name: np.nan_to_num(array) for name, array in task.spectra.arrays().items()})
  return numbers


def _facts(folder):
  folder.mkdir()
  write_facts(folder, {"step": 40, "embedding": {"low_dim": None, "sentence_embedding_type": "avg"}})


def _words(folder):
  folder.mkdir()
  text = b"".join(b"%s 0.25 -1.5 3e-2\n" % word for word in (b"a", b"dog", b"cat", b"dogs", b"b", b"."))
  (folder / "vectors.txt").write_bytes(text)


def _word_vectors(folder):
  (path,) = folder.iterdir()
  return WordVectors.from_file(path, show_progress=False).encode(TEXTS)


def _npy(folder):
  folder.mkdir()
  np.save(folder / "vectors.npy", cone(20, _DIM).astype(np.float32))


def sentence_transformers(folder):
  tiny.save_tiny(folder / "0_Transformer")
  (folder / "1_Pooling").mkdir()
  (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
  kinds = {"0_Transformer": "Transformer", "1_Pooling": "Pooling"}
  modules = [{"idx": i, "path": path, "type": f"st.models.{kind}"} for i, (path, kind) in enumerate(kinds.items())]
  (folder / "modules.json").write_text(json.dumps(modules))


def _labels(folder):
  loaded = Classifier.load(folder)
  return loaded.output_weights.numpy(), loaded.labels, loaded.encoder


_records = functools.partial(_embed_corpus, "tfrecord")
_arrays = functools.partial(_embed_corpus, "npy")

# Not checked are the folders of others, of which nobody knows the right bytes.
CASES = {
  "calibration": Case(lambda f: make_calibration("whitening-3").fit(cone(40, _DIM)).save(f), _transformed),
  "flow": Case(lambda f: _flow().save(f), _transformed, slow=True),
  "flow+soft-whitening": Case(_side_by_side, _transformed, slow=True),
  "classifier": Case(lambda f: Classifier(np.float32(cone(2, 12)), ("no", "yes")).save(f), _labels),
  "SentenceModel without calibration": Case(lambda f: SentenceModel(_encoder()).save(f), _model),
  "encoder, saved by us": Case(lambda f: save_encoder(_encoder(), f), _embedded, slow=True),
  "encoder in the hub's cache": Case(
    lambda f: hub_snapshot(f, tiny.save_tiny(f.parent / "source")),
    lambda f: _embedded(f / "snapshots" / "main"),
    checked=False,  # but after a download
    slow=True,
  ),
  "static: of an encoder saved by us": Case(
    lambda f: save_encoder(_encoder(), f), functools.partial(_embedded, name="static:")
  ),
  "Google's folder, written by us": Case(_google, _embedded, slow=True),
  "checkpoints of a fit": Case(_fitted, _fitted, slow=True),
  "embedding cache": Case(_cached, _cached),
  "run_embed's output, npy, resumed": Case(_arrays, _arrays),
  "run_embed's output, TFRecord, resumed": Case(_records, _records),
  "run_embed's output, npy, as vectors": Case(_arrays, _vectors),
  "exported SavedModel": Case(_export, _served, slow=True),
  "run_table's store": Case(_stored, _stored),
  "run_table's tables": Case(_table, lambda f: [table.json() for table in read_tables(f)]),
  "results.json": Case(_results, _origin),
  "a run, drawn again": Case(_run, _record, checked=False),  # anyone may write test_results.tsv
  "an evaluation of similarities, drawn again": Case(functools.partial(_run, predictions="a.tsv"), _record),
  # A bit of the key of the checksums makes it another key, which nobody reads.
  "training.json": Case(_facts, lambda f: [read_facts(f)[name] for name in ("step", "embedding")]),
  "encoder, Hugging Face's": Case(tiny.save_tiny, _embedded, checked=False, slow=True),
  "encoder, Hugging Face's, h5": Case(
    functools.partial(tiny.save_tiny, kind="h5"), _embedded, checked=False, slow=True
  ),
  "encoder, sentence-transformers'": Case(sentence_transformers, _embedded, checked=False, slow=True),
  "static: of Hugging Face's": Case(
    tiny.save_tiny, functools.partial(_embedded, name="static:"), checked=False, slow=True
  ),
  "Google's folder": Case(_unsealed_google, _embedded, checked=False, slow=True),
  "word vectors": Case(_words, _word_vectors, checked=False),
  "vectors of others, npy": Case(_npy, _vectors, checked=False),
}
