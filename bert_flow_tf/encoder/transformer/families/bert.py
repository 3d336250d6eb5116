"""BERT (Devlin et al. 2019), whose values are the defaults of a row."""

from bert_flow_tf.encoder.transformer.families.architecture import Architecture

ARCHITECTURES = {"bert": Architecture("Bert", "bert")}
