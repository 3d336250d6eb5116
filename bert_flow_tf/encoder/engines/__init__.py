"""Programs that compute the hidden states of a frozen encoder in place of TensorFlow, from its weights as arrays.

Files, in the order in which to read them:

    openvino_engine   OpenVinoEngine: ids of texts to hidden states; the place to begin
    openvino_model    the operations of a model: embeddings, blocks, outputs
    openvino_blocks   the blocks, as in `transformer/blocks`
    openvino_layers   dense layers, normalizations, activations; rows of tokens without padding
    openvino_export   a model as a file, from ids of tokens to calibrated embeddings
"""
