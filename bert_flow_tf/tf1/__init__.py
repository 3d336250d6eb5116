"""Checkpoints of TensorFlow 1: Google's BERT folders and the original BERT-flow's, read and written."""
