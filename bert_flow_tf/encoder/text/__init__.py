"""Text: its tokens and their ids, weights of tokens, characters.

Files, in the order in which to read them:

    folder             load_tokenizer: chooses the tokenizer of a folder, and reads tokenizer.json
    word_piece         SentenceTokenizer, BERT's, which is the base of the others
    sentence_piece     PieceReader: how SentencePiece reads text with a unigram vocabulary
    pieces             word pieces of many texts at once
    vocabulary_files   tokenizers of folders that have no tokenizer.json
    added_tokens       tokens that were added to a vocabulary
    token_weights      weights of tokens in the mean, by their rarity
    frequency          numbers of sentences with a word or token
    characters         string match by the characters of word pieces
"""
