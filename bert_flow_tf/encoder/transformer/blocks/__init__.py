"""The blocks of the transformers: BERT's, which most families share, ModernBERT's and DeBERTa's."""
