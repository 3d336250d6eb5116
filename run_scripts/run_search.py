"""Finds the sentences of a corpus that are nearest to queries: arguments, lines of a file, or typed ones.

bert-flow search corpus.txt "Who plays?" --calibration=soft-whitening
bert-flow search corpus.txt --flow_folder=exp/NAME/flow
bert-flow search corpus.txt --flow_folder=exp/NAME/flow --queries=queries.txt --output=hits.tsv
bert-flow search --vectors=FOLDER "Who plays?"
bert-flow search corpus.jsonl --id_column=_id --queries=queries.jsonl --query_id_column=_id --output_format=trec
"""

import collections
import dataclasses
import itertools
import os
import pathlib
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

if __package__ in (None, ""):  # run as a file, from any folder
  sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from absl import flags, logging

from bert_flow_tf.corpus.job import JobSettings
from bert_flow_tf.data.files.formats import kind_of
from bert_flow_tf.data.files.given_columns import warn_of_unused_ids
from bert_flow_tf.data.files.input_format import TEXT, TSV
from bert_flow_tf.data.files.rows import read_sentences
from bert_flow_tf.errors import ConfigError, DataError, naming
from bert_flow_tf.evaluation.retrieval import trec_line
from bert_flow_tf.io import storage
from bert_flow_tf.progress import counted
from bert_flow_tf.vectors.bm25 import check_hybrid
from bert_flow_tf.vectors.model_of_vectors import load_model_of
from bert_flow_tf.vectors.nearest import log_apart
from bert_flow_tf.vectors.search_choice import ExactSearch, search_of_embeddings, search_of_folder
from bert_flow_tf.vectors.sentence_index import SentenceIndex
from bert_flow_tf.vectors.vector_folder import VectorFolder
from run_scripts import common_flags, help_page, runner, text_flags

if TYPE_CHECKING:
  from bert_flow_tf.model import SentenceModel

FLAGS = flags.FLAGS
TREC = "trec"
# Flags of the corpus; those of the queries have a prefix.
_COLUMNS, _OF_QUERIES = ("column", "id_column", "header"), "query_"


def define_flags() -> None:
  """Defines the flags of this runner."""
  common_flags.define_settings(
    JobSettings, ("input", "input_format", "column", "id_column", "header", "max_record_bytes")
  )
  flags.DEFINE_multi_string("query", [], "Query, as the arguments after the file; may be given several times.")
  flags.DEFINE_string("queries", None, "File of queries; - is standard input. Default: typed ones.")
  text = "Column of the query, or several: names, in TSV and CSV also numbers from 1. Default: sentence or text, else "
  flags.DEFINE_string("query_column", None, f"{text}the only one.")
  text = "Column of the query's id, which becomes the column query_id. Default: queries are numbered from 1."
  flags.DEFINE_string("query_id_column", None, text)
  text = "Whether the first line of a TSV or CSV of queries names its columns. Default: yes if one is given by name."
  flags.DEFINE_boolean("query_header", None, text)
  text_flags.define_vectors_flag("Searched in place of input, with their encoder and calibration; ids are printed.")
  text_flags.define_index_flag()
  text = (
    "bm25 ranks sentences by the words that they share with the query, too (pip install 'bert-flow-tf[search]'): the "
  )
  text += "similarity becomes a sum of 1 / (60 + rank) over the 100 nearest and the first 100 by BM25. Default: none."
  flags.DEFINE_string("hybrid", None, text)
  flags.DEFINE_integer("top_k", 10, "Number of sentences for each query.", lower_bound=1)
  common_flags.define_model_flags()
  common_flags.define_query_prompt_flag()
  text_flags.define_fit_flag()
  text = "Whether calibration is fitted on the queries, too: search takes the difference of their mean and that of the "
  flags.DEFINE_boolean("fit_queries", False, f"{text}corpus away from queries, without labels. Some 64 suffice.")
  help_page.put_under("fit_queries", "corpus")
  text_flags.define_output_flag("With queries: file of the answers, another than those that are read")
  text = "tsv of query, rank, similarity, id and sentence, or trec: query's id, Q0, id, rank, similarity, bert_flow."
  flags.DEFINE_enum("output_format", TSV, [TSV, TREC], text)
  help_page.put_under("output_format", "io")


