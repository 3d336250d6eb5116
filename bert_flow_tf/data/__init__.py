"""Data: sentences and pairs with gold scores, from the files of published tasks and of users; without TensorFlow.

Files in reading order:

    pairs         SentencePairs, and checks of the sentences that a caller passes; the place to begin
    task          TaskSpec, a row of the registry of tasks, and TaskData, the pairs of a task
    tasks         the registry, `find_task` and `load_task`
    table         a task in a file of columns: the file's place, its columns, its labels
    loading       splits of tasks from tables, or from TensorFlow Datasets
    semeval       STS-12 to STS-16 and SICK
    stsb          the STS benchmark
    nli           SNLI and MNLI
    files/        lines and records of text, TSV, CSV, JSON lines, Parquet and TFRecords
    custom        a user's file as a task
    beir          a folder of a search with judgments as a task
    flow_corpus   which sentences a flow is fitted on
    siamese_task  labels of the published runner
    tfds_source   TensorFlow Datasets that are prepared, or downloaded
    tfds_builders our own builders of TensorFlow Datasets
"""

from bert_flow_tf.data.pairs import SentencePairs, Subset

__all__ = ["SentencePairs", "Subset"]
