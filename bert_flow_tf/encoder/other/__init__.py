"""Encoders that are no transformer: SavedModels and word vectors.

Files, in the order in which to read them:

    vector_encoder   VectorEncoder, the base of both: vectors of whole texts
    saved_model      a SavedModel from text to vectors, `saved_model:FOLDER`
    word_encoder     averages of word vectors, `glove:FILE`
    word_vectors     reading and averaging of word vectors, without TensorFlow
"""