def take_corpus_and_queries(arguments: list[str]) -> None:
  """Makes the first argument the corpus, unless --input or --vectors names it, and the others queries."""
  if not FLAGS.input and FLAGS.vectors is None:
    FLAGS.input, arguments = arguments[:1], arguments[1:]
  for argument in arguments:
    if os.path.isfile(argument):
      message = f"input={argument}: a second file; expected queries after the corpus"
      raise ConfigError(f"{message}; several files are --input=FILE,FILE", argument="input")
  FLAGS.query = [*FLAGS.query, *arguments]


def check_flags() -> None:
  """Validates the flags before anything is loaded."""
  if FLAGS.vectors is not None:
    common_flags.reject(["prompt"], "stands before the texts of the vectors already; query_prompt is for queries")
  check_hybrid(FLAGS.hybrid)
  text_flags.check_vectors_flags(["id_column"], allowed=["engine"])  # of the queries
  text_flags.check_text_flags()
  text_flags.check_output_kind(FLAGS.output_format)
  if FLAGS.output and FLAGS.output.lower().endswith(f".{TREC}") and FLAGS.output_format != TREC:
    message = f"output={FLAGS.output}: {FLAGS.output_format} is written; give --output_format={TREC}, or another ending"
    raise ConfigError(message, argument="output")
  if FLAGS.fit_queries and (FLAGS.calibration is None or FLAGS.queries is None):
    missing = "queries=FILE" if FLAGS.queries is None else "calibration or recipe, which is fitted"
    raise ConfigError(f"fit_queries: needs {missing}", argument="fit_queries")
  for query in FLAGS.query:
    if not query.strip():
      raise ConfigError(f"query={query!r}: blank; expected text", argument="query")
  if FLAGS.queries is not None and FLAGS.query:
    raise ConfigError("queries: has no use with a query on the command line; leave one out", argument="queries")
  streams = [name for name in FLAGS.input if name == FLAGS.queries and storage.is_stream(name)]
  if streams:
    raise ConfigError("queries: standard input is the corpus already; expected another file", argument="queries")
  if FLAGS.queries is None:
    common_flags.reject([f"{_OF_QUERIES}{name}" for name in _COLUMNS], "needs queries=FILE, which has it")
  if FLAGS.queries is None and not FLAGS.query:
    common_flags.reject(["output", "output_format"], "needs queries; what is found for typed ones is printed")
    if "-" in FLAGS.input:
      raise ConfigError("queries: missing; expected queries, as standard input is the corpus", argument="queries")
    if sys.stdin is None:
      raise ConfigError("queries: missing; expected queries, as standard input is closed (<&-)", argument="queries")


def check_output_is_no_input() -> None:
  """Raises a ConfigError if the answers are written in place of the corpus or of the queries."""
  paths = text_flags.input_files() if FLAGS.vectors is None else []
  for path in (*paths, *filter(None, [FLAGS.queries])):
    if text_flags.is_same_file(FLAGS.output, path):
      name = "queries" if path == FLAGS.queries else "input"
      message = f"output={FLAGS.output}: is the file of {name}, whose records would be lost; expected another file"
      raise ConfigError(message, "output")


def read_queries() -> list[tuple[str, str]]:
  """Returns (id, text) of the queries of the command line, numbered from 1, or of --queries; [] if they are typed."""
  path = FLAGS.queries
  if path is None:
    return [(str(number), query) for number, query in enumerate(FLAGS.query, 1)]
  columns = {name: FLAGS[f"{_OF_QUERIES}{name}"].value for name in _COLUMNS}
  kind = None
  if kind_of(path) == TEXT and any(value is not None for value in columns.values()):
    kind = TSV
  settings = JobSettings(input=(path,), input_format=kind, max_record_bytes=FLAGS.max_record_bytes, **columns)
  with naming("queries", instead_of="input"):
    input_format = settings.format_of([path], _OF_QUERIES)
    queries = read_sentences([path], input_format)
  if FLAGS.query_id_column is not None:
    check_ids((name for name, _ in queries), f"query_id_column={FLAGS.query_id_column}: {path}")
  warn_of_unused_ids([path], input_format, "query_id_column")
  return queries


def check_ids(ids: Iterable[str], where: str) -> None:
  """Raises a DataError for an id that repeats, or as `check_id`."""
  known = set()
  for name in ids:
    if name in known:
      raise DataError(f"{where}: the id {name[:100]!r} repeats; expected distinct ids", where.partition("=")[0])
    check_id(name, where)
    known.add(name)


