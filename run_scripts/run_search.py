"""Finds the sentences of a corpus that are nearest to queries: those of a file, or typed, a line each.

python run_scripts/run_search.py corpus.txt --flow_folder=exp/NAME/flow
python run_scripts/run_search.py corpus.txt --flow_folder=exp/NAME/flow --queries=queries.txt --output=hits.tsv
"""

import pathlib
import re
import sys
from collections.abc import Iterator

if __package__ in (None, ""):  # run as a file, from any folder
  sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from absl import flags, logging

from bert_flow_tf.corpus.job import JobSettings
from bert_flow_tf.data.lines import lines
from bert_flow_tf.data.records import read_sentences
from bert_flow_tf.errors import DataError, naming
from bert_flow_tf.neighbors import search_embeddings
from bert_flow_tf.progress import counted
from run_scripts import common_flags, runner, text_flags

FLAGS = flags.FLAGS


def define_flags() -> None:
  """Defines the flags of this runner."""
  common_flags.define_settings(JobSettings, ("input", "input_format", "column", "id_column", "header"))
  flags.DEFINE_string("queries", None, "Text file with a query on each line. Default: lines of standard input.")
  flags.DEFINE_integer("top_k", 10, "Number of sentences for each query.", lower_bound=1)
  common_flags.define_model_flags()
  text_flags.define_output_flag("With queries: TSV file of query, rank, similarity, id and sentence")


def check_flags() -> None:
  """Validates the flags before anything is loaded."""
  text_flags.check_text_flags()
  if FLAGS.queries is None:
    common_flags.reject(["output"], "needs queries, a file; what is found for typed ones is printed")


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


def main() -> None:
  """Embeds the corpus, then answers the queries."""
  check_flags()
  paths = text_flags.input_files()
  corpus = read_sentences(paths, common_flags.settings(JobSettings).format_of(paths))
  queries = []
  if FLAGS.queries is not None:
    with naming("queries"):
      queries = [query for _, query in lines(FLAGS.queries, "skip")]
      if not queries:
        raise DataError(f"{FLAGS.queries} is empty; expected a query on each line")
  model = text_flags.load_text_model()
  sentences = [sentence for _, sentence in corpus]
  embeddings = model.encode(sentences, FLAGS.predict_batch_size, show_progress_bar=True)
  logging.info("%s", counted(len(corpus), "sentence", ","))

  def hits(texts):
    """Yields (query, rank, cosine, id, sentence) of each query's nearest sentences."""
    found = search_embeddings(model.encode(texts, FLAGS.predict_batch_size), embeddings, FLAGS.top_k)
    for query, scores, rows in zip(texts, found.scores, found.rows, strict=True):
      for rank, (score, row) in enumerate(zip(scores, rows, strict=True), 1):
        yield query, str(rank), f"{score:.6f}", *corpus[row]

  if queries:
    table = [("query", "rank", "similarity", "id", "sentence"), *hits(queries)]
    text_flags.write_output("".join(map(_line, table)).encode("utf-8"))
    return
  for query in typed():
    for hit in hits([query]):
      print(_line(hit[2:]), end="", flush=True)


def _line(fields):
  """Returns a line of fields, in which tabs and line breaks are spaces."""
  return "\t".join(re.sub(r"[\t\r\n]+", " ", field) for field in fields) + "\n"


console = runner.command(define_flags, main, resumes=False)

if __name__ == "__main__":
  console()
