"""Embeds a column of Parquet files on a Spark cluster: all rows, with their embeddings, become Parquet files.

    pip install bert-flow-tf pyspark 'pandas<3' pyarrow      # on each machine, next to Java 17
    spark-submit --master=spark://HOST:7077 --conf spark.executor.cores=4 --conf spark.task.cpus=4 \
      examples/spark_embed.py --model=exp/NAME/flow --input=corpus --column=sentence --output=vectors

All machines find model, input and output under the same paths. A task reads one input file, or a part of a file of more
than 128 MB, and computes with `spark.task.cpus` threads; if its executor is killed, another executor repeats it. Rows
without a sentence are left out, as by `bert-flow embed`.
"""

import argparse
import functools
import os
import sys
from collections.abc import Callable, Iterator

import pandas as pd
import tensorflow as tf
from pyspark import TaskContext
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession, functions

from bert_flow_tf import SentenceModel
from bert_flow_tf.errors import BertFlowError


@functools.cache
def load_model(folder: str, threads: int) -> SentenceModel:
  """Loads a saved model, once per process, and lets TensorFlow and the tokenizer use `threads` threads."""
  print(f"loading {folder} for {threads} threads", file=sys.stderr, flush=True)  # in the executor's log
  os.environ["RAYON_NUM_THREADS"] = str(threads)
  tf.config.threading.set_intra_op_parallelism_threads(threads)
  tf.config.threading.set_inter_op_parallelism_threads(threads)
  return SentenceModel.load(folder)


def make_udf(folder: str) -> Callable:
  """Returns Spark's function from a column of sentences to a column of embeddings, array<float>, of a saved model."""

  @functions.pandas_udf("array<float>")
  def embed(batches: Iterator[pd.Series]) -> Iterator[pd.Series]:
    # Spark sends this function anew with each task; the module stays in the worker, and with it the loaded model.
    import spark_embed

    model = spark_embed.load_model(folder, TaskContext.get().cpus())
    for sentences in batches:
      embeddings = model.encode_document(sentences.tolist())
      yield pd.Series(list(embeddings))

  return embed


def embed_files(options: argparse.Namespace) -> None:
  """Writes the rows of the input files whose sentence is not empty, with the column `embedding`."""
  spark = SparkSession.builder.appName("spark_embed").getOrCreate()
  spark.sparkContext.addPyFile(__file__)
  # Spark would read several small files in a task; a file that counts as 128 MB has a task for itself.
  spark.conf.set("spark.sql.files.openCostInBytes", spark.conf.get("spark.sql.files.maxPartitionBytes"))
  sentences = functions.col(options.column)
  rows = spark.read.parquet(options.input).where(sentences.rlike(r"(?U)\S"))
  embed = make_udf(options.model)
  rows.withColumn("embedding", embed(sentences)).write.parquet(options.output)


def main() -> None:
  """Checks the model on this machine, then embeds the files on the cluster."""
  parser = argparse.ArgumentParser(description="Embeds Parquet files on a Spark cluster.")
  parser.add_argument("--model", required=True, help="folder that SentenceModel.save or bert-flow fit wrote")
  parser.add_argument("--input", required=True, help="Parquet file, or folder of files")
  parser.add_argument("--output", required=True, help="folder to write, which does not exist")
  parser.add_argument("--column", default="sentence", help="column of the sentences")
  options = parser.parse_args()
  options.model = os.path.abspath(options.model)  # a worker has another working folder
  try:
    model = SentenceModel.load(options.model)
    embed_files(options)
  except (AnalysisException, BertFlowError) as error:
    sys.exit(str(error).splitlines()[0])
  print(f"{options.output}: embeddings of {model.output_dim} dimensions by {model.name}")


if __name__ == "__main__":
  main()
