"""BERT and its relatives as `tf.Module`, without Keras and transformers: ids to hidden states.

Files, in the order in which to read them:

    transformer     Transformer: embeddings, blocks, pooled output; the place to begin
    architectures   {model_type: architecture}, of the families' files
    families/       a file per family: how it differs from BERT, and the checks of the keys that only it has
    config          the checks and the settings of a config.json
    activations     activations by their names in config.json
    blocks/         BERT's block, which most families share, ModernBERT's and DeBERTa's
    layers          dense layer, normalization, dropout; rows of tokens without padding
    number_formats  names of the precisions
    products        matrix products in a precision
    int8_inputs     what int8 knows of the inputs of dense layers, without TensorFlow
    int8            matrix products of integers
    distances       buckets of the distances of two tokens, without TensorFlow
    weight_names    names and shapes of weights, and their checksum, without TensorFlow
    weights         names of weights in files; a transformer from arrays, a user's model or random values
"""
