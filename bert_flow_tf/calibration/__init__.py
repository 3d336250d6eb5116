"""Post-processings of embeddings beside the flow: mean removal, SN, NATSV, whitening; no TensorFlow here."""
