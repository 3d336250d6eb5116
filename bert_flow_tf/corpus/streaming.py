"""All shards of a run, one after the other, in this process."""

from bert_flow_tf.corpus.embedding import embed_shard
from bert_flow_tf.corpus.reading import ShardReader
from bert_flow_tf.progress import Progress


def pending(index, folder):
  """What is left to do, and what is done: list of `ShardTask`s, {shard: counters}.

  Args:
    index: `Index`.
    folder: `ShardFolder`.
  """
  done = {task.number: folder.finished(task.number) for task in index.shards}
  done = {number: counters for number, counters in done.items() if counters is not None}
  return [task for task in index.shards if task.number not in done], done


def run_streaming(index, folder, wanted, embed, show_progress=True):
  """Writes every shard that is not finished; memory holds one at a time.

  Args:
    index: `Index`.
    folder: `ShardFolder`.
    wanted: `InputFormat`.
    embed: list of str -> float32 [n, dim].
    show_progress: as in `Progress`.

  Raises:
    BertFlowError: a file changed or cannot be read, or the model fails.
    OSError: a shard cannot be written.
  """
  tasks, done = pending(index, folder)
  reader = ShardReader(wanted)
  already = sum(task.records for task in index.shards if task.number in done)
  try:
    with Progress(index.records, show_progress, done=already) as progress:
      for task in tasks:
        found = reader.read(task)
        progress.update(task.records - len(found.records))
        found, vectors = embed_shard(found, embed, folder.dim, progress.update)
        folder.write(task.number, found, vectors)
  finally:
    reader.close()
