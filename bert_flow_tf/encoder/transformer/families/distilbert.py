"""DistilBERT (Sanh et al. 2019): other names, no segments, no pooled output."""

from bert_flow_tf.encoder.transformer.families.architecture import ATTENDED, BERT_DROPOUTS, Architecture

_LAYERS = {
  "query": "attention/q_lin",
  "key": "attention/k_lin",
  "value": "attention/v_lin",
  "attended": "attention/out_lin",
  "attended_norm": "sa_layer_norm",
  "inner": "ffn/lin1",
  "outer": "ffn/lin2",
  "outer_norm": "output_layer_norm",
}
_DROPOUTS = {place: key for place, key in BERT_DROPOUTS.items() if place != ATTENDED}
ARCHITECTURES = {
  "distilbert": Architecture(
    "DistilBert",
    "distilbert",
    block="transformer/layer_._{}",
    layers=_LAYERS,
    pooler="",
    keys={
      "hidden_size": "dim",
      "num_hidden_layers": "n_layers",
      "num_attention_heads": "n_heads",
      "intermediate_size": "hidden_dim",
      "hidden_act": "activation",
      "hidden_dropout_prob": "dropout",
      "attention_probs_dropout_prob": "attention_dropout",
      "type_vocab_size": "",
      "layer_norm_eps": "",
    },
    dropouts=_DROPOUTS,
  )
}
