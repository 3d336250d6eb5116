"""Corpora larger than memory: their records become shards of vectors, which an interrupted run resumes.

Files in reading order:

    job             EmbeddingJob, a run over a corpus, and JobSettings; the place to begin
    index           which records are in which shard, and a reader of shards
    shards          the folder of a run: manifest, vectors, ids, bad records
    embedding       shards embedded in this process
    beam            shards embedded by a runner of Apache Beam
    vector_files    files of vectors, of any program
    vectors         folders of shards, read again
    sentence_index  an index of vectors, by which a search reads a part of them
    index_files     the files of such an index
    models          the model of a run, on this machine and on workers
    calibrating     calibrations that are fitted on, and applied to, files of vectors
"""

from bert_flow_tf.corpus.job import EmbeddingJob, JobSettings

__all__ = ["EmbeddingJob", "JobSettings"]
