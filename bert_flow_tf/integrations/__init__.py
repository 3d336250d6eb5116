"""Models as other programs call them. For Pipelines of scikit-learn see `SentenceModel.as_transformer`.

Files:

    sentence_transformers  sentence-transformers' evaluators, and mteb
    senteval               SentEval's `prepare` and `batcher`
    senteval_engine        evaluation by an installed SentEval, or a trusted checkout
"""

__all__ = ["sentence_transformers", "senteval", "senteval_engine"]
