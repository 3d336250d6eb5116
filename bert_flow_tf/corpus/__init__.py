"""Corpora larger than memory: their records become shards of vectors, which an interrupted run resumes.

Files in reading order:

    job         EmbeddingJob, a run over a corpus, and JobSettings; the place to begin
    shard_plan  which records are in which shard, and a reader of shards
    resume      the manifest of a run, which decides whether it resumes an earlier one
    embedding   shards embedded in this process
    beam        shards embedded by a runner of Apache Beam
    models      the model of a run, on this machine and on workers

`bert_flow_tf/vectors` has the files of the shards, which it reads again. `sentence_index` is a former name.
"""

from bert_flow_tf.corpus.job import EmbeddingJob, JobSettings

__all__ = ["EmbeddingJob", "JobSettings"]
