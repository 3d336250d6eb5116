"""Encoders of sentences: text to ids, hidden states, and the poolings that make one embedding of them.

In the order of imports: pooling and cache; transformer/; settings and identity; checkpoints/; text/; graph/;
text_encoder, the base of all encoders; other/, layer and user_model; sentence_encoder; encoder_graph and saving.
"""
