"""Encoders: from sentences to embeddings, float32 [n, dim].

Text becomes ids of tokens, ids become hidden states, and a pooling makes one embedding per sentence. TensorFlow is
imported where it computes: OpenVINO, static models and word vectors need none. `bert_flow_tf` has `SentenceEncoder`.

Files and folders in reading order (BUILD has the order of imports):

    loading              the loader: from a name to an encoder of its kind; the place to begin
    sentence_encoder     SentenceEncoder: a transformer, or its word rows alone, as an encoder
    text_encoder         TextEncoder, the base of all encoders: `encode`, cache, identity
    kinds                kinds of encoders, by the first part of their names
    settings             EncoderSettings: flags, keywords and identity derive from its fields
    pooling              names of poolings and their computation
    array_functions      functions on tensors and on NumPy arrays under the same names
    cache                embeddings that are kept on disk
    embeddings           embeddings of the sentences of pairs, computed once
    identity             everything that decides an embedding
    transformer/         BERT and its relatives as `tf.Module`
    engines/             OpenVINO, which computes hidden states in place of TensorFlow
    checkpoints/         the files of an encoder
    text/                tokenizers, weights of tokens, characters
    other/               SavedModels, word vectors and static models as encoders
    user_model           a TFBertModel of the user's as an encoder
    layer                the encoder as a Keras layer
    graph/               the tokenizers as TensorFlow graphs
    encoder_graph        tokenizer, transformer and pooling in one graph, for exports
    saving               an encoder as a Hugging Face folder
"""

from bert_flow_tf.encoder.pooling import Pooling
from bert_flow_tf.encoder.settings import EncoderSettings

__all__ = ["EncoderSettings", "Pooling"]
