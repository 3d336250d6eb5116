"""RoBERTa (Liu et al. 2019), XLM-R (Conneau et al. 2020) and CamemBERT (Martin et al. 2020)."""

import dataclasses

from bert_flow_tf.encoder.transformer.families.architecture import Architecture

SPECIALS = {
  "unk_token": "<unk>",
  "sep_token": "</s>",
  "pad_token": "<pad>",
  "cls_token": "<s>",
  "mask_token": "<mask>",
}
# The padding token has the id 1.
DEFAULTS = {"pad_token_id": 1}

_XLM_ROBERTA = Architecture(
  "XLMRoberta",
  "roberta",
  counts_from_pad=True,
  defaults=DEFAULTS,
  specials=SPECIALS,
  vocabularies=("tokenizer.json", "sentencepiece.bpe.model"),
)
ARCHITECTURES = {
  "roberta": dataclasses.replace(_XLM_ROBERTA, name="Roberta", vocabularies=("tokenizer.json", "vocab.json")),
  "xlm-roberta": _XLM_ROBERTA,
  "camembert": dataclasses.replace(_XLM_ROBERTA, name="Camembert"),
}
