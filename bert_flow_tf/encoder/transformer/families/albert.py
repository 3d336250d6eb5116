"""ALBERT (Lan et al. 2020): all blocks share their weights, word embeddings are widened."""

from bert_flow_tf.encoder.transformer.families.architecture import BERT_SPECIALS, Architecture

_LAYERS = {
  "query": "attention/query",
  "key": "attention/key",
  "value": "attention/value",
  "attended": "attention/dense",
  "attended_norm": "attention/LayerNorm",
  "inner": "ffn",
  "outer": "ffn_output",
  "outer_norm": "full_layer_layer_norm",
}
ARCHITECTURES = {
  "albert": Architecture(
    "Albert",
    "albert",
    block="encoder/albert_layer_groups_._0/albert_layers_._0",
    layers=_LAYERS,
    pooler="pooler",
    projection="encoder/embedding_hidden_mapping_in",
    always_projects=True,
    defaults={"hidden_act": "gelu_new", "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0},
    fixed={"num_hidden_groups": (1, 1), "inner_group_num": (1, 1)},
    specials=BERT_SPECIALS | {"unk_token": "<unk>", "pad_token": "<pad>"},
    vocabularies=("tokenizer.json", "spiece.model"),
  )
}
