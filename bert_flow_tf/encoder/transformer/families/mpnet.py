"""MPNet (Song et al. 2020): attention depends on the distance of two tokens, in buckets."""

from bert_flow_tf.encoder.transformer.families.architecture import BERT_LAYERS, Architecture
from bert_flow_tf.encoder.transformer.families.roberta import DEFAULTS, SPECIALS

_LAYERS = BERT_LAYERS | {
  "query": "attention/attn/q",
  "key": "attention/attn/k",
  "value": "attention/attn/v",
  "attended": "attention/attn/o",
  "attended_norm": "attention/LayerNorm",
}
ARCHITECTURES = {
  "mpnet": Architecture(
    "MPNet",
    "mpnet",
    layers=_LAYERS,
    has_relative_positions=True,
    counts_from_pad=True,
    pad_id=1,
    keys={"type_vocab_size": ""},
    defaults=DEFAULTS,
    # PyTorch's code has 32 buckets whatever the file says.
    fixed={"relative_attention_num_buckets": (32, 32)},
    specials=SPECIALS | {"unk_token": "[UNK]"},
  )
}
