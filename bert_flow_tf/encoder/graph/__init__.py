"""The tokenizers as TensorFlow graphs with the ids of Python; imported only where a graph is made.

Files, in the order in which to read them:

    tokenizer      GraphTokenizer; WordPiece, and the steps of the other kinds
    models         byte-level BPE and unigram
    normalizers    normalizers and splitters of words
    replacements   tables of replaced characters, as SentencePiece has them
"""
