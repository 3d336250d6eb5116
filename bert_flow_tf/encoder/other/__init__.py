"""Encoders that are no transformer: SavedModels, word vectors and static models.

Files, in the order in which to read them:

    vector_encoder   VectorEncoder, the base of both: vectors of whole texts
    saved_model      a SavedModel from text to vectors, `saved_model:FOLDER`
    word_encoder     averages of word vectors, `glove:FILE`
    word_vectors     reading and averaging of word vectors, without TensorFlow
    token_vectors    a vector per token in place of a transformer, `static:NAME`
    static_model     static models of model2vec and sentence-transformers, `static:FOLDER`: the parts of an encoder
"""
