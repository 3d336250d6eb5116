"""The tokenizers as TensorFlow graphs; imported where a graph is made."""
