"""Similarity, its agreement with gold scores, and the report; no TensorFlow here."""