def check_id(name: str, where: str) -> None:
  """Raises a DataError for an id with what separates the columns of the output: a blank in TREC's format, or a tab."""
  if FLAGS.output_format == TREC and name.split() != [name]:
    message = f"{where}: the id {name[:100]!r} has a blank, which separates columns in TREC's format"
    raise DataError(f"{message}; expected ids without blanks, or output_format=tsv", where.partition("=")[0])
  if "\t" in name:
    message = f"{where}: the id {name[:100]!r} has a tab, which separates columns in a TSV; expected ids without tabs"
    raise DataError(message, where.partition("=")[0])


def typed() -> Iterator[str]:
  """Yields the lines of standard input that are not empty, after a prompt on a terminal."""
  prompt = "query: " if sys.stdin.isatty() else ""
  text_flags.use_utf8(sys.stdin, sys.stdout)
  while True:
    try:
      line = input(prompt)
    except EOFError:
      return
    except UnicodeDecodeError as error:
      raise DataError("standard input is not UTF-8; expected a query on each line") from error
    if line.strip():
      yield line


@dataclasses.dataclass(frozen=True)
class Corpus:
  """Corpus with the `model` of its embeddings.

  Attributes:
    searcher: finds the rows nearest to embeddings of queries.
    columns: names of the columns that tell a row.
    fields: returns the values of these columns for a row.
  """

  model: "SentenceModel"
  searcher: ExactSearch | SentenceIndex
  columns: tuple[str, ...]
  fields: Callable[[int], tuple[str, ...]]


def check_corpus_ids(ids: list[str], paths: str) -> None:
  """Raises a DataError for ids that the output cannot have; for a TSV, logs a warning of ids that repeat."""
  where = f"id_column={FLAGS.id_column}: {paths}"
  if FLAGS.output_format == TREC:
    check_ids(ids, where)
    return
  for name in ids:
    check_id(name, where)
  (first, count), *_ = collections.Counter(ids).most_common(1)
  if count > 1:
    logging.warning("id_column=%s: ids that repeat, such as %r, %d times", FLAGS.id_column, first[:100], count)


def text_corpus(queries: list[str]) -> Corpus:
  """Embeds the sentences of --input for queries, with which a calibration may be fitted."""
  paths = text_flags.input_files()
  # The settings' output_format is that of vectors.
  settings = common_flags.settings(JobSettings, output_format=JobSettings.output_format)
  input_format = settings.format_of(paths)
  corpus = read_sentences(paths, input_format)
  warn_of_unused_ids(paths, input_format, "id_column")
  if FLAGS.id_column is not None:
    check_corpus_ids([name for name, _ in corpus], ", ".join(paths)[:200])
  sentences = [sentence for _, sentence in corpus]
  model = text_flags.load_text_model(sentences, documents=True, queries=queries if FLAGS.fit_queries else None)
  embeddings = model.encode(sentences, FLAGS.predict_batch_size, show_progress_bar=True, normalize_embeddings=True)
  logging.info("%s", counted(len(corpus), "sentence", ","))
  searcher = search_of_embeddings(embeddings, FLAGS.index, len(queries), sentences if FLAGS.hybrid else None)
  return Corpus(model, searcher, ("id", "sentence"), lambda row: corpus[row])


def vector_corpus(queries: int) -> Corpus:
  """Opens the vectors of --vectors for a number of queries, and loads the model that embedded them."""
  vectors = VectorFolder.open(FLAGS.vectors)
  searcher = search_of_folder(vectors, FLAGS.index, queries, FLAGS.hybrid)
  name = FLAGS.init_checkpoint or FLAGS.model
  if not common_flags.given(["model", "init_checkpoint"]):
    name = None
  engine = FLAGS.engine if common_flags.given(["engine"]) else None
  model = load_model_of(vectors, name, FLAGS.flow_folder, FLAGS.model_cache_dir, FLAGS.query_prompt, engine)
  text_flags.log_uncalibrated(model, "embed with --flow_folder, or calibrate the vectors (bert-flow calibrate)")
  with_run = has_names_of_runs(vectors)

  def fields(row):
    name = vectors.id_of(row, with_run)
    check_id(name, f"vectors={FLAGS.vectors}")
    return (name,)

  return Corpus(model, searcher, ("id",), fields)


