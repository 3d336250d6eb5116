"""Training of a small BERT from scratch by masked-language modeling; no other part imports it."""
