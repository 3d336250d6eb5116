"""Our models as other programs measure them: sentence-transformers, mteb, SentEval."""
