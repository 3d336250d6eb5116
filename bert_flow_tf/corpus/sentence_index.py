"""The former place of `bert_flow_tf.SentenceIndex`."""

from bert_flow_tf.errors import deprecated
from bert_flow_tf.vectors.sentence_index import SentenceIndex

__all__ = ["SentenceIndex"]

deprecated(__name__, since="0.3", use="bert_flow_tf.SentenceIndex")
