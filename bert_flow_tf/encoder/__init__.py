"""BERT and the poolings that make one embedding of a sentence."""
