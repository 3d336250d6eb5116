"""Evaluation: similarities of sentence pairs, their agreement with gold, and the figures. No TensorFlow here.

`score_pairs` and `bootstrap_gain` are the numbers of every table and page: Spearman, Pearson or ROC AUC, and the gain
of a calibration with its 95 % interval.

Files in reading order:

    metrics       cosines; Spearman, Pearson and ROC AUC of pairs, and their means over subsets
    bootstrap     interval of a gain, by the paired bootstrap
    controls      string matches of pairs, without any weight of an encoder
    task_scores   scores of the splits of a task, of any function that embeds its sentences
    result        TaskResult: all numbers of a run on a task
    scored_tasks  tasks with gold, and files of similarities that other programs wrote
    isotropy      IsoScore, singular values, and the warning where no cone is left to remove
    mixtures      scores without labels, of which `auto` takes the best
    retrieval     measures of a search for judged queries, as trec_eval has them
    figures       figures of a run's page
"""

from bert_flow_tf.evaluation.bootstrap import Gain, bootstrap_gain
from bert_flow_tf.evaluation.metrics import cosine_similarity, score_pairs

__all__ = ["Gain", "bootstrap_gain", "cosine_similarity", "score_pairs"]
