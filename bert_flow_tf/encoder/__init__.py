"""Encoders of sentences: text to ids, hidden states, and the poolings that make one embedding of them.

In the order of imports: pooling and cache; transformer/; settings and identity; checkpoints/; text/; graph/;
text_encoder, the base of all encoders; other/ and user_model; transformer_encoder; layer, the encoder in a Keras model;
sentence_encoder, which loads every kind; encoder_graph and saving.
"""
