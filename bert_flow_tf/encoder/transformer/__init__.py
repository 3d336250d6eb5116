"""BERT and its relatives as `tf.Module`, without Keras and transformers: ids to hidden states.

Files, in the order in which to read them:

    transformer     Transformer: embeddings, blocks, pooled output; the place to begin
    architectures   an entry per architecture; activations by their names in config.json
    config          the checks and the settings of a config.json
    block           BERT's block, which most architectures share
    modernbert      ModernBERT's block
    deberta         DeBERTa's block
    layers          dense layer, normalization, dropout; rows of tokens without padding
    precisions      the names of number formats
    precision       number format of matrix products
    int8            matrix products of integers
    weights         names of weights; a transformer from arrays, a user's model or random values
    word_rows       the word embeddings alone, as a static encoder
"""
