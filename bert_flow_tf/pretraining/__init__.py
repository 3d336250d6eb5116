"""Training of a small BERT from scratch by masked-language modelling; nothing else imports it."""