def has_names_of_runs(vectors: VectorFolder) -> bool:
  """Returns whether ids begin with the folders of their runs; in TREC's format only if they are not distinct without.

  Qrels have the ids of the records.
  """
  if FLAGS.output_format != TREC:
    return True
  repeated = vectors.id_of_several_runs()
  if repeated is None:
    return False
  message = "vectors=%s: several of its folders have the id %r, so that all ids are printed with their folder, as in "
  message += "FOLDER/%s; ids in qrels must have it, too"
  logging.warning(message, vectors.folder, repeated[:100], repeated[:100])
  return True


def log_prompts(model: "SentenceModel") -> None:
  """Logs the prompts of the corpus and of queries, if there are any."""
  from bert_flow_tf.encoder.checkpoints.declared import QUERY

  prompt, query_prompt = model.encoder.prompt, model.encoder.prompt_of(QUERY)
  if prompt and prompt == query_prompt:
    logging.warning("%r stands before the texts of the corpus and before queries; --query_prompt is for these", prompt)
  elif prompt or query_prompt:
    logging.info("%r stands before the texts of the corpus, %r before queries", prompt, query_prompt)


def log_unknown(model: "SentenceModel", queries: list[str]) -> None:
  """Logs a warning of queries whose embedding tells nothing."""
  unknown = [query for query, is_known in zip(queries, model.knows(queries), strict=True) if not is_known]
  if unknown:
    message = "%s of nothing but pieces that the encoder's vocabulary does not know ([UNK]), such as %r: what is found "
    message += "for such a query is arbitrary, and a similarity of 1 is that of any text of unknown words"
    logging.warning(message, counted(len(unknown), "query"), unknown[0][:100])


def main() -> None:
  """Embeds or opens the corpus, then answers the queries."""
  check_flags()
  check_output_is_no_input()
  queries = read_queries()
  texts = [text for _, text in queries]
  corpus = text_corpus(texts) if FLAGS.vectors is None else vector_corpus(len(queries))
  log_prompts(corpus.model)

  def hits(texts):
    """Yields (position of the query, rank, cosine, row) of each query's nearest sentences."""
    log_unknown(corpus.model, texts)
    embeddings = corpus.model.encode_query(texts, FLAGS.predict_batch_size)
    log_apart(corpus.model, embeddings)
    nearest = corpus.searcher.search(embeddings, FLAGS.top_k, texts if FLAGS.hybrid else None)
    for position, (scores, rows) in enumerate(zip(nearest.scores, nearest.rows, strict=True)):
      for rank, (score, row) in enumerate(zip(scores, rows, strict=True), 1):
        yield position, rank, score, row

  is_table = len(queries) > 1 or FLAGS.queries is not None or FLAGS.output is not None
  if FLAGS.output_format == TREC:
    text_flags.write_output("".join(run_lines(queries, hits(texts), corpus)).encode("utf-8"))
  elif is_table:
    score_name = "score" if FLAGS.hybrid else "similarity"
    table = [("query_id", "query", "rank", score_name, *corpus.columns)]
    for position, rank, score, row in hits(texts):
      table.append((*queries[position], str(rank), f"{score:.6f}", *corpus.fields(row)))
    if FLAGS.query_id_column is None:
      table = [fields[1:] for fields in table]
    text_flags.write_output("".join(map(_line, table)).encode("utf-8"))
  else:
    for query in texts or typed():
      for _, _, score, row in hits([query]):
        print(_line((f"{score:.6f}", *corpus.fields(row))), end="", flush=True)


def run_lines(queries: list[tuple[str, str]], hits: Iterable[tuple], corpus: Corpus) -> Iterator[str]:
  """Yields the lines of a run in TREC's format."""
  for position, of_query in itertools.groupby(hits, key=lambda hit: hit[0]):
    found = [(corpus.fields(row)[0], rank, score) for _, rank, score, row in of_query]
    if FLAGS.vectors is not None:
      check_ids((name for name, _, _ in found), f"vectors={FLAGS.vectors}")
    for name, rank, score in found:
      yield trec_line(queries[position][0], name, rank, score)


def _line(fields):
  """Returns a line of fields, in whose texts tabs and line breaks become spaces."""
  return "\t".join(re.sub(r"[\t\r\n]+", " ", field) for field in fields) + "\n"


console = runner.command(define_flags, main, resumes=False, prints_output=True, take_arguments=take_corpus_and_queries)

if __name__ == "__main__":
  console()
