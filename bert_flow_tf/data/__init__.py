"""Data: sentences and pairs with gold scores, from the files of published tasks and of users; without TensorFlow.

Files in reading order:

    pairs         SentencePairs, and checks of the sentences that a caller passes; the place to begin
    task          TaskSpec, a row of the registry of tasks, and TaskData, what a task has
    tasks         the registry, `find_task` and `load_task`
    table         a task in a file of columns: where it is, what its columns are, how its labels read
    loading       splits of tasks from tables, or from TensorFlow Datasets
    lines         lines of a text file; each error names the line
    semeval       STS-12 to STS-16 and SICK
    stsb          the STS benchmark
    nli           SNLI and MNLI
    columns       which columns of a user's file are sentences, pairs and scores
    text_readers  records of text, TSV, CSV and JSON lines, from any record on
    readers       records of Parquet and TFRecords; `open_reader`
    records       a user's file that is read whole, and written again
    custom        a user's file as a task
    flow_corpus   which sentences a flow is fitted on
    siamese_task  labels of the published runner
    pipeline      batches of a training, as a tf.data.Dataset
    tfds_source   TensorFlow Datasets: what is prepared, or downloaded
    tfds_builders our own builders of TensorFlow Datasets
"""

from bert_flow_tf.data.pairs import SentencePairs, Subset

__all__ = ["SentencePairs", "Subset"]
