"""ELECTRA's discriminator (Clark et al. 2020): word embeddings may be narrower than hidden states."""

from bert_flow_tf.encoder.transformer.families.architecture import Architecture

ARCHITECTURES = {"electra": Architecture("Electra", "electra", pooler="", projection="embeddings_project")}
