"""Finds the sentences of a corpus that are nearest to queries: arguments, lines of a file, or typed ones.

bert-flow search corpus.txt "Who plays?" --calibration=soft-whitening
bert-flow search corpus.txt --flow_folder=exp/NAME/flow
bert-flow search corpus.txt --flow_folder=exp/NAME/flow --queries=queries.txt --output=hits.tsv
bert-flow search --vectors=FOLDER "Who plays?"
"""

import dataclasses
import os
import pathlib
import re
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if __package__ in (None, ""):  # run as a file, from any folder
  sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from absl import flags, logging

from bert_flow_tf.corpus.job import JobSettings
from bert_flow_tf.data.files.given_columns import sentence_format
from bert_flow_tf.data.files.input_format import TSV
from bert_flow_tf.data.files.rows import read_sentences
from bert_flow_tf.errors import ConfigError, DataError, naming
from bert_flow_tf.progress import counted
from bert_flow_tf.vectors.model_of_vectors import load_model_of
from bert_flow_tf.vectors.search_choice import ExactSearch, search_of_embeddings, search_of_folder
from bert_flow_tf.vectors.sentence_index import SentenceIndex
from bert_flow_tf.vectors.vector_folder import VectorFolder
from run_scripts import common_flags, quiet, runner, text_flags

if TYPE_CHECKING:
  from bert_flow_tf.model import SentenceModel

FLAGS = flags.FLAGS


def define_flags() -> None:
  """Defines the flags of this runner."""
  common_flags.define_settings(
    JobSettings, ("input", "input_format", "column", "id_column", "header", "max_record_bytes")
  )
  flags.DEFINE_multi_string("query", [], "Query, as the arguments after the file; may be given several times.")
  flags.DEFINE_string("queries", None, "File of queries. Default: lines of standard input.")
  text_flags.define_vectors_flag("Searched in place of input, with their encoder and calibration; ids are printed.")
  text_flags.define_index_flag()
  flags.DEFINE_integer("top_k", 10, "Number of sentences for each query.", lower_bound=1)
  common_flags.define_model_flags()
  common_flags.define_query_prompt_flag()
  text_flags.define_fit_flag()
  text_flags.define_output_flag("With queries: TSV file of query, rank, similarity, id and sentence")


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
  text_flags.check_vectors_flags(["id_column"])
  text_flags.check_text_flags()
  text_flags.check_output_kind(TSV)
  for query in FLAGS.query:
    if not query.strip():
      raise ConfigError(f"query={query!r}: blank; expected text", argument="query")
  if FLAGS.queries is not None and FLAGS.query:
    raise ConfigError("queries: has no use with a query on the command line; leave one out", argument="queries")
  if FLAGS.queries is None and not FLAGS.query:
    common_flags.reject(["output"], "needs queries; what is found for typed ones is printed")
    if "-" in FLAGS.input:
      raise ConfigError("queries: missing; expected queries, as standard input is the corpus", argument="queries")


def read_queries() -> list[str]:
  """Returns the queries of the command line, or of --queries; [] if they are typed."""
  if FLAGS.queries is None:
    return FLAGS.query
  with naming("queries"):
    hint = ", a query on each line"
    queries = sentence_format(FLAGS.queries, argument="queries", hint=hint, max_bytes=FLAGS.max_record_bytes)
    return [query for _, query in read_sentences([FLAGS.queries], queries)]


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


def text_corpus(queries: int) -> Corpus:
  """Embeds the sentences of --input for a number of queries."""
  paths = text_flags.input_files()
  corpus = read_sentences(paths, common_flags.settings(JobSettings).format_of(paths))
  sentences = [sentence for _, sentence in corpus]
  model = text_flags.load_text_model(sentences, documents=True)
  embeddings = model.encode(sentences, FLAGS.predict_batch_size, show_progress_bar=True, normalize_embeddings=True)
  logging.info("%s", counted(len(corpus), "sentence", ","))
  searcher = search_of_embeddings(embeddings, FLAGS.index, queries)
  return Corpus(model, searcher, ("id", "sentence"), lambda row: corpus[row])


def vector_corpus(queries: int) -> Corpus:
  """Opens the vectors of --vectors for a number of queries, and loads the model that embedded them."""
  vectors = VectorFolder.open(FLAGS.vectors)
  searcher = search_of_folder(vectors, FLAGS.index, queries)
  quiet.import_tensorflow()
  name = FLAGS.init_checkpoint or FLAGS.model
  if not common_flags.given(["model", "init_checkpoint"]):
    name = None
  model = load_model_of(vectors, name, FLAGS.flow_folder, FLAGS.model_cache_dir, FLAGS.query_prompt)
  return Corpus(model, searcher, ("id",), lambda row: (vectors.id_of(row),))


def log_prompts(model: "SentenceModel") -> None:
  """Logs the prompts of the corpus and of queries, if there are any."""
  from bert_flow_tf.encoder.checkpoints.declared import QUERY

  prompt, query_prompt = model.encoder.prompt, model.encoder.prompt_of(QUERY)
  if prompt and prompt == query_prompt:
    logging.warning("%r stands before the texts of the corpus and before queries; --query_prompt is for these", prompt)
  elif prompt or query_prompt:
    logging.info("%r stands before the texts of the corpus, %r before queries", prompt, query_prompt)


def main() -> None:
  """Embeds or opens the corpus, then answers the queries."""
  check_flags()
  queries = read_queries()
  corpus = text_corpus(len(queries)) if FLAGS.vectors is None else vector_corpus(len(queries))
  log_prompts(corpus.model)

  def hits(texts):
    """Yields (query, rank, cosine, id and sentence) of each query's nearest sentences."""
    nearest = corpus.searcher.search(corpus.model.encode_query(texts, FLAGS.predict_batch_size), FLAGS.top_k)
    for query, scores, rows in zip(texts, nearest.scores, nearest.rows, strict=True):
      for rank, (score, row) in enumerate(zip(scores, rows, strict=True), 1):
        yield query, str(rank), f"{score:.6f}", *corpus.fields(row)

  if len(queries) > 1 or FLAGS.queries is not None or FLAGS.output is not None:
    table = [("query", "rank", "similarity", *corpus.columns), *hits(queries)]
    text_flags.write_output("".join(map(_line, table)).encode("utf-8"))
    return
  for query in queries or typed():
    for hit in hits([query]):
      print(_line(hit[2:]), end="", flush=True)


def _line(fields):
  """Returns a line of fields, in which tabs and line breaks are spaces."""
  return "\t".join(re.sub(r"[\t\r\n]+", " ", field) for field in fields) + "\n"


console = runner.command(define_flags, main, resumes=False, prints_output=True, take_arguments=take_corpus_and_queries)

if __name__ == "__main__":
  console()
